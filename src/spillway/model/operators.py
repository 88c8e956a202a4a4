"""The activities of one copy of an operator: waiting, processing, sending (seed 001, 5.2.1 and 5.4)."""

from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces, PortPlaces
from spillway.model.flow import Case as Outcome
from spillway.model.flow import Port
from spillway.model.zero_or_one import negated, never, product
from spillway.san.distributions import Deterministic, Exponential
from spillway.san.expressions import Expression, Number, maximum, where
from spillway.san.parts import Assignment, Case, Input, InputGate, Output


def add_operator(building: Building, copy: CopyPlaces) -> None:
    """Declare what a copy does with tuples."""
    for port in copy.ports:
        name = f"{copy.name}.{port.port.name}"
        if port.port.parallel:
            _add_parallel(building, copy, port, name)
            continue
        _add_taking(building, copy, port, name)
        _add_processing(building, copy, port, name)
        _add_sending(building, copy, port, name)
        if port.port.trigger_s is not None:
            _add_trigger(building, copy, port, name, port.port.trigger_s)


def chances(building: Building, copy: CopyPlaces, port: Port, case: Outcome) -> tuple[Number, Number]:
    """How likely a clean tuple has an outcome with clean output, and with tainted output."""
    usual: Number = case.probability
    if not never(copy.refilling):
        usual = where(copy.refilling, building.faults.refilling_selectivity * usual, usual)
    if never(copy.settling):
        return usual, 0
    return where(copy.settling, 0, usual), where(copy.settling, tainted_chance(building, copy, port, case), 0)


def tainted_chance(building: Building, copy: CopyPlaces, port: Port, case: Outcome) -> float:
    """How likely a tainted tuple has an outcome: selectivity below 1 varies (seed 001, 5.6.2).

    All cases of a port rise by the same factor, and by no more than makes output certain.
    """
    faults = building.faults
    variation = faults.variation_stateful if copy.operator.stateful else faults.variation_stateless
    usual = sum(each.probability for each in port.cases)
    return case.probability * (min(1 + variation, 1 / usual) if usual else 1.0)


def _add_taking(building: Building, copy: CopyPlaces, port: PortPlaces, name: str) -> None:
    here: list[Input] = [copy.waiting]
    if not isinstance(copy.alive, int):
        here.append(copy.alive == 1)
    if isinstance(copy.spoil, int):
        building.net.instant(f"{name}.take", inputs=[*here, port.clean], outputs=[port.processing])
    else:
        unspoiled: list[Input] = [*here, port.clean, copy.spoil == 0]
        building.net.instant(f"{name}.take", inputs=unspoiled, outputs=[port.processing])
        spoiled: list[Input] = [*here, port.clean, copy.spoil]
        building.net.instant(f"{name}.take_spoiled", inputs=spoiled, outputs=[port.processing_spoiled])
    building.net.instant(f"{name}.take_tainted", inputs=[*here, port.tainted], outputs=[port.processing_tainted])


def _add_processing(building: Building, copy: CopyPlaces, port: PortPlaces, name: str) -> None:
    cost = Deterministic(port.port.cost_s / building.haste)
    counts = port.state.counts() if port.state else []
    clean = InputGate(1, [port.done.add(1), *counts], name="count")
    building.net.timed(
        f"{name}.process",
        cost,
        inputs=[port.processing, clean],
        cases=_cases(copy, port, [chances(building, copy, port.port, case) for case in port.port.cases]),
    )
    tainted: list[tuple[Number, Number]] = [
        (0, tainted_chance(building, copy, port.port, case)) for case in port.port.cases
    ]
    enters = port.state.taints(port.port) if port.state else []
    building.net.timed(
        f"{name}.process_tainted",
        cost,
        inputs=[port.processing_tainted, InputGate(1, [port.done_tainted.add(1), *enters], name="taint")],
        cases=_cases(copy, port, tainted),
    )
    if not isinstance(copy.spoil, int):
        # What is spoiled on the way out leaves the state as a clean tuple does.
        spoiled = InputGate(1, [port.done_tainted.add(1), *counts], name="count")
        building.net.timed(
            f"{name}.process_spoiled",
            cost,
            inputs=[port.processing_spoiled, spoiled],
            cases=_cases(copy, port, tainted),
        )


def _add_sending(building: Building, copy: CopyPlaces, port: PortPlaces, name: str) -> None:
    for at, case in enumerate(port.port.cases):
        room = building.room(copy, case.puts)
        ready = [room] if isinstance(room, Expression) else []
        for tainted, place in ((False, port.sending[at]), (True, port.sending_tainted[at])):
            does: list[Output] = [*building.delivers(copy, case.puts, tainted=tainted), copy.waiting]
            kind = "_tainted" if tainted else ""
            building.net.instant(f"{name}.send{kind}_{at}", inputs=[place, *ready], outputs=does)


def _add_trigger(building: Building, copy: CopyPlaces, port: PortPlaces, name: str, every_s: float) -> None:
    """A clock writes to the port; what it should have written while the copy was down is kept or left out."""
    clock = Deterministic(every_s)
    kept = building.kept.get((copy.index, copy.ports.index(port)))
    if kept is None:
        alive = [] if isinstance(copy.alive, int) else [copy.alive == 1]
        building.net.timed(f"{name}.trigger", clock, inputs=[*alive, port.clean < 1], outputs=[port.clean])
        return
    does = [port.clean.add(product(kept.direct, copy.alive))]
    if copy.replica == 0:
        does += [kept.clean.add(1 - kept.direct), building.delayed.add(1 - kept.direct)]
    building.net.timed(f"{name}.trigger", clock, inputs=[port.clean < 1], outputs=does)


def _add_parallel(building: Building, copy: CopyPlaces, port: PortPlaces, name: str) -> None:
    """Any number of tuples at once: the more there are, the sooner one is through."""
    for tainted, place in ((False, port.clean), (True, port.tainted)):
        done = port.done_tainted if tainted else port.done
        outcomes = [
            Case(case.probability, building.delivers(copy, case.puts, tainted=tainted)) for case in port.port.cases
        ]
        rest = 1 - sum(case.probability for case in port.port.cases)
        building.net.timed(
            f"{name}.process{'_tainted' if tainted else ''}",
            Exponential(place / port.port.cost_s),
            inputs=[place, InputGate(1, [done.add(1)], name="count")],
            cases=[*outcomes, *([Case(rest)] if rest > 1e-12 else [])],
        )


def _cases(copy: CopyPlaces, port: PortPlaces, given: list[tuple[Number, Number]]) -> list[Case]:
    cases: list[Case] = []
    left: Number = 1
    for at, (clean, tainted) in enumerate(given):
        for chance, place in ((clean, port.sending[at]), (tainted, port.sending_tainted[at])):
            if not never(chance):
                cases.append(Case(chance, [place]))
                left = left - chance
    if isinstance(left, Expression):
        # Chances that add up to 1 but for rounding must not leave less than nothing over.
        cases.append(Case(maximum(left, 0), [copy.waiting]))
    elif left > 1e-12:
        cases.append(Case(left, [copy.waiting]))
    return cases


def arrival_outputs(building: Building, index: int) -> list[Assignment]:
    """A tuple from outside reaches the copies of a source operator that are alive."""
    copies = building.copies[index]
    does = [building.arrivals.add(1)]
    kept = building.kept.get((index, 0))
    weight = building.flow.operators[index].ports[0].weight
    if kept is not None:
        behind = 1 - kept.direct
        does += [copy.ports[0].clean.add(product(kept.direct, copy.alive)) for copy in copies]
        return [*does, kept.clean.add(behind), building.delayed.add(product(weight, behind))]
    does += [copy.ports[0].clean.add(copy.alive) for copy in copies]
    if all(not isinstance(copy.alive, int) for copy in copies):
        does.append(building.lost.add(product(weight, *(negated(copy.alive) for copy in copies))))
    return does
