"""What happens to the drivers of jobs: data, made from a seed.

A history is some kills, each of one or more drivers at once. It strikes when somebody comes to a *step* of a batch, or
of the first one after it that comes there: who comes there waits, is killed there, and the others wherever they are. Or
it strikes a moment after a job has committed so many batches. Steps are named by what an observer of the run, or of its
stream logs, is told: any such name will do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spillway.backup.keeper import Step
from spillway.engine.job_logs import LogStep
from spillway.seeds import generator
from spillway.soak.host_holds import Holding
from spillway.soak.kill_graph import BATCHES, JOBS, OPERATORS, PROTECTED, WRITES, Loss

_FIRST, _LAST = 1, BATCHES - 2  # batches that are struck
_KILLS_MAX = 3
_AT_A_STEP = 0.75  # of the kills
_LOSES = 0.4  # of the kills, where the protection claims to bear it

READS = {"middle": ("counts.out", "levels.out"), "last": ("echo.out",)}
"""The streams that jobs read."""

STEPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    **{step: {job: [stream] for job, stream in WRITES.items()} for step in (LogStep.APPENDING, LogStep.APPENDED)},
    **dict.fromkeys((LogStep.READ, LogStep.ACKNOWLEDGED), READS),
    **{step: {job: [name] for job, name in OPERATORS.items()} for step in (Step.APPLYING, Step.BACKED_UP)},
    Step.COMMITTED: {job: [name] for job, name in OPERATORS.items()},
}
"""By step: the jobs that come there, and where, a stream or an operator. What is named here is struck in histories."""

WHOLE_STEPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    **{
        step: {job: [job] for job in JOBS} for step in (LogStep.NAMED, LogStep.SAVING, LogStep.SAVED, LogStep.WENT_BACK)
    },
    LogStep.TRIMMING: {job: [stream] for job, stream in WRITES.items()},
}
"""Those to which only jobs come that are protected as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where somebody is to wait for being killed."""

    step: str
    place: str  # a stream or an operator
    batch: int

    def meant(self, step: str, place: str, batch: int) -> bool:
        """
        >>> stop = Stop(step=LogStep.READ, place="echo.out", batch=3)
        >>> stop.meant(LogStep.READ, "echo.out", 4), stop.meant(LogStep.READ, "counts.out", 4)
        (True, False)
        """
        return step == self.step and place == self.place and batch >= self.batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One time that drivers are killed."""

    jobs: tuple[str, ...]
    batch: int
    stop: Stop | None = None  # where one of them is; None: a moment after the first of them has committed the batch
    after_s: float = 0.0
    loss: Loss = Loss.NOTHING

    def sentence(self) -> str:
        """What people are told.

        >>> Kill(jobs=("first", "middle"), batch=2, after_s=0.5).sentence()
        'first and middle killed 0.5 s after batch 2 (memory lives)'
        """
        who = " and ".join(self.jobs)
        if self.stop is None:
            return f"{who} killed {self.after_s:.2g} s after batch {self.batch} ({self.loss})"
        return (
            f"{who} killed at step {self.stop.step!s} of {self.stop.place}, batch {self.batch} or later ({self.loss})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """All that happens in one run."""

    seed: int
    protection: str  # a word of ``PROTECTED``
    kills: tuple[Kill, ...]

    def sentence(self) -> str:
        return "; ".join(kill.sentence() for kill in self.kills)


def stopped_at(step: str, job: str, *, batch: int, others: Sequence[str] = (), loss: Loss = Loss.NOTHING) -> Kill:
    """A job killed at the first place where it comes to a step, and others with it."""
    place = {**STEPS, **WHOLE_STEPS}[step][job][0]
    jobs = tuple(one for one in JOBS if one == job or one in others)
    return Kill(jobs=jobs, batch=batch, stop=Stop(step=step, place=place, batch=batch), loss=loss)


def history(seed: int, *, protection: str) -> Kills:
    """The history of a seed.

    >>> history(3, protection="exact") == history(3, protection="exact")
    True
    """
    draw = generator(seed, "kills of jobs")
    steps = STEPS if PROTECTED[protection].jobs is None else {**STEPS, **WHOLE_STEPS}
    bears = list(Loss)[: list(Loss).index(PROTECTED[protection].bears) + 1]
    count = int(draw.integers(1, _KILLS_MAX + 1))
    batches = sorted(int(batch) for batch in draw.choice(range(_FIRST, _LAST + 1), size=count, replace=False))
    kills = []
    for batch in batches:
        first = int(draw.integers(len(JOBS)))
        together = int(draw.choice([1, 1, 1, 2, 2, 3]))  # alone, two neighbours, all
        first = min(first, len(JOBS) - together)
        jobs = JOBS[first : first + together]
        loss = bears[int(draw.integers(1, len(bears)))] if len(bears) > 1 and draw.random() < _LOSES else Loss.NOTHING
        at = [
            (step, place) for step, there in steps.items() for job in jobs for place in there.get(job, ())
        ]  # fmt: skip
        step, place = at[int(draw.integers(len(at)))]
        stop = Stop(step=step, place=place, batch=batch) if draw.random() < _AT_A_STEP else None
        after_s = round(float(draw.uniform(0.0, 0.8)), 3)
        kills.append(Kill(jobs=jobs, batch=batch, stop=stop, after_s=after_s, loss=loss))
    return Kills(seed=seed, protection=protection, kills=tuple(kills))


class Stops:
    """The observers of a run and of its logs, in every process of it: whoever comes to a stop waits there."""

    def __init__(self, holding: Holding, stops: Sequence[Stop | None]) -> None:
        self._holding = holding
        self._stops = stops

    def in_run(self, step: str, operator: str, shard: int, batch: int) -> None:
        self.in_log(step, operator, batch)

    def in_log(self, step: str, place: str, batch: int) -> None:
        for number, stop in enumerate(self._stops):
            if stop is not None and stop.meant(step, place, batch):
                self._holding.wait(number)


def as_json(stop: Stop | None) -> dict[str, Any] | None:
    """A stop as a driver is told of it."""
    return None if stop is None else {"step": str(stop.step), "place": stop.place, "batch": stop.batch}
