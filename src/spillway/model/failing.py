"""The activities of faults: crash, recovery, silent corruption (seed 001, 5.3 and 5.4)."""

from collections.abc import Sequence

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.zero_or_one import product
from spillway.san.distributions import Deterministic, Exponential
from spillway.san.expressions import total
from spillway.san.parts import Assignment, Case


def add_faults(building: Building) -> None:
    """Declare what may happen to every copy."""
    faults = building.faults
    for machine in machines(building):
        if faults.crashes:
            _add_crash(building, machine)
        for copy in machine:
            at_s = faults.crash_once.get(copy.operator.name)
            if at_s is not None and copy.replica == 0:
                _add_crash_once(building, machine, copy, at_s)
    if faults.corrupts:
        for copy in building.all_copies():
            _add_corruption(building, copy)


def machines(building: Building) -> list[list[CopyPlaces]]:
    """Copies that crash together; most are alone."""
    found: list[list[CopyPlaces]] = []
    placed: set[int] = set()
    for names in building.faults.together:
        members = [building.flow.index(name) for name in names]
        if len(members) < 2:
            raise ModelError(f"Faults: together wants two operators or more on a machine; got {', '.join(names)}.")
        placed |= set(members)
        for replica in range(max(building.layout.copies[index] for index in members)):
            found.append(
                [building.copies[index][replica] for index in members if replica < len(building.copies[index])]
            )
    alone = [copy for copy in building.all_copies() if copy.index not in placed]
    return [*found, *([copy] for copy in alone)]


def crashes(building: Building, copy: CopyPlaces) -> list[Assignment]:
    """What a crash does: what is inside is lost, and whoever depends on it is upset."""
    assert not isinstance(copy.alive, int)
    inside = [place for port in copy.ports for place in port.inside()]
    held = total(*(product(port.port.weight, total(*port.inside())) for port in copy.ports))
    does = [
        building.lost.add(product(held, building.others_down(copy))),
        *(place.set(0) for place in inside),
        copy.waiting.set(1),
        copy.down_at.set(building.arrivals),
        copy.alive.set(0),
    ]
    if not isinstance(copy.spoil, int):
        does.append(copy.spoil.set(0))
    for dependant in building.dependants(copy):
        does += dependant.cuts(building.arrivals)
    return does


def recovers(building: Building, copy: CopyPlaces) -> list[Assignment]:
    """What a recovery does: state comes back as the layout says, and those who depend on it begin to settle."""
    assert not isinstance(copy.alive, int)
    does = [copy.alive.set(1)]
    restart = building.layout.restarts[copy.index]
    for at, port in enumerate(copy.ports):
        if port.state is None:
            continue
        if restart.state == "checkpoint":
            age_arrivals = restart.age_s * building.flow.rate
            per_arrival = building.flow.per_arrival[copy.index][at]
            does += port.state.restores(port.port, (building.arrivals - copy.down_at + age_arrivals) * per_arrival)
        else:
            nothing_left = 1 if restart.state == "scratch" else building.others_down(copy)
            does += port.state.empties(port.port, nothing_left)
    for dependant in building.dependants(copy):
        does += dependant.mends(building.arrivals)
    return does


def _add_crash(building: Building, machine: Sequence[CopyPlaces]) -> None:
    name = "+".join(copy.name for copy in machine)
    alive = machine[0].alive
    assert not isinstance(alive, int)
    if building.faults.crash_rate > 0:
        building.net.timed(
            f"{name}.crash",
            Exponential(building.faults.crash_rate),
            inputs=[alive == 1],
            outputs=[each for copy in machine for each in crashes(building, copy)],
        )
    building.net.timed(
        f"{name}.recover",
        Deterministic(building.faults.recovery_s),
        inputs=[alive == 0],
        outputs=[each for copy in machine for each in recovers(building, copy)],
    )


def _add_crash_once(building: Building, machine: Sequence[CopyPlaces], copy: CopyPlaces, at_s: float) -> None:
    """A crash at a given second, of whatever shares the machine; none if it is down already."""
    assert not isinstance(copy.alive, int)
    due, struck = building.net.place(f"{copy.name}.due", 1), building.net.place(f"{copy.name}.struck")
    building.net.timed(f"{copy.name}.strike", Deterministic(at_s), inputs=[due], outputs=[struck])
    does = [each for member in machine for each in crashes(building, member)]
    building.net.instant(f"{copy.name}.crash_once", inputs=[struck, copy.alive == 1], outputs=does)
    building.net.instant(f"{copy.name}.miss", inputs=[struck, copy.alive == 0])


def _add_corruption(building: Building, copy: CopyPlaces) -> None:
    assert not isinstance(copy.spoil, int)
    alive = [] if isinstance(copy.alive, int) else [copy.alive == 1]
    states = [port for port in copy.ports if port.state is not None]
    share = building.faults.corrupts_state if states else 0.0
    spoils = Case(1 - share, [copy.spoil.set(1)])
    taints = [each for port in states if port.state for each in port.state.corrupts(port.port)]
    cases = [spoils] if share == 0 else [spoils, Case(share, taints)]
    building.net.timed(f"{copy.name}.corrupt", Exponential(building.faults.corruption_rate), inputs=alive, cases=cases)
