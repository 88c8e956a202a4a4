"""When and where state is saved: thresholds, the durable store, and the keeper that ties a shard to both."""

from spillway.backup.items import ItemLog
from spillway.backup.keeper import Keeper, Observer, Step
from spillway.backup.promise import Loss, Promise
from spillway.backup.store import ShardStore
from spillway.backup.thresholds import threshold

__all__ = ["ItemLog", "Keeper", "Loss", "Observer", "Promise", "ShardStore", "Step", "threshold"]
