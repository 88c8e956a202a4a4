"""Tasks as Spark tasks: on whatever cluster the session has.

Python workers are reused, so what a task keeps in its process is found again by later ones. A function of more than a
megabyte is broadcast by Spark itself. A task that fails is tried again by Spark, with the same answer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from pyspark.sql import SparkSession

from spillway.parallel.pool import Answer, Task

_TASKS_PER_CORE = 4  # in one Spark job: answers come when the job is done


class SparkTasks:
    """Performs each task as a task of a Spark job."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    @property
    def count(self) -> int:
        return max(1, int(self._context.defaultParallelism))

    def completed(self, work: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        waiting = iter(tasks)
        while some := list(islice(waiting, _TASKS_PER_CORE * self.count)):
            yield from zip(some, self.ordered(work, some), strict=True)

    def ordered(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        if tasks:
            yield from self._context.parallelize(list(tasks), len(tasks)).map(work).collect()
