"""That a batch is done: when that was, and how many tuples it read. Where its time went is known later (``times``)."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch, about to be committed."""

    batch: int
    tuples: int  # that its sources gave, stream logs of other jobs included
    time_s: float  # since 1970


BATCHES_SCHEMA = pa.schema([("batch", pa.int64()), ("tuples", pa.int64()), ("time_s", pa.float64())])
