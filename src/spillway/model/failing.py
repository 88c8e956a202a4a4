"""The activities of faults: crash, recovery, silent corruption (seed 001, 5.3 and 5.4)."""

from collections.abc import Sequence

from spillway.errors import ModelError
from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.keeping import crash_keeps, opens, redo_begins
from spillway.model.zero_or_one import product
from spillway.san.distributions import Deterministic, Exponential
from spillway.san.expressions import total
from spillway.san.parts import Assignment, Case


def add_faults(building: Building) -> None:
    """Declare what may happen to every copy."""
    faults = building.faults
    for unit in units(building):
        members = [copy for machine in unit for copy in machine]
        if faults.crashes:
            _add_crashes(building, unit, members)
        for copy in members:
            at_s = faults.crash_once.get(copy.operator.name)
            if at_s is not None and copy.replica == 0:
                _add_crash_once(building, members, copy, at_s)
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
    placed |= {building.flow.index(name) for name in building.faults.spared}
    alone = [copy for copy in building.all_copies() if copy.index not in placed]
    return [*found, *([copy] for copy in alone)]


def units(building: Building) -> list[list[list[CopyPlaces]]]:
    """Machines whose crashes take the same copies down: those with members of one replica of one job."""
    found: list[list[list[CopyPlaces]]] = []
    for machine in machines(building):
        with_same = [unit for unit in found if building.layout.jobs and _share(building, unit, machine)]
        found = [unit for unit in found if unit not in with_same]
        found.append([*(each for unit in with_same for each in unit), machine])
    return found


def _share(building: Building, unit: list[list[CopyPlaces]], machine: list[CopyPlaces]) -> bool:
    def jobs(copies: Sequence[CopyPlaces]) -> set[tuple[int, int]]:
        return {(building.layout.job(copy.index), copy.replica) for copy in copies}

    return any(jobs(each) & jobs(machine) for each in unit)


def goes_down(building: Building, members: Sequence[CopyPlaces]) -> list[Assignment]:
    """What a crash of everything that goes down together does."""
    return [*redo_begins(building, members), *(each for copy in members for each in crashes(building, copy))]


def comes_back(building: Building, members: Sequence[CopyPlaces]) -> list[Assignment]:
    """What a recovery of the same does."""
    does = [each for copy in members for each in recovers(building, copy)]
    ports = [(copy.index, at) for copy in members for at in range(len(copy.ports))]
    return [*does, *(opens(building, index, at) for index, at in ports if (index, at) in building.kept)]


def crashes(building: Building, copy: CopyPlaces) -> list[Assignment]:
    """What a crash does: what is inside is lost, and whoever depends on it is upset."""
    assert not isinstance(copy.alive, int)
    inside = [place for port in copy.ports for place in port.inside()]
    held = total(*(product(port.port.weight, total(*port.inside())) for port in copy.ports))
    does = [
        *(
            crash_keeps(building, copy)
            if (copy.index, 0) in building.kept
            else [building.lost.add(product(held, building.others_down(copy)))]
        ),
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
            outage = 0 if (copy.index, at) in building.kept else building.arrivals - copy.down_at
            does += port.state.restores(port.port, (outage + age_arrivals) * per_arrival)
        elif restart.state == "bounded":
            allowed = building.allowed[copy.index, at]
            forgets = [building.forgotten[copy.index, at].add(allowed), allowed.set(allowed // 2)]
            does += [*port.state.restores(port.port, allowed), *forgets]
        elif restart.state != "exact":
            nothing_left = 1 if restart.state == "scratch" else building.others_down(copy)
            does += port.state.empties(port.port, nothing_left)
    for dependant in building.dependants(copy):
        does += dependant.mends(building.arrivals)
    return does


def _add_crashes(building: Building, unit: Sequence[Sequence[CopyPlaces]], members: Sequence[CopyPlaces]) -> None:
    alive = members[0].alive
    assert not isinstance(alive, int)
    if building.faults.crash_rate > 0:
        for machine in unit:
            building.net.timed(
                f"{_name(machine)}.crash",
                Exponential(building.faults.crash_rate),
                inputs=[alive == 1],
                outputs=goes_down(building, members),
            )
    building.net.timed(
        f"{_name(members)}.recover",
        Deterministic(building.faults.recovery_s),
        inputs=[alive == 0],
        outputs=comes_back(building, members),
    )


def _name(copies: Sequence[CopyPlaces]) -> str:
    return "+".join(copy.name for copy in copies)


def _add_crash_once(building: Building, members: Sequence[CopyPlaces], copy: CopyPlaces, at_s: float) -> None:
    """A crash at a given second, of whatever goes down with it; none if it is down already."""
    assert not isinstance(copy.alive, int)
    due, struck = building.net.place(f"{copy.name}.due", 1), building.net.place(f"{copy.name}.struck")
    building.net.timed(f"{copy.name}.strike", Deterministic(at_s), inputs=[due], outputs=[struck])
    does = goes_down(building, members)
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
