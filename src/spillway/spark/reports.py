"""What tasks tell the driver, by an accumulator of Spark's."""

from typing import Any

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorParam

from spillway.spark.task import Reported

_KEPT_MAX = 100_000


class Reports:
    """The driver's end."""

    def __init__(self, context: SparkContext) -> None:
        self._reported = context.accumulator([], _Rows())
        self._taken = 0
        self.of_task = _Report(self._reported)
        """The task's end."""

    def fresh(self) -> list[Reported]:
        """What was told since this was asked last; a task that was tried again has told it again."""
        reported = self._reported.value
        fresh: list[Reported] = reported[self._taken :]
        self._taken = len(reported)
        if self._taken > _KEPT_MAX:
            reported.clear()
            self._taken = 0
        return fresh


class _Rows(AccumulatorParam[list[Reported]]):
    """Records of tasks, appended in the driver."""

    def zero(self, value: list[Reported]) -> list[Reported]:
        return []

    def addInPlace(self, value1: list[Reported], value2: list[Reported]) -> list[Reported]:  # noqa: N802
        value1.extend(value2)
        return value1


class _Report:
    """Brings a task's records to the driver."""

    def __init__(self, accumulator: Any) -> None:
        self._accumulator = accumulator

    def __call__(self, rows: list[Reported]) -> None:
        if rows:
            self._accumulator.add(rows)
