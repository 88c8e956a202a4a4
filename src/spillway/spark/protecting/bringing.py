"""How the rows of a micro-batch come to the shards: added up on the way, or once they are there.

Spark adds up twice, before its exchange and behind it. Where most rows are groups of their own the first time finds
nothing to add, and costs as much as the second. So it is left out while groups are many beside rows. Either way a group
goes to the partition that Spark's hash of its key names, which is its shard.

That Spark's exchange is the one we count on is looked at once for each session: a query may divide its rows by itself,
and Spark then leaves out the exchange. Rows then go to their shards as they are, which no plan of Spark's leaves out.
"""

from pyspark.sql import DataFrame

from spillway.graph.summed import When
from spillway.spark.laying import session_of
from spillway.spark.protecting.taken import Taken

_MANY = 0.5
"""Groups a row: above it adding up before the exchange does not pay."""


class Bringing:
    """``graph.summed.Summed.bring`` of one query."""

    def __init__(self, taken: Taken) -> None:
        self._taken = taken
        self._checked_for = ""  # a session
        self._exchanges = False
        self.many = False
        """Whether groups are many beside rows, as far as is known."""

    def seen(self, rows: int, groups: int) -> None:
        """A batch had so many."""
        if rows:
            self.many = groups > _MANY * rows

    def __call__(self, rows: DataFrame, shards: int, when: When) -> DataFrame:
        if not self.many and self._exchanges_by_key(rows, shards, when):
            return self._taken.added_up(rows, shards=shards, when=when, at_once=False)
        return self._taken.added_up(rows, shards=shards, when=when, at_once=True)

    def _exchanges_by_key(self, rows: DataFrame, shards: int, when: When) -> bool:
        if not self._taken.parts or not self._taken.groups_first:
            return True
        session = session_of(rows)
        if session != self._checked_for:
            added = self._taken.added_up(rows, shards=shards, when=when, at_once=False)
            found = added._jdf.queryExecution().executedPlan().outputPartitioning()
            hashed = str(found.getClass().getSimpleName()) == "HashPartitioning"
            keys = len(self._taken.parts)
            self._exchanges = hashed and found.numPartitions() == shards and found.expressions().size() == keys
            self._checked_for = session
        return self._exchanges
