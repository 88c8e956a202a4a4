"""The stages of a graph after the first: each is an exchange that brings every row to its task, and a Python map.

They are put on a micro-batch when it comes. What leaves the last of them are rows for the sinks (see ``leaving``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

from spillway.spark.adding import AddingStage
from spillway.spark.laying import LaidStages, PlacesOf, lay, session_of
from spillway.spark.leaving import PAYLOAD, PLACE, ROWS
from spillway.spark.pinning import Pins
from spillway.spark.reading import read_exchanged, read_first
from spillway.spark.summing import SummedStage

Mapped = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterStage:
    """A stage after the first. Its function is packed once, and not for every batch."""

    index: int
    partitions: int
    function: Any  # as packed

    def bring(self, frame: DataFrame) -> DataFrame:
        """What left the stage before, each row where its task is."""
        return frame.repartitionById(self.partitions, sql.col(PLACE))

    def put_on(self, arriving: DataFrame) -> DataFrame:
        """What leaves this stage."""
        # DataFrame.mapInArrow does the same, but makes the function anew with every call.
        column = self.function(sql.col(PLACE), sql.col(PAYLOAD))
        return DataFrame(arriving._jdf.mapInArrow(column._jc, False, None), arriving.sparkSession)


class LaterStages:
    """All of them.

    ``adding`` takes the place of stage 0 and the one after it, where Spark can add up; ``summed`` does so always.
    """

    def __init__(
        self,
        spark: SparkSession,
        stages: Sequence[LaterStage],
        *,
        adding: AddingStage | None = None,
        summed: SummedStage | None = None,
    ) -> None:
        self.adding = adding
        self.summed = summed
        self._stages = stages
        self._pins = Pins(spark)
        self._laid: LaidStages | None = None
        self._laid_for = ""  # a session

    def leaving(self, frame: DataFrame, places_of: PlacesOf, *, read_apart: bool = False) -> DataFrame:
        """What leaves the graph, of a micro-batch; it may be read now, apart from the rest."""
        laid = self._laid_stages(frame)
        if laid is not None:
            places = [places_of(stage.index) for stage in self._stages]
            return laid.put_on(frame, places, read_exchanged if read_apart else None)
        for stage in self._stages:
            arriving = stage.bring(frame)
            if read_apart and stage is self._stages[0]:
                arriving = read_first(arriving)
            frame = stage.put_on(self._pinned(arriving, places_of(stage.index)))
        return frame

    def leaving_added(self, rows: DataFrame, places_of: PlacesOf) -> DataFrame:
        """The same, of the rows of the source, which are added up first."""
        adding = self.summed or self.adding
        assert adding is not None
        first, *others = self._stages
        frame = adding.put_on(self._pinned(adding.bring(rows), places_of(first.index)))
        for stage in others:
            frame = stage.put_on(self._pinned(stage.bring(frame), places_of(stage.index)))
        return frame

    def _pinned(self, frame: DataFrame, places: Sequence[str | None] | None) -> DataFrame:
        return frame if places is None else self._pins.pinned(frame, places)

    def _laid_stages(self, frame: DataFrame) -> LaidStages | None:
        session = session_of(frame)
        if session != self._laid_for:
            self._laid = lay(frame, self._put_on, self._pins)
            self._laid_for = session
        return self._laid

    def _put_on(self, frame: DataFrame) -> DataFrame:
        return reduce(lambda rows, stage: stage.put_on(stage.bring(rows)), self._stages, frame)


def packed(function: Mapped, *, columns: str = ROWS) -> Any:
    """The function of a stage, whose rows have these columns, as Spark keeps it."""
    udf: Any = pandas_udf(function, returnType=columns, functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)  # type: ignore[call-overload]
    return udf
