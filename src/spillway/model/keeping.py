"""Streams that keep what a reader cannot take, and readers that catch up.

**Theory.** Where a layout `keeps`, every input port has a log upstream, one for all copies of its operator:

    writer ── direct = 1 ──────────────────────> clean or tainted place of every copy that is alive
           └─ direct = 0 ──> kept, kept tainted ── catch up, one by one ──┘

`direct` is a flag of events: it falls when no copy is alive, or nobody speaks for a group upstream, and rises when
somebody is there and all that was kept has been taken. Until then what comes is put behind what is kept. What was
inside the last copy that was alive, when it crashes, is kept as well: its input was not acknowledged, so it is read
again. Clean tuples are taken before tainted ones. So of every tuple that ever reached a port this holds in every
marking: it was processed there, or is inside a copy, or is kept.

A job with a `Redo` first does again what it had taken in since it last saved itself. What comes of that its readers
have already, so it costs time and processors and puts out nothing; then the job catches up.

Both go `kept.catch_up` times as fast as tuples come from outside: as fast as the busiest operator can, by the costs
of the profile, and no more than a hundred times. Both are clocks, so that the law of `forwarding` can skip them: an
outage of seconds at a million tuples a second is a few jumps.
"""

from collections.abc import Sequence

from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces
from spillway.model.kept import JobPlaces, fed_from
from spillway.model.zero_or_one import both, either, negated, product
from spillway.san.distributions import Deterministic
from spillway.san.expressions import Expression, Number, ceil, expression, maximum, total
from spillway.san.parts import Assignment


def crash_keeps(building: Building, copy: CopyPlaces) -> list[Assignment]:
    """What is inside a copy that crashes is kept, unless another copy has it too."""
    alone = building.others_down(copy)
    does = []
    for at, port in enumerate(copy.ports):
        kept = building.kept[copy.index, at]
        again = [port.clean, port.processing, port.processing_spoiled, *port.sending, *port.sending_tainted]
        does += [
            kept.clean.add(product(total(*again), alone)),
            kept.tainted.add(product(port.tainted + port.processing_tainted, alone)),
            kept.direct.set(product(kept.direct, negated(alone))),
        ]
    return does


def redo_begins(building: Building, members: Sequence[CopyPlaces]) -> list[Assignment]:
    """The jobs of what crashed have to do again what they had not saved."""
    jobs = dict.fromkeys(building.layout.job(copy.index) for copy in members)
    found = [building.jobs[job] for job in jobs if job in building.jobs]
    return [each.redo.set(maximum(ceil(each.taken - each.saved), 0)) for each in found]


def opens(building: Building, index: int, at: int) -> Assignment:
    """Whether what comes now is taken at once."""
    kept = building.kept[index, at]
    return kept.direct.set(both([kept.clean == 0, kept.tainted == 0, ready(building, index, at)]))


def ready(building: Building, index: int, at: int) -> Number:
    """Whether somebody is there to take what is kept for a port, and somebody to send it."""
    job = building.jobs.get(building.layout.job(index))
    conditions: list[Number] = [either(copy.alive for copy in building.copies[index])]
    if job is not None:
        conditions.append(job.redo == 0)
    for group in sorted(feeding_groups(building, index, at)):
        member = building.layout.members(group)[0]
        conditions.append(either(building.gates[member, each.replica] for each in building.copies[member]))
    return both(conditions)


def redoing(building: Building, job: JobPlaces) -> Expression:
    """Whether a job is back and does things again."""
    return expression(both([job.redo > 0, building.copies[job.members[0]][0].alive]))


def feeding_groups(building: Building, index: int, at: int) -> set[int]:
    """Groups that write to a port from outside."""
    found = {building.layout.groups[writer] for writer in fed_from(building.flow, (index, at))}
    return found - {-1, building.layout.groups[index]}


def add_keeping(building: Building) -> None:
    """Declare how ports catch up and jobs do things again."""
    for (index, at), kept in building.kept.items():
        copies = [(copy, copy.ports[at]) for copy in building.copies[index]]
        room = [port.clean + port.tainted < building.buffer_tuples for _, port in copies]
        here = expression(both([ready(building, index, at), *room]))
        for tainted, place in ((False, kept.clean), (True, kept.tainted)):
            building.net.timed(
                kept.clock(tainted=tainted),
                Deterministic(kept.period_s),
                inputs=[place, here, *([kept.clean == 0] if tainted else [])],
                outputs=[
                    *((port.tainted if tainted else port.clean).add(copy.alive) for copy, port in copies),
                    opens(building, index, at),
                ],
            )
    for job in building.jobs.values():
        ports = [(index, at) for index in job.members for at in range(len(building.flow.operators[index].ports))]
        building.net.timed(
            job.clock,
            Deterministic(job.period_s),
            inputs=[job.redo, redoing(building, job)],
            outputs=[job.redone.add(1), *(opens(building, index, at) for index, at in ports)],
        )
