"""A source whose tuples Spark adds up within each batch, before anybody else sees them.

What enters the graph is not what the stream has but what was made of it: one tuple for each key of a batch, say.
Whoever declares such a source also says how that is made; only the Spark runtime can run it. The tuples of a batch have
its number for their ``seq``: they are in no order, and the same whenever it is run again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

WATERMARK = "watermark"
"""The column of a tuple that tells only how far time has come; null in all others."""

WATERMARK_FIELD = pa.field(WATERMARK, pa.int64())


Clock = Literal["watermark", "batch"]
"""What time shards are told: how far the watermark has come, or when the batch began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """Where time stands in a batch, in microseconds: the same whenever the batch is run again."""

    now_us: int = 0
    """What shards are told."""
    late_us: int | None = None
    """Rows up to then come too late; None if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """A streaming DataFrame, and what is made of each of its micro-batches.

    ``bring(rows, shards, when)`` gives a DataFrame of ``shards`` partitions: what is for shard i in partition i. Its
    columns are those of ``schema``. With ``tells`` each shard also hears in every batch how far time has come, by that
    clock. Where neither that nor ``drops_late`` is asked for, ``when`` says nothing.
    """

    frame: Any
    schema: pa.Schema
    bring: Callable[[Any, int, When], Any]
    tells: Clock | None = None
    drops_late: bool = False
    seen: Callable[[int, int], object] = lambda rows, groups: None
    """Called after a batch with how many rows Spark read and how many tuples came of them, about."""

    @property
    def tuples(self) -> pa.Schema:
        """What enters the graph, but for ``seq``."""
        return self.schema.append(WATERMARK_FIELD) if self.tells else self.schema
