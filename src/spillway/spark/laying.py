"""The later stages of a graph as Spark planned them once: every batch runs by that plan, on rows of its own.

Theory of operation
-------------------
Whoever puts DataFrames together has Spark analyse, optimise and plan them, anew in every batch, and what comes out is
the same each time:

    rows of the micro-batch --> exchange --> map --> exchange --> map --> …

So the first batch of a query is put together as DataFrames, and the nodes of Spark's physical plan are kept. A batch
makes a plan of its own from them: each is copied onto the one before it (``withNewChildren``, by which Spark itself
changes plans), the first onto a scan of the batch's rows. A copy has settings, shuffles and figures of its own, so
nothing of one batch is left for the next, and nothing is planned but the scan of what leaves the last stage.

Where an exchange is pinned (see ``pinning``) its rows are scanned, too: between two nodes of a plan there is no place
for an RDD that prefers hosts.

*A plan belongs to a session.* A query has one of its own, with the settings that were in force when it started; one
that is started again has another.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from spillway.spark.pinning import Pins

PlacesOf = Callable[[int], Sequence[str | None] | None]
"""The host on which each task of a stage is wanted, by the number of the stage; None leaves all of them to Spark."""

_EXCHANGE, _MAP = "ShuffleExchangeExec", "MapInArrowExec"
_AROUND_ROWS = ("WholeStageCodegenExec", "InputAdapter")  # what Spark puts around the scan, which is made anew


class LaidStages:
    """Stages that follow each other, planned; made by ``lay``."""

    def __init__(self, planned: DataFrame, nodes: Sequence[Any], rows: Any, pins: Pins) -> None:
        spark: Any = planned.sparkSession
        jvm = spark.sparkContext._jvm
        self._pins = pins
        self._schema = planned._jdf.schema()
        self._scan = jvm.org.apache.spark.sql.execution.RDDScanExec
        self._not_known = jvm.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(0)
        self._nothing = jvm.PythonUtils.toSeq([])
        self._no_source = jvm.scala.Option.empty()
        self._columns = rows.output()
        # Kept without what is below them, which is the first batch.
        empty = spark.sparkContext._jsc.sc().emptyRDD(jvm.scala.reflect.ClassTag.AnyRef())
        below = [self._columns, *(node.output() for node in nodes[:-1])]
        kept = [self._on(node, self._scanned(empty, columns)) for node, columns in zip(nodes, below, strict=True)]
        self._stages = [*zip(kept[::2], below[1::2], kept[1::2], strict=True)]  # exchange, its columns, map

    def put_on(
        self, frame: DataFrame, places: Sequence[Sequence[str | None] | None], read: Callable[[Any], object] | None
    ) -> DataFrame:
        """What leaves the last stage, of a micro-batch, the tasks of each stage at their places.

        ``read``, if given, is called with the RDD of the rows that arrive at the first stage.
        """
        plan = self._scanned(_rows_of(frame), self._columns)
        for at, (exchange, columns, mapped) in zip(places, self._stages, strict=True):
            plan = self._on(exchange, plan)
            if read is not None:
                read(plan.execute())
                read = None
            if at is not None:
                plan = self._scanned(self._pins.united(plan.execute(), at), columns)
            plan = self._on(mapped, plan)
        session: Any = frame.sparkSession
        return DataFrame(session._jsparkSession.internalCreateDataFrame(plan.execute(), self._schema, False), session)

    def _on(self, node: Any, child: Any) -> Any:
        """A copy of a plan's node, on another child."""
        return node.withNewChildren(self._nothing.prepended(child))

    def _scanned(self, rows: Any, columns: Any) -> Any:
        """A node of a plan that gives the rows of an RDD."""
        return self._scan(columns, rows, "rows", self._not_known, self._nothing, self._no_source)


def lay(frame: DataFrame, put_on: Callable[[DataFrame], DataFrame], pins: Pins) -> LaidStages | None:
    """Stages as ``put_on`` puts them on a micro-batch; None if Spark plans them otherwise than told above.

    Somebody may have changed how Spark plans: then every batch is put together as DataFrames.
    """
    planned = put_on(frame)
    nodes = [planned._jdf.queryExecution().executedPlan()]
    while nodes[-1].children().size() == 1:
        nodes.append(nodes[-1].children().head())
    *nodes, rows = nodes
    nodes = [node for node in reversed(nodes) if _kind(node) not in _AROUND_ROWS]
    found = [_kind(node) for node in nodes]
    if not found or found != [_EXCHANGE, _MAP] * (len(found) // 2) or rows.children().size():
        return None
    return LaidStages(planned, nodes, rows, pins)


def session_of(frame: DataFrame) -> str:
    """Which session a frame belongs to."""
    session: Any = frame.sparkSession
    return str(session._jsparkSession.sessionUUID())


def _rows_of(frame: DataFrame) -> Any:
    """The RDD of a micro-batch's rows; Spark gives it as it is, unless something was put on it."""
    execution = frame._jdf.queryExecution()
    given = execution.logical()
    return given.rdd() if _kind(given) == "LogicalRDD" else execution.toRdd()


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
