"""State is saved when it diverges by more than is allowed just then (seed 002, 3.4 and 3.5).

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is kept upstream, as is what was inside | state off by a threshold | off by it, late | one copy |

A tuple is taken to move the state by 1 in its metric, so theta is so many tuples. After k failures of an operator at
most Θ/2^(k+1) are missing from what it comes back with, and all of that is: the worst case. All failures together cost
less than theta, however many there are (`invariant`).

**What counts as tainted.** While a state lacks something, what comes of it is marked, as with a checkpoint, and so is
what operators downstream make of it, until all have settled. But it is off by no more than was allowed. So it is
counted as `within_bound`, not as tainted, and an operator whose state is within the bound is available. Corrupted
values are bounded by nothing: where there is silent corruption too, nothing tells the two apart, and everything that is
marked counts as tainted.

Sources can be read again: items that a receiver may lose are not modelled.
"""

import math
from dataclasses import dataclass

from spillway.errors import ModelError
from spillway.graph.protections import Approximate
from spillway.model.construction import Building
from spillway.model.flow import Flow
from spillway.model.layout import EXACT, Layout, Restart, plain
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Effect, Measured, Terms, proposes, terms_of
from spillway.model.zero_or_one import both
from spillway.san.expressions import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedState(Technique):
    """Each operator with state comes back with all but `theta_tuples` / 2^(k+1) of it, at its failure k from 0 on."""

    theta_tuples: float
    catch_up: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.theta_tuples < 2**52:
            raise ModelError(f"BoundedState: theta_tuples must be 0 or more; got {self.theta_tuples!r}.")

    @property
    def name(self) -> str:
        return "approximate"

    @property
    def bounded(self) -> bool:
        return True

    def layout(self, flow: Flow) -> Layout:
        states = {each.name: Restart(state="bounded") if each.stateful else EXACT for each in flow.operators}
        return plain(flow, restarts=states, keeps=True, catch_up=self.catch_up)

    def places_of(self, building: Building, index: int) -> None:
        operator = building.flow.operators[index]
        for at, port in enumerate(operator.ports):
            if port.stateful:
                name = f"{operator.name}.{port.name}"
                half = int(self._theta_tokens(building.flow, index, at)) // 2
                building.allowed[index, at] = building.net.place(f"{name}.allowed", half)
                building.forgotten[index, at] = building.net.place(f"{name}.forgotten")

    def invariant(self, building: Building) -> Number:
        """No port has forgotten more than its share of theta."""
        return both(
            place <= self._theta_tokens(building.flow, index, at) for (index, at), place in building.forgotten.items()
        )

    def _theta_tokens(self, flow: Flow, index: int, at: int) -> float:
        """Theta is the operator's; its ports with state share it."""
        ports = flow.operators[index].ports
        return self.theta_tuples / sum(port.stateful for port in ports) / ports[at].weight


@technique_of.register(Approximate)
def bounded_state(protection: Approximate, around: Around) -> Technique:
    if protection.items or protection.unacked:
        raise ModelError(
            f"Flow {around.flow.name!r}: what a receiver may lose is not modelled. Ask for {protection.describe()} "
            f"without items and unacked, as for a source that can be read again."
        )
    return BoundedState(theta_tuples=protection.theta, catch_up=around.catch_up)


@terms_of.register(Approximate)
def terms(protection: Approximate, of: Measured, around: Circumstances) -> Terms:
    """Its input is kept; its state is as old as it may get before it diverges by the threshold of the first failure.

    Later failures have smaller thresholds, and backups after them are more frequent, which is not counted.
    """
    if protection.items or protection.unacked:
        raise ModelError(
            f"Operator {of.operator!r}: what a receiver may lose is not weighed. Ask for {protection.describe()} "
            f"without items and unacked, as for a source that can be read again."
        )
    threshold = protection.theta * of.threshold
    stale_s, every_s = of.stale_s(threshold), max(of.diverges_s(threshold), around.batch_s)
    written = of.written_bytes_per_s(every_s)
    cost = Cost(
        cores=around.writing(bytes_per_s=written, files_per_s=1 / every_s),
        memory_bytes=of.state_bytes + of.bytes_per_s * (around.restart_s + around.batch_s),
        written_bytes_per_s=written,
        latency_s=around.write_s if every_s == around.batch_s else 0.0,
    )
    back_s = of.caught_up_s(down_s=around.restart_s, again_s=around.batch_s)
    # A theta that the state was never seen to use up is one under which nobody knows how old a backup gets.
    forgets = math.isinf(stale_s)
    return Terms(cost=cost, effect=Effect(forgets=forgets, stale_s=0.0 if forgets else stale_s, back_s=back_s))


@proposes
def settings(of: Measured) -> tuple[Approximate, ...]:
    """The thetas that the state uses up in the times over which it was watched, rounded down."""
    thetas = dict.fromkeys(_rounded_down(drift.least / of.threshold) for drift in of.drifts if drift.least > 0)
    return tuple(Approximate(theta=theta) for theta in thetas)


def _rounded_down(number: float) -> float:
    """To two digits.

    >>> [_rounded_down(number) for number in (1234.5, 0.0567, 8.0)]
    [1200.0, 0.056, 8.0]
    """
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.floor(number / unit * (1 + 1e-12)) * unit:.2g}")
