"""Where the time of a batch goes: what tasks and the driver measured, and their sum.

A batch runs one stage after the other, and each stage as tasks, of which some run at the same time. While any task of
a stage is at work, the time is the stage's, and it is shared out among the parts as the work of its tasks was. What
sinks take in the driver is writing. The rest of the batch is Spark's own: planning, starting tasks, moving bytes
between stages while no task of ours waits for them, its notes of offsets and commits.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

import pyarrow as pa

_FIRST = 3  # batches of a process, which load and compile


class Work(StrEnum):
    """What the time of a batch is spent on."""

    READING = "reading"
    DIVIDING = "dividing"
    CARRYING = "carrying"
    APPLYING = "applying"
    SAVING = "saving"
    WRITING = "writing"
    SPARK = "spark"  # what is nobody else's

    @property
    def label(self) -> str:
        """What to call it in a table or a picture."""
        return "Spark's own" if self is Work.SPARK else str(self)


MEANINGS: Mapping[Work, str] = {
    Work.READING: "tuples from their sources",
    Work.DIVIDING: "what leaves a stage, by shard, into payloads",
    Work.CARRYING: "handing payloads to Spark and waiting for them",
    Work.APPLYING: "operators at work",
    Work.SAVING: "protection: backups, items made durable, recoveries",
    Work.WRITING: "what leaves the graph, into its sinks",
    Work.SPARK: "planning, starting tasks, shuffling, notes of offsets and commits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTimes:
    """One task of one batch: when it worked, and on what."""

    batch: int
    stage: int
    index: int
    began_s: float  # on a clock that all tasks of a stage share, more or less
    parts: Mapping[Work, float]  # seconds

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTimes:
    """One batch, in seconds; the parts add up to the total."""

    batch: int
    total_s: float
    reading_s: float
    dividing_s: float
    carrying_s: float
    applying_s: float
    saving_s: float
    writing_s: float
    spark_s: float

    def of(self, work: Work) -> float:
        """The seconds of one part."""
        seconds: float = getattr(self, f"{work}_s")
        return seconds


TIMES_SCHEMA = pa.schema(
    [(field.name, pa.int64() if field.name == "batch" else pa.float64()) for field in fields(BatchTimes)]
)


def batch_times(batch: int, tasks: Iterable[TaskTimes], *, writing_s: float, total_s: float) -> BatchTimes:
    """The parts of a batch, from its tasks and what the driver measured itself."""
    newest = {(task.stage, task.index): task for task in tasks}  # of a task that was tried again, the last
    by_stage: dict[int, list[TaskTimes]] = defaultdict(list)
    for task in newest.values():
        by_stage[task.stage].append(task)
    spent = dict.fromkeys(Work, 0.0)
    for of_stage in by_stage.values():
        worked_s = sum(task.seconds for task in of_stage)
        lasted_s = at_work_s((task.began_s, task.began_s + task.seconds) for task in of_stage)
        for task in of_stage:
            for work, seconds in task.parts.items():
                spent[work] += seconds * lasted_s / worked_s if worked_s else 0.0
    spent[Work.WRITING] += writing_s
    ours_s = sum(spent.values())
    # Clocks of several machines, and of Spark, may differ a little: what was measured then is more than there was.
    shrunk = min(1.0, total_s / ours_s) if ours_s else 1.0
    spent = {work: seconds * shrunk for work, seconds in spent.items()}
    spent[Work.SPARK] = total_s - sum(spent.values())
    return BatchTimes(batch=batch, total_s=total_s, **{f"{work}_s": seconds for work, seconds in spent.items()})


def in_one_process(batch: int, parts: Mapping[Work, float]) -> BatchTimes:
    """The parts of a batch that one process did alone, one thing after the other."""
    spent = {f"{work}_s": parts.get(work, 0.0) for work in Work}
    return BatchTimes(batch=batch, total_s=sum(parts.values()), **spent)


def average(times: Sequence[BatchTimes]) -> dict[Work, float]:
    """Seconds of each part in a batch, on average; they add up to the average batch.

    >>> average([])
    {}
    """
    return {work: sum(one.of(work) for one in times) / len(times) for work in Work} if times else {}


def steady(times: Sequence[BatchTimes]) -> Sequence[BatchTimes]:
    """The batches to judge by: without the first few of a process, if there are others."""
    return times[steady_from(len(times)) :]


def steady_from(count: int) -> int:
    """How many of so many batches are left out at the beginning.

    >>> steady_from(1), steady_from(4), steady_from(100)
    (0, 1, 3)
    """
    return _FIRST if count > 2 * _FIRST else min(1, max(count - 1, 0))


def at_work_s(intervals: Iterable[tuple[float, float]]) -> float:
    """How long at least one of some intervals lasts.

    >>> at_work_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total_s, until_s = 0.0, float("-inf")
    for begin_s, end_s in sorted(intervals):
        total_s += max(end_s - max(begin_s, until_s), 0.0)
        until_s = max(until_s, end_s)
    return total_s
