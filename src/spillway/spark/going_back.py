"""What a run on Spark does to go back to its last checkpoint: see ``engine.rewinding`` for when, and in which order."""

from collections.abc import Callable

from pyspark.sql import SparkSession

from spillway.backup.reach import Reach
from spillway.clock import SystemClock
from spillway.engine.coordinating import Coordination, batches_kept
from spillway.engine.rewinding import Rewinding, job_protection
from spillway.errors import MemoryLostError, SpillwayError
from spillway.graph.checked import CheckedGraph
from spillway.graph.jobs import check_repeatable
from spillway.records.rewound import Rewound
from spillway.spark.offsets import next_batch as batch_after_last
from spillway.spark.offsets import rewind_offsets
from spillway.spark.raised import as_ours
from spillway.spark.read_again import check_readable_again


def going_back(
    graph: CheckedGraph,
    spark: SparkSession,
    *,
    backups: str | None,
    checkpoint: str,
    reach: Reach,
    forget_after: Callable[[int], None],
    coordination: Coordination | None = None,
) -> "GoingBack | None":
    """What sends a graph back when memory is lost; None if it is not protected as a whole."""
    protection = job_protection(graph)
    if protection is None:
        return None
    for source in graph.sources.values():
        check_readable_again(source)
    check_repeatable(graph)
    assert backups is not None, "a protection that keeps backups was refused without a folder for them"
    rewinding = Rewinding(
        graph,
        protection,
        backups=backups,
        next_batch=batch_after_last(spark, checkpoint),
        clock=SystemClock(),
        coordination=coordination,
    )
    # The checkpoint before the last is the one to go back to while the last does not count yet.
    kept = 2 * protection.batches_most if coordination is None else batches_kept(protection)
    return GoingBack(
        rewinding,
        spark,
        checkpoint=checkpoint,
        reach=reach,
        forget_after=forget_after,
        batches_kept=kept + 10,
    )


class GoingBack:
    """The going back of one run whose graph is protected as a whole."""

    def __init__(
        self,
        rewinding: Rewinding,
        spark: SparkSession,
        *,
        checkpoint: str,
        reach: Reach,
        forget_after: Callable[[int], None],
        batches_kept: int,
    ) -> None:
        self.rewinding = rewinding
        self._spark = spark
        self._checkpoint = checkpoint
        self._reach = reach
        self._sinks_forget_after = forget_after
        self.batches_kept = batches_kept
        """For how many batches Spark must keep its notes."""

    def next_batch(self) -> int:
        """The batch that the run begins with, once what an earlier one began is finished."""
        self.rewinding.begin(batch_after_last(self._spark, self._checkpoint), self._forget_after)
        return batch_after_last(self._spark, self._checkpoint)

    def mended(self, error: Exception) -> Rewound | None:
        """Go back, if what ended the query is that memory was lost; None if it is something else."""
        ours = error if isinstance(error, SpillwayError) else as_ours(error, "Spark stopped the run")
        if not isinstance(ours, MemoryLostError):
            return None
        committed = batch_after_last(self._spark, self._checkpoint) - 1
        self.rewinding.rewind(committed, self._forget_after, ours)
        return self.rewinding.log[-1]

    def _forget_after(self, batch: int) -> None:
        """Have all but the shards be as they were after ``batch``."""
        self._reach.rewound(batch)
        rewind_offsets(self._spark, self._checkpoint, to=batch)
        self._sinks_forget_after(batch)
