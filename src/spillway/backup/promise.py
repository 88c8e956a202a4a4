"""What a shard has promised, and what a failure of it can have cost."""

from dataclasses import dataclass, field
from typing import Any

from spillway.backup.policies import Policy, check_protection, policy_of
from spillway.backup.spread import Spread
from spillway.backup.thresholds import Sharing
from spillway.graph.protections import Protection
from spillway.graph.windows import Decaying, Windowing


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What a recovery cost at most, and what that can add up to over all of the shard's state.

    ``divergence_max`` is in the metric of the state. Under ``max`` it is what *each* number may be off by, so n of
    them together by n times as much (``total_over(n)``); under ``l1`` it is the total itself.
    """

    batch: int  # the batch that begins from the recovered state
    backup_batch: int  # the batch of the backup it came from; -1 for none
    failures: int  # of this shard, this one included
    divergence_max: float  # how far the recovered state can be from the one lost; infinite if nothing bounds it
    items_max: float  # items that a receiver may have lost with it, as far as the protection names a limit
    lost_chunks: int  # chunks of the backup that were damaged
    damage: str = ""  # which files
    stale_tuples: float = 0.0  # that a window of so many tuples has to drop, by estimate: see operators.stale
    spread: Spread = field(default_factory=Spread)  # what the recovered state consists of

    @property
    def metrics(self) -> tuple[str, ...]:
        """Those of the state; ``own`` if the operator measures its divergence itself."""
        return self.spread.metrics

    @property
    def numbers(self) -> int:
        """How many numbers, or keys, the recovered state has; keys that came after the backup are missing from it."""
        return self.spread.numbers

    @property
    def total_max(self) -> float:
        """The most that all errors add up to, missing keys included; infinite where nothing bounds it.

        That is so under ``max`` and ``l2`` for tables, since nobody knows here how many keys were lost with them.
        """
        return self.spread.total_max(self.divergence_max)

    def total_over(self, numbers: float) -> float:
        """The most that the errors add up to if the state lost had so many keys, as the records say."""
        return self.spread.total_over(numbers, self.divergence_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a shard has to keep, and who it is."""

    operator: str
    shard: int
    shards: int
    protection: Protection
    adding_up: int | None = None  # shards whose divergence adds up: see spread; None for all of them
    downstream_outputs_max: float = 1.0
    windowing: Windowing | None = None

    def __post_init__(self) -> None:
        check_protection(f"Operator {self.operator!r}", self.protection)

    @property
    def policy(self) -> Policy[Any]:
        """What acts on the protection."""
        return policy_of(self.protection)

    def threshold(self, failures: int) -> float:
        """The divergence allowed after so many failures that count; 0 for protections that allow none or know none."""
        return self.policy.threshold(self._sharing, failures=failures)

    def divergence_max(self, *, failures_in_backup: int, failures: int) -> float:
        """How far a state recovered after ``failures`` failures that count can be from the one lost.

        The backup knows of ``failures_in_backup`` of them; what the others cost is missing from it.
        """
        return self.policy.divergence_max(self._sharing, failures_in_backup=failures_in_backup, failures=failures)

    def items_max(self, failures: int) -> float:
        """The items that a receiver may have lost at the last of so many failures that count."""
        return self.policy.items_max(self._sharing, failures=failures)

    @property
    def _sharing(self) -> Sharing:
        return Sharing(
            shards=self.shards,
            adding_up=self.shards if self.adding_up is None else self.adding_up,
            downstream_outputs_max=self.downstream_outputs_max,
            decaying=isinstance(self.windowing, Decaying),
        )
