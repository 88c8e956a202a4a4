"""Batches without data, in which the last windows close.

Spark runs another batch when the watermark has moved and there is nothing to read, if a node with state of its own says
that this would change something. In a protected query there is no such node: state is ours. So where rows are put out
for good, a branch is added to the stream that has no rows, and never will: Spark drops the duplicates of nothing. Its
state is empty and in one part; what it is there for is to be asked whether the watermark has moved.

All else is Spark's: such a batch is planned, noted, run again and committed as any other, and to us it is one that has
no rows. It runs under a setting by which every node with state sees the one watermark of the query, since the branch
has none; there is no other such node, and what Spark does with the rows depends on nothing of this.
"""

from pyspark.sql import DataFrame

from spillway.spark.catalyst import Catalyst

_WANTED = "spark.sql.streaming.noDataMicroBatches.enabled"


def with_batches_without_data(rows: DataFrame) -> DataFrame:
    """The stream, for which Spark also runs batches when only the watermark has moved, unless it was told not to."""
    if str(rows.sparkSession.conf.get(_WANTED)).lower() != "true":
        return rows
    nothing = Catalyst(rows.sparkSession).nothing_like(rows)
    return rows.unionAll(nothing.dropDuplicates(nothing.columns[:1]))
