"""Jobs that save all their operators together now and then, and go back to that (seed 003, 4.2 to 4.4).

| while a reader is down | it comes back with | its output then | it costs |
|---|---|---|---|
| what is sent to it is kept upstream, as is what was inside | its state, exactly | right, and late | one copy |

When one operator of a job crashes, all of the job goes down and comes back. It reads again what it had read since its
last checkpoint, at the speed of processing: the older that is, the longer it takes. What comes of it readers have
already. Then it catches up (`keeping`). Jobs that read from it wait meanwhile.

*Uncoordinated* checkpoints count at once, and jobs take theirs one after the other, evenly spread over the interval. A
*coordinated* one counts when the jobs downstream have theirs of what was written before it: all are taken at the same
time, and each step downstream adds a batch until one counts. For a graph in one job the two are the same. The tail of
the stream log that an uncoordinated checkpoint holds, as all that is written to a store, is not modelled.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from spillway.errors import ModelError
from spillway.graph.protections import Coordinated, JobProtection, Uncoordinated
from spillway.model.flow import Flow
from spillway.model.layout import Layout, Redo, exact
from spillway.model.protections.technique import Around, Technique, technique_of
from spillway.model.terms import Circumstances, Cost, Effect, Measured, Terms, proposes, terms_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindingJobs(Technique):
    """Each job has a checkpoint after every `every_s` of input; operators in no job are jobs of their own.

    Without jobs the whole flow is one.
    """

    jobs: tuple[tuple[str, ...], ...] = ()
    every_s: float = 10.0
    coordinated: bool = True
    batch_s: float = 1.0
    catch_up: float | None = None
    lossless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        named = [name for job in self.jobs for name in job]
        if any(not job for job in self.jobs):
            raise ModelError("RewindingJobs: jobs of one operator or more are wanted.")
        for name in named:
            if named.count(name) > 1:
                raise ModelError(f"RewindingJobs: operator {name!r} can be in one job only.")

    @property
    def name(self) -> str:
        return "coordinated" if self.coordinated else "uncoordinated"

    def layout(self, flow: Flow) -> Layout:
        jobs = self.jobs or (tuple(operator.name for operator in flow.operators),)
        named = {name for job in jobs for name in job}
        every = [*jobs, *((operator.name,) for operator in flow.operators if operator.name not in named)]

        def redo(job: int) -> Redo:
            if self.coordinated:
                return Redo(every_s=self.every_s, lag_s=self.batch_s * _steps_below(flow, every, job))
            return Redo(every_s=self.every_s, offset_s=self.every_s * job / len(every))

        return exact(flow, jobs, redo, catch_up=self.catch_up)


def _steps_below(flow: Flow, jobs: list[tuple[str, ...]], job: int) -> int:
    """How many jobs lie on the longest way downstream from one."""
    of = {flow.index(name): number for number, names in enumerate(jobs) for name in names}
    below = {(of[link.source], of[link.target]) for link in flow.links if of[link.source] != of[link.target]}
    longest, reached = 0, {job}
    while longest < len(jobs):  # jobs may read from each other in a circle
        reached = {reader for writer, reader in below if writer in reached}
        if not reached:
            break
        longest += 1
    return longest


@technique_of.register(Coordinated)
@technique_of.register(Uncoordinated)
def rewinding_jobs(protection: JobProtection, around: Around) -> Technique:
    every = protection.every
    every_s = protection.batches_max * around.batch_s if every is None else around.interval_s(every)
    return RewindingJobs(
        jobs=around.groups,
        every_s=every_s,
        coordinated=isinstance(protection, Coordinated),
        batch_s=around.batch_s,
        catch_up=around.catch_up,
    )


@terms_of.register(Coordinated)
@terms_of.register(Uncoordinated)
def terms(protection: JobProtection, of: Measured, around: Circumstances) -> Terms:
    """Of an operator that is a job by itself: its senders keep in memory what it has not acknowledged.

    Either all jobs of a graph go back as a whole or none (``graph.jobs``).
    """
    if protection.batches is not None:
        asked_s = protection.batches * around.batch_s
    else:
        asked_s = protection.every_s or protection.every_tuples / max(of.tuples_per_s, 1e-9)
    every_s = max(asked_s, around.batch_s)
    # A coordinated checkpoint counts a batch later; an uncoordinated one takes along what nobody has acknowledged yet.
    kept_s = every_s + around.batch_s
    tail = of.bytes_per_s * around.batch_s / every_s if isinstance(protection, Uncoordinated) else 0.0
    written = of.written_bytes_per_s(every_s) + tail
    cost = Cost(
        cores=around.writing(bytes_per_s=written, files_per_s=2 / every_s),  # the state, and the note that it counts
        memory_bytes=of.state_bytes + of.bytes_per_s * (around.restart_s + kept_s),
        written_bytes_per_s=written,
    )
    effect = Effect(back_s=of.caught_up_s(down_s=around.restart_s, again_s=kept_s))
    return Terms(cost=cost, effect=effect, everywhere=True)


@proposes
def settings(of: Measured) -> tuple[Coordinated, ...]:
    """The same for all operators, those without state too, since a plan has it for all of them."""
    return tuple(Coordinated(every=timedelta(seconds=each)) for each in (10, 60))
