"""What acts on a protection: one policy for each declaration, one file for each policy.

A declaration (``graph.protections``) says what is wanted; its policy says what a shard does about it, batch by batch
and when its memory is lost. ``policy_of`` finds the policy from the declaration, and refuses what it does not know.
To add a protection, declare it and register its policy beside the declaration, or in a file of its own here:

    @policy_of.register(Hourly)
    class HourlyPolicy(Policy[Hourly]):
        def is_due(self, batch: Committing) -> bool:
            return batch.since_backup_s >= 3600
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Generic, TypeVar

from spillway.backup.thresholds import Sharing
from spillway.errors import GraphError
from spillway.graph.protections import Protection

P = TypeVar("P", bound=Protection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """A batch that is about to be committed, and what came since the last backup that counts."""

    tuples: int  # of this batch
    changed: bool  # whether anything a recovery gives back differs from before the batch
    divergence: float
    threshold: float
    tuples_since_backup: int
    batches_since_backup: int
    since_backup_s: float
    checkpoint: bool  # whether all shards of the job save this batch


class Policy(ABC, Generic[P]):
    """What a shard does for its protection. A limit is divided over the shards of an operator as ``sharing`` says."""

    def __init__(self, protection: P) -> None:
        self.protection = protection
        assert protection.keeps_items or not self.replays_items, protection

    @abstractmethod
    def is_due(self, batch: Committing) -> bool:
        """Whether a backup is wanted before this batch is committed; the keeper adds those that windows ask for."""

    def threshold(self, sharing: Sharing, *, failures: int) -> float:
        """The divergence allowed after so many failures that count; 0 where none is allowed, or none is known."""
        return 0.0

    def divergence_max(self, sharing: Sharing, *, failures_in_backup: int, failures: int) -> float:
        """How far a state recovered after ``failures`` failures that count can be from the one lost.

        The backup knows of ``failures_in_backup`` of them; what the others cost is missing from it.
        """
        return self.protection.loss_max

    def items_max(self, sharing: Sharing, *, failures: int) -> float:
        """The items that a receiver may have lost at the last of so many failures that count."""
        return 0.0

    @property
    def leaves_out_light_chunks(self) -> bool:
        """Whether a backup need hold only so much of what changed that the rest diverges by less than is allowed."""
        return False

    @property
    def writes_behind(self) -> bool:
        """Whether a backup may become durable after its batch was committed: only where a stale one is allowed."""
        return False

    @property
    def drops_stale(self) -> bool:
        """Whether a recovered window drops what would have left it meanwhile, by estimate; never where a bound holds
        for what is recovered, nor where nothing is lost."""
        return False

    @property
    def goes_back_with_job(self) -> bool:
        """Whether a shard is only ever saved at, and taken back to, a batch that its whole job is."""
        return False

    @property
    def replays_items(self) -> bool:
        """Whether a recovery applies the tuples since the last backup again; its declaration then keeps items."""
        return False

    def trim_to(self, *, batch: int, backup_batch: int) -> int:
        """The last batch whose items no recovery can ask for, while ``batch`` is applied and a backup has the other."""
        return backup_batch if self.replays_items else batch - 1


@singledispatch
def policy_of(protection: Protection) -> Policy[Any]:
    """The policy of a protection, found from its declaration; each policy enters itself with ``register``."""
    raise _nothing_acts_on(protection, who="A policy is wanted")


def protections() -> tuple[type[Protection], ...]:
    """The declarations that have a policy, in the order in which these were registered."""
    return tuple(declared for declared in policy_of.registry if issubclass(declared, Protection))


def check_protection(who: str, protection: Protection) -> None:
    """Refuse, on behalf of ``who``, a protection that nothing acts on."""
    if not isinstance(protection, protections()):
        raise _nothing_acts_on(protection, who=who)


def _nothing_acts_on(protection: object, *, who: str) -> GraphError:
    *names, last = (declared.__name__ for declared in protections())
    return GraphError(
        f"{who}: nothing acts on the protection {type(protection).__name__}, so nothing would ever be saved. Protect "
        f"it by {', '.join(names)} or {last}, or register a policy for it in the module that declares it (see "
        f"spillway.backup.policies)."
    )
