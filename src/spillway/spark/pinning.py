"""Tasks that run where they are wanted: Spark is told a host for each partition of a DataFrame.

Theory of operation
-------------------
Spark's scheduler asks an RDD where each of its partitions would like to be computed. A DataFrame that was exchanged
prefers the hosts that hold most of its rows, which change from batch to batch. So its RDD of internal rows (nothing is
converted) is united, partition by partition, with an empty one that prefers the hosts we name. Of a united partition's
wishes Spark takes the one that comes most often. An exchange has at most five (a fifth of the rows each): a host that
is named six times outvotes them all, and ``spark.shuffle.reduceLocality.enabled`` need not be touched.

Locations are hosts, never executors: a host's memory outlives its executors.

*Locations are hints.* A task waits for a place on its host as long as ``settings.wait_for_hosts`` says, then runs
anywhere. It waits for a host that shows no executor, too, as long as another partition of the frame is pinned to one
that does: whoever knows that a host is gone names it no more. Whoever must not be computed elsewhere looks where it
is.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_TIMES = 6  # one more than an exchange can have wishes
_KEPT_MAX = 64


class Pins:
    """Pins DataFrames of one Spark, and keeps what is the same from batch to batch: every call to Java takes time."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        jvm = context._jvm
        self._scala = context._jsc.sc()
        self._convert = jvm.PythonUtils
        # Py4J asks Java anew for every part of a dotted name.
        self._without_rows = jvm.org.apache.spark.rdd.ParallelCollectionRDD
        self._union = jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD
        self._any = jvm.scala.reflect.ClassTag.AnyRef()
        self._wishes: OrderedDict[tuple[str | None, ...], Any] = OrderedDict()

    def pinned(self, frame: DataFrame, places: Sequence[str | None]) -> DataFrame:
        """The same rows in the same partitions, each of which is computed on the host at its place in ``places``.

        None leaves a partition to Spark, and a frame of which all are left to it is returned as it is: with one host
        nothing needs to be said. There must be as many places as partitions. What comes before the last exchange is
        not pinned by it. Adaptive execution must be off, or it is run here and now.
        """
        if all(place is None for place in places):
            return frame
        united = self.united(frame._jdf.queryExecution().toRdd(), places)
        session: Any = frame.sparkSession
        return DataFrame(session._jsparkSession.internalCreateDataFrame(united, frame._jdf.schema(), False), session)

    def united(self, rows: Any, places: Sequence[str | None]) -> Any:
        """The same of an RDD of Spark's internal rows; all of its partitions may be left to Spark here, too."""
        count = rows.getNumPartitions()
        assert count == len(places), f"{count} partitions, {len(places)} places"
        return self._union(self._scala, self._wish(tuple(places)).prepended(rows), count, self._any)

    def _wish(self, places: tuple[str | None, ...]) -> Any:
        """A sequence of one RDD, which has no rows and would like its partitions to be there."""
        wish = self._wishes.pop(places, None)
        if wish is None:
            to_seq = self._convert.toSeq
            named = {host: to_seq([host] * _TIMES) for host in {*places} - {None}}
            wished = {index: named[host] for index, host in enumerate(places) if host is not None}
            prefers = self._convert.toScalaMap(wished)
            wish = to_seq([self._without_rows(self._scala, to_seq([]), len(places), prefers, self._any)])
        self._wishes[places] = wish
        while len(self._wishes) > _KEPT_MAX:
            self._wishes.popitem(last=False)
        return wish


def pinned(frame: DataFrame, places: Sequence[str | None]) -> DataFrame:
    """As ``Pins.pinned``, once."""
    return Pins(frame.sparkSession).pinned(frame, places)
