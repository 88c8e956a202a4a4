"""The points of a batch at which a shard can be watched, or its process be ended."""

from collections.abc import Callable
from enum import StrEnum


class Step(StrEnum):
    """Points of a batch that an observer is told of; the kill tests end the process at each of them."""

    OPENED = "opened"  # before any tuple is applied
    APPLYING = "applying"  # after some tuples are applied
    BACKING_UP = "backing-up"  # a backup is due and not yet written
    BACKED_UP = "backed-up"  # it is durable; the shard has not committed
    COMMITTED = "committed"  # the shard has committed; Spark has not
    # Seen by the driver only:
    WRITING = "writing"  # a table of another system is to be given a batch
    STAGED = "staged"  # it has the rows, and its transaction is about to end: only PostgreSQL has this point
    GIVEN = "given"  # it has them for good
    WRITTEN = "written"  # all shards have, and the sinks are written; Spark has not
    # Seen by the driver of a run on several hosts only:
    PLACED = "placed"  # the owners of all shards are durable, and no task of the batch has begun
    SERVED = "served"  # memory is to be handed over, and those that have it are ready to give it
    FETCHED = "fetched"  # it was copied; that its owner is another is not durable
    HANDED_OVER = "handed-over"  # now it is; the copy that was there before still is


SHARD_STEPS = (Step.OPENED, Step.APPLYING, Step.BACKING_UP, Step.BACKED_UP, Step.COMMITTED)
"""Those that a shard passes in every batch in which it has tuples and a backup is due."""

Observer = Callable[[Step, str, int, int], None]


def ignore(step: Step, operator: str, shard: int, batch: int) -> None:
    """The observer that does nothing."""
