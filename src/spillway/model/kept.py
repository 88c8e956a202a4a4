"""The places of what waits: logs upstream of input ports, and what jobs have to do again. `keeping` has the theory."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillway.model.copies import CopyPlaces
from spillway.model.flow import Flow
from spillway.model.layout import Layout
from spillway.san.expressions import Expression, floor, maximum, total
from spillway.san.net import Net
from spillway.san.parts import Place

CATCH_UP_MAX = 100.0
CATCH_UP_LEAST = 1.05

PortKey = tuple[int, int]
"""An operator and a port, by their places in the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlaces:
    """What waits upstream of an input port, for all copies of its operator."""

    name: str
    clean: Place
    tainted: Place
    direct: Place
    period_s: float  # from one tuple to the next while it catches up

    def clock(self, *, tainted: bool) -> str:
        return f"{self.name}.catch_up{'_tainted' if tainted else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaces:
    """What a job has to do again."""

    members: tuple[int, ...]
    redo: Place
    redone: Place
    period_s: float
    saved: Expression  # how much of what it ever took in it has saved
    taken: Expression
    cost_s: float  # of one tuple it takes in, for all its operators

    @property
    def clock(self) -> str:
        return f"{self.redo.name}_one"


def catch_up(layout: Layout) -> float:
    """How many times as fast as tuples come from outside they can be caught up with."""
    if layout.catch_up is not None:
        return layout.catch_up
    return min(CATCH_UP_MAX, max(CATCH_UP_LEAST, 1 / layout.flow.busiest))


def kept_places(net: Net, layout: Layout) -> dict[PortKey, KeptPlaces]:
    """The logs of all ports of operators for which something is kept."""
    found = {}
    for index, operator in enumerate(layout.flow.operators):
        if not layout.keeps_for(index):
            continue
        for at, port in enumerate(operator.ports):
            name = f"{operator.name}.{port.name}"
            found[index, at] = KeptPlaces(
                name=name,
                clean=net.place(f"{name}.kept"),
                tainted=net.place(f"{name}.kept_tainted"),
                direct=net.place(f"{name}.direct", 1, rarely=True),
                period_s=_period_s(layout, [(index, at)]),
            )
    return found


def job_places(net: Net, layout: Layout, copies: Sequence[Sequence[CopyPlaces]]) -> dict[int, JobPlaces]:
    """The jobs that do something again."""
    found = {}
    flow = layout.flow
    for job, redo in layout.redo.items():
        members = layout.of_job(job)
        ports = _entries(flow, members)
        places = [copies[index][0].ports[at] for index, at in ports]
        taken = total(*(place.done + place.done_tainted for place in places))
        per_s = flow.rate * sum(flow.per_arrival[index][at] for index, at in ports)
        every, offset, lag = max(redo.every_s * per_s, 1.0), redo.offset_s * per_s, redo.lag_s * per_s
        name = "+".join(flow.operators[index].name for index in members)
        found[job] = JobPlaces(
            members=members,
            redo=net.place(f"{name}.redo"),
            redone=net.place(f"{name}.redone"),
            period_s=_period_s(layout, ports),
            saved=maximum(floor((taken - lag + offset) / every) * every - offset, 0),
            taken=taken,
            cost_s=_work(flow, members) / per_s if per_s else 0.0,
        )
    return found


def fed_from(flow: Flow, port: PortKey) -> set[int]:
    """The operators that write to a port."""
    return {link.source for link in flow.links if (link.target, link.port) == port}


def _entries(flow: Flow, members: Sequence[int]) -> list[PortKey]:
    """The ports by which tuples enter a job; all of its ports, if only its own operators and clocks write to them."""
    every = [(index, at) for index in members for at in range(len(flow.operators[index].ports))]
    return [
        (index, at)
        for index, at in every
        if flow.operators[index].ports[at].trigger_s is None and not fed_from(flow, (index, at)) & set(members)
    ] or every


def _period_s(layout: Layout, ports: Sequence[PortKey]) -> float:
    flow = layout.flow
    reach = sum(flow.per_arrival[index][at] for index, at in ports)
    if reach == 0:  # nothing comes, so nothing is kept
        return max(flow.operators[index].ports[at].cost_s for index, at in ports)
    return 1 / (catch_up(layout) * flow.rate * reach)


def _work(flow: Flow, members: Sequence[int]) -> float:
    """Processor seconds per second that operators use, without faults."""
    return flow.rate * sum(
        reach * port.cost_s
        for index in members
        for reach, port in zip(flow.per_arrival[index], flow.operators[index].ports, strict=True)
    )
