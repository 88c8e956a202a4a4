"""``sw.protect``: what a user calls."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spillway.backup.keeper import Observer, ignore
from spillway.backup.policies import check_protection
from spillway.given import check_whole
from spillway.graph.protections import Exact, Protection
from spillway.spark.protecting.starting import Protected
from spillway.spark.protecting.taking_apart import take_apart
from spillway.spark.protecting.writing import ProtectedWriter

SHARDS_MAX = 64


class ProtectedFrame:
    """A protected query before it is started; ``writeStream`` leads on as it does for a DataFrame."""

    isStreaming = True  # noqa: N815

    def __init__(self, protected: Protected) -> None:
        self._protected = protected

    @property
    def writeStream(self) -> ProtectedWriter:  # noqa: N802
        return ProtectedWriter(self._protected)

    @property
    def schema(self) -> Any:
        """Of the results, as Spark has it."""
        return self._protected.taken.schema

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    @property
    def sparkSession(self) -> SparkSession:  # noqa: N802
        return self._protected.taken.entering.sparkSession


def protect(
    frame: DataFrame,
    protection: Protection | None = None,
    *,
    theta: Mapping[str, float] | None = None,
    forget_after: timedelta | None = None,
    shards: int | None = None,
    observe: Observer = ignore,
) -> ProtectedFrame:
    """A streaming query that ends in ``groupBy(...).agg(...)`` or ``dropDuplicates(...)``, with Spillway's state.

    frame         any streaming DataFrame with one of these, select and where after it included. What is not supported
                  is refused here, by name
    protection    what a failure may cost: ``Exact()`` (the default), ``Approximate(theta=...)``,
                  ``Checkpoint(every=...)`` or ``Nothing()``, or ``Coordinated(every=...)`` for the query as a whole
    theta         under ``Approximate``: how far single columns of the result may be off, for those that differ from the
                  theta of the protection
    forget_after  for keys without a time among them: a group that no row has come for during that time is dropped, and
                  its memory given back; the next row begins it anew. Of ``dropDuplicates`` a key is dropped so long
                  after its row was put out. The time is event time, up to the watermark, if the query has one, and
                  otherwise that at which Spark planned the batch, which its log of offsets keeps. By default nothing
                  is dropped but what the watermark has passed
    shards        in how many parts state is kept, at least one for each core that is to work; by default as many as
                  Spark has cores. Once a query was started its number stays
    """
    taken = take_apart(frame, forget_after)
    given = protection if protection is not None else Exact()
    check_protection("sw.protect", given)
    if shards is None:
        shards = min(frame.sparkSession.sparkContext.defaultParallelism, SHARDS_MAX)
    check_whole("sw.protect: shards", shards, least=1)
    taken.check_protection(given, theta or {})
    return ProtectedFrame(Protected(taken=taken, protection=given, shards=shards, thetas=theta or {}, observe=observe))
