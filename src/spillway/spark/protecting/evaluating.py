"""The results of a query, of groups as they came back from Python: Spark's own expressions, put on every batch.

What came back has columns of ours. On top of them are put, as nodes of a plan: the buffers of Spark's aggregates under
the very attributes that their expressions refer to; these expressions; the results; and whatever the query does after
its aggregation. All of that is the same in every batch but for the columns it begins with, and asking Java for a piece
of it takes as long as adding up a thousand rows. So what can be is asked for once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame

from spillway.spark.catalyst import Catalyst, Named, each


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How results are put on what came back."""

    columns: Sequence[Column]  # keys and buffers, in terms of what came back
    attributes: Sequence[Named]  # those that they are to be
    evaluated: Any  # keys, and the values of the aggregates; None where nothing is evaluated
    results: Any
    above: Sequence[Any]  # plan nodes on top, the highest first

    def of(self, found: DataFrame) -> DataFrame:
        catalyst = Catalyst(found.sparkSession)
        shaped = catalyst.analyzed(found.select(*self.columns))
        renamed = [
            catalyst.renamed(one, named) for one, named in zip(each(shaped.output()), self.attributes, strict=True)
        ]
        plan = catalyst.project(catalyst.sequence(renamed), shaped)
        if self.evaluated is not None:
            plan = catalyst.project(self.results, catalyst.project(self.evaluated, plan))
        for node in reversed(self.above):
            plan = catalyst.on(node, plan)
        return catalyst.frame(plan)
