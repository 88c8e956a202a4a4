"""Tasks of a campaign as Spark tasks: on whatever cluster the session has.

Each Python worker builds its own lab from the campaign, once, and keeps it between tasks; workers are reused. The
campaign's directory must be one that all of them see, for the affected sections that some tasks leave for others.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from spillway.inject.campaign import Campaign
from spillway.inject.tasks import Answer, Task, perform

_TASKS_PER_CORE = 4  # in one Spark job: answers come, and are kept, when the job is done


class SparkTasks:
    """Performs the tasks of a campaign on Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def answers(self, campaign: Campaign, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        at_once = max(1, self._context.defaultParallelism * _TASKS_PER_CORE)
        for first in range(0, len(tasks), at_once):
            part = list(tasks[first : first + at_once])
            placed = self._context.parallelize(part, len(part))
            yield from placed.map(lambda task: (task, perform(campaign, task))).collect()
