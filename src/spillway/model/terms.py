"""The terms of a protection: what it costs on one operator, and what a fault of that operator then leaves.

Terms are found from a declaration by ``terms_of``, as policies and techniques are; each is in the file of its
technique. To have another protection take part in plans, declare it, and register its terms and the settings worth
trying, in a module of its own::

    @terms_of.register(Hourly)
    def hourly(protection: Hourly, of: Measured, around: Circumstances) -> Terms:
        return Terms(cost=Cost(written_bytes_per_s=of.state_bytes / 3600), effect=around.restarted(stale_s=3600.0))

    @proposes
    def settings(of: Measured) -> tuple[Hourly, ...]:
        return (Hourly(),) if of.stateful else ()

**Theory.** An operator that is down is as its template says (``model.protections``): what is sent to it meanwhile is
lost, or kept by whoever sends it, or taken by a replica; and its state comes back whole, or stale, or not at all.
State that is stale by s seconds lacks what came in them, so it counts as s more seconds lost (as in ``inject``:
``Assumed``); if its input is kept and only its state is stale, that is told apart. What so many lost seconds do to the
answer is no matter of terms: that is measured, by faults.

Costs are those *beside* the operator's own work. All are at most what is said, under two assumptions: backups of an
interval write what as many backups of a single batch would, or all of the state if that is less; and what senders keep
in memory is all that came since the last backup, and all that comes in one restart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, TypeVar

from spillway.errors import ModelError
from spillway.given import is_number

BUSIEST = 0.95
"""The share of its time for which an operator is taken to work at most: a busier one would never catch up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far the state of one shard gets from a backup in so many seconds, in its metric: at least, and at most."""

    age_s: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An operator in use, all its shards together, as its profile has it."""

    operator: str
    stateful: bool
    cores: float  # that its own work takes
    tuples_per_s: float  # that reach it
    bytes_per_s: float  # that reach it
    state_bytes: float = 0.0
    changed_bytes_per_s: float = 0.0  # of its state, if every batch writes what it changed
    shards: int = 1  # that share its work
    drifts: tuple[Drift, ...] = ()  # by age, each longer than the one before
    threshold: float = 0.0  # of a theta of 1: what a shard that has not failed yet may diverge

    def written_bytes_per_s(self, every_s: float) -> float:
        """What backups every so often write at most."""
        return min(self.changed_bytes_per_s, self.state_bytes / every_s)

    def stale_s(self, divergence: float) -> float:
        """How old a backup is at most while the state diverges by no more than that; infinite if that was not seen."""
        return next((drift.age_s for drift in self.drifts if drift.least >= divergence), math.inf)

    def diverges_s(self, divergence: float) -> float:
        """How soon the state diverges by that at the earliest; infinite if that was not seen."""
        before_s, before = 0.0, 0.0
        for drift in self.drifts:
            if drift.most >= divergence:
                return before_s + (drift.age_s - before_s) * (divergence - before) / max(drift.most - before, 1e-300)
            before_s, before = drift.age_s, max(before, drift.most)
        return math.inf

    def caught_up_s(self, *, down_s: float, again_s: float) -> float:
        """From a crash until all that came has been done, ``again_s`` of it once more, at the speed of its work."""
        share = min(self.cores / self.shards, BUSIEST)
        return down_s + (down_s + again_s) * share / (1 - share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What restarts and backups take where the graph runs."""

    restart_s: float  # from a crash until the operator is there again
    takeover_s: float  # from the moment a crash was noticed until a replica speaks
    batch_s: float  # from one commit to the next
    write_core_s_per_byte: float  # processor time of a durable byte
    write_core_s: float  # and of a durable file, however small
    write_s: float  # how long a batch waits for a durable file
    process_bytes: float  # memory of one more process, before it does anything

    def __post_init__(self) -> None:
        for name in ("restart_s", "batch_s", "process_bytes"):
            self._check(name, above=0.0)
        for name in ("takeover_s", "write_core_s_per_byte", "write_core_s", "write_s"):
            self._check(name, above=-1e-300)

    def restarted(self, *, stale_s: float = 0.0, forgets: bool = False) -> "Effect":
        """What a fault leaves of an operator to which nobody sends again what it missed."""
        return Effect(lost_s=self.restart_s + stale_s, forgets=forgets, back_s=self.restart_s)

    def writing(self, *, bytes_per_s: float, files_per_s: float) -> float:
        """Cores that durable writes take."""
        return self.write_core_s_per_byte * bytes_per_s + self.write_core_s * files_per_s

    def _check(self, name: str, *, above: float) -> None:
        value = getattr(self, name)
        if not is_number(value, above=above):
            raise ModelError(f"Circumstances: {name} must be a number, {max(above, 0):g} or more; got {value!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a protection takes, while nothing fails, beside the operator's own work."""

    cores: float = 0.0
    memory_bytes: float = 0.0
    written_bytes_per_s: float = 0.0  # made durable
    latency_s: float = 0.0  # by which every batch is later


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a fault of an operator leaves under a protection."""

    lost_s: float = 0.0  # of what reaches it: so many seconds are lost
    forgets: bool = False  # whether all of its state is lost beside
    stale_s: float = 0.0  # or how old it is, while nothing of what reaches it is lost
    back_s: float  # until it answers again, having caught up

    @property
    def lossless(self) -> bool:
        """Whether the answer is right in the end, if late."""
        return self.lost_s == 0 and not self.forgets and self.stale_s == 0

    @property
    def keeps_input(self) -> bool:
        """Whether its senders keep for it what it cannot take."""
        return self.lost_s == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a protection costs on an operator, and what it buys."""

    cost: Cost
    effect: Effect
    everywhere: bool = False  # whether all operators of a graph have it, or none


@singledispatch
def terms_of(protection: object, of: Measured, around: Circumstances) -> Terms:
    """The terms of a protection on an operator; each protection enters its own with ``register``."""
    raise ModelError(
        f"Operator {of.operator!r}: nothing says what the protection {type(protection).__name__} costs, so no plan can "
        f"weigh it. Register its terms in the module that declares it (see spillway.model.terms)."
    )


Proposer = Callable[[Measured], Sequence[Any]]
P = TypeVar("P", bound=Proposer)

_PROPOSERS: list[Proposer] = []


def proposes(settings: P) -> P:
    """Enter a function that says which settings of a protection are worth weighing on an operator."""
    _PROPOSERS.append(settings)
    return settings


def proposals(of: Measured) -> tuple[Any, ...]:
    """The protections worth weighing on an operator, in the order in which they were entered."""
    return tuple(protection for settings in _PROPOSERS for protection in settings(of))
