"""Tuples that Spark adds up within a batch before Python sees them: see ``engine.adding`` for when and why.

Stage 0 is part of the streaming query, a Python map on top of the rows of the source. To add rows up they are taken
from below that map, which then is not run. Having the query give the rows, and putting stage 0 on them inside
``foreachBatch``, was measured too: it copies every row once more, a tenth of a batch that is not added up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from spillway.engine.added_numbers import AddedPart, Whole, told
from spillway.engine.adding import AddingPlan
from spillway.engine.task import Arriving
from spillway.errors import InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.stages import Stage
from spillway.operators.adding import Added
from spillway.spark.leaving import Departure
from spillway.spark.task import RunContext, run_stage, whereabouts

_MAP, _BESIDE = "MapInArrowExec", "MultiResultExec"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingStage:
    """The stage that is given tuples added up; its function is packed once, and not for every batch."""

    plan: AddingPlan
    salt: int
    function: Any

    def bring(self, rows: DataFrame) -> DataFrame:
        """The rows of a micro-batch, added up, each where its task is."""
        summed = [(_sum(i), _least(i), _column(name)) for i, name in enumerate(self.plan.sums)]
        added = rows.groupBy(*[_column(name).alias(_by(i)) for i, name in enumerate(self.plan.by)]).agg(
            sql.count(sql.lit(1)).alias("tuples"),
            sql.min(SEQ).alias("first"),
            sql.max(SEQ).alias("last"),
            sql.bit_xor(sql.xxhash64(sql.col(SEQ).bitwiseXOR(sql.lit(self.salt)))).alias("fingerprint"),
            # A sum that does not fit is null, and refused then; Spark would say so in words of its own.
            *(sql.try_sum(values).alias(name) for name, _, values in summed),
            *(sql.min(sql.coalesce(values, sql.lit(-1))).alias(name) for _, name, values in summed),
        )
        shard: Column = sql.lit(0)
        if self.plan.shards > 1:
            key = [sql.col(_by(self.plan.by.index(name))) for name in self.plan.key]
            shard = sql.pmod(sql.xxhash64(*key), sql.lit(self.plan.shards)).cast("int")
        return added.repartitionById(self.plan.shards, shard)

    def put_on(self, arriving: DataFrame) -> DataFrame:
        """What leaves the stage."""
        column = self.function(*[sql.col(name) for name in arriving.columns])
        return DataFrame(arriving._jdf.mapInArrow(column._jc, False, None), arriving.sparkSession)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedTask:
    """A stage whose tuples come added up, as the function that Spark maps over a partition."""

    context: RunContext
    stage: Stage
    plan: AddingPlan
    leaving: Departure

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at = whereabouts()
        seen: list[Whole] = []
        yield from run_stage(self.context, self.stage, at, self._arriving(batches, seen), leaving=self.leaving)
        self.context.report([AddedPart(part=at.index, whole=reduce(Whole.with_, seen, Whole()))])

    def _arriving(self, batches: Iterator[pa.RecordBatch], seen: list[Whole]) -> Iterator[Arriving]:
        """The tuples; what is told of them goes to ``seen``."""
        schema = _schema(self.context.graph.sources[self.plan.source].schema, self.plan)
        for rows in batches:
            by = [rows[_by(i)] for i in range(len(self.plan.by))]
            sums = [rows[_sum(i)] for i in range(len(self.plan.sums))]
            seen.append(
                told(
                    tuples=rows["tuples"],
                    first=rows["first"],
                    last=rows["last"],
                    fingerprints=rows["fingerprint"],
                    sums=sums,
                    least=[rows[_least(i)] for i in range(len(self.plan.sums))],
                )
            )
            added = pa.RecordBatch.from_arrays([rows["last"], *by, *sums], schema=schema)
            yield self.plan.edge, Added(added, rows["tuples"].to_numpy())


def rows_below(query: StreamingQuery, session: SparkSession, *, batch: int) -> DataFrame:
    """The rows of the micro-batch at hand as they come from the source; refused if they cannot be had.

    Spark does not say what a batch is made of, so this is read off the plan that it is about to run.
    """
    try:
        execution = query._jsq.streamingQuery().lastExecution()
        plan = execution.executedPlan()
        if plan.getClass().getSimpleName() == _BESIDE:
            plan = plan.children().last()  # see figures
        if execution.currentBatchId() != batch or plan.getClass().getSimpleName() != _MAP:
            raise InputError("Spark runs another plan than it was given.")
        below = plan.child()
        frame = session._jsparkSession.internalCreateDataFrame(below.execute(), below.schema(), False)
    except Py4JError as error:
        raise InputError("Spark does not tell of the plan that it runs.") from error
    return DataFrame(frame, session)


def _by(i: int) -> str:
    return f"by_{i}"


def _sum(i: int) -> str:
    return f"sum_{i}"


def _least(i: int) -> str:
    return f"least_{i}"


def _column(name: str) -> Column:
    return sql.col(f"`{name}`")


def _schema(source: pa.Schema, plan: AddingPlan) -> pa.Schema:
    return pa.schema([SEQ_FIELD, *(source.field(name) for name in (*plan.by, *plan.sums))])
