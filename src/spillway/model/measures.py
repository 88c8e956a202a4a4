"""What is measured on a stream net (seed 001, 5.6.3).

| measure | is |
|---|---|
| availability | share of time in which every operator has a heard copy, alive and stable, and no tainted one is heard |
| availability_own | the same, as if nothing spread: an operator is upset only by its own faults |
| availability_any | share of time in which every operator has a copy that is alive and stable, heard or not |
| tainted | tainted tuples at the sinks, but for those that differ by no more than a bound |
| within_bound | those: what comes of a state that its protection keeps within one |
| tainted_share | the same, as a share of all tuples at the sinks in a run without faults |
| output | all tuples at the sinks |
| duplicates | tuples at the sinks beyond those that one copy alone sent: what deduplication let through |
| lost | tuples dropped because whoever should have had them was down, counted where they were dropped |
| delayed | tuples kept for whoever was down or behind, counted where they were kept |
| processor_s | processor seconds used per second, all copies of all operators |

A copy is heard if what it puts out is used: of a group, the active replica. Stable means that its state is complete
and settled, whatever upset it, and that nothing is kept for it: who is behind gives the answers of a while ago. A state
within its bound is settled. The microseconds in which an operator without state processes a tainted tuple are left
out of the first three: at most one cost per tainted tuple, some 1e-8 of the time.
"""

from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.protections.technique import Technique
from spillway.model.zero_or_one import both, either, negated, plus, product
from spillway.san.expressions import Number
from spillway.san.rewards import AtInstant, Measure, TimeAverage


def measures(building: Building, technique: Technique, *, horizon_s: float) -> list[Measure]:
    """All measures of a run of `horizon_s`, in the order of `spillway.records.model.MEASURES`."""
    sinks = [copy for index in building.flow.sinks for copy in building.copies[index]]
    tainted = plus(product(port.port.weight, port.done_tainted) for copy in sinks for port in copy.ports)
    clean = plus(product(port.port.weight, port.done) for copy in sinks for port in copy.ports)
    again = [product(job.cost_s, job.redone) for job in building.jobs.values()]
    busy = plus([*(building.busy(copy) for copy in building.all_copies()), *again])

    expected = expected_output(building, horizon_s=horizon_s)
    # Where values are corrupted too, nothing tells what is off by a bounded amount from what is not.
    within = technique.bounded and not building.faults.corrupts

    def unsettled(copy: CopyPlaces) -> Number:
        return 0 if within else copy.settling

    def behind(copy: CopyPlaces) -> Number:
        logs = [building.kept[copy.index, at] for at in range(len(copy.ports)) if (copy.index, at) in building.kept]
        return either(negated(log.direct) for log in logs)

    def stable(copy: CopyPlaces) -> Number:
        return product(copy.alive, negated(unsettled(copy)), negated(copy.refilling), negated(behind(copy)))

    def own(copy: CopyPlaces) -> Number:
        return product(copy.alive, negated(copy.refilling if within else copy.owning), negated(behind(copy)))

    def heard(copy: CopyPlaces, condition: Number) -> Number:
        return product(technique.speaks(building, copy), condition)

    # All copies of an operator may be heard at once (full replication): then a tainted one is one too many.
    right = both(
        both(
            [
                either(heard(copy, stable(copy)) for copy in copies),
                *(negated(heard(copy, product(copy.alive, unsettled(copy)))) for copy in copies),
            ]
        )
        for copies in building.copies
    )
    alone = both(either(heard(copy, own(copy)) for copy in copies) for copies in building.copies)
    somewhere = both(either(stable(copy) for copy in copies) for copies in building.copies)
    return [
        TimeAverage("availability", right, end=horizon_s),
        TimeAverage("availability_own", alone, end=horizon_s),
        TimeAverage("availability_any", somewhere, end=horizon_s),
        AtInstant("tainted", 0 if within else tainted, at=horizon_s),
        AtInstant("tainted_share", 0 if within else product(1 / expected, tainted), at=horizon_s),
        AtInstant("within_bound", tainted if within else 0, at=horizon_s),
        AtInstant("output", plus([clean, tainted]), at=horizon_s),
        AtInstant("duplicates", building.passed - building.unique, at=horizon_s),
        AtInstant("lost", building.lost, at=horizon_s),
        AtInstant("delayed", building.delayed, at=horizon_s),
        AtInstant("processor_s", product(1 / horizon_s, busy), at=horizon_s),
    ]


def expected_output(building: Building, *, horizon_s: float) -> float:
    """Tuples at the sinks in a run without faults and without copies, on average."""
    flow = building.flow
    reach = sum(
        per * port.weight
        for index in flow.sinks
        for per, port in zip(flow.per_arrival[index], flow.operators[index].ports, strict=True)
    )
    return max(reach * flow.rate * horizon_s, 1.0)
