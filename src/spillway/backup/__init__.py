"""When and where state is saved: thresholds, the durable store, and the keeper that ties a shard to both."""

from spillway.backup.keeper import Keeper, Loss, Observer, Promise, Step
from spillway.backup.store import ShardStore
from spillway.backup.thresholds import threshold

__all__ = ["Keeper", "Loss", "Observer", "Promise", "ShardStore", "Step", "threshold"]
