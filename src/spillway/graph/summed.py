"""A source whose tuples Spark adds up within each batch, before anybody else sees them.

What enters the graph is not what the stream has but what was made of it: one tuple for each key of a batch, say.
Whoever declares such a source also says how that is made; only the Spark runtime can run it. The tuples of a batch have
its number for their ``seq``: they are in no order, and the same whenever it is run again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

WATERMARK = "watermark"
"""The column of a tuple that tells only how far time has come; null in all others."""

WATERMARK_FIELD = pa.field(WATERMARK, pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed:
    """A streaming DataFrame, and what is made of each of its micro-batches.

    ``bring(rows, shards, late_us)`` gives a DataFrame of ``shards`` partitions: what is for shard i in partition i. Its
    columns are those of ``schema``. With ``tells_watermark`` each shard also hears of the watermark, in every batch,
    and ``late_us`` says up to when rows come too late, in microseconds; otherwise it is None.
    """

    frame: Any
    schema: pa.Schema
    bring: Callable[[Any, int, int | None], Any]
    tells_watermark: bool = False
    seen: Callable[[int, int], object] = lambda rows, groups: None
    """Called after a batch with how many rows Spark read and how many tuples came of them, about."""

    @property
    def tuples(self) -> pa.Schema:
        """What enters the graph, but for ``seq``."""
        return self.schema.append(WATERMARK_FIELD) if self.tells_watermark else self.schema
