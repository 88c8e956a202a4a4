"""The tuples of fault schedules: one schema on every stream between operators, so that any graph fits together.

Numbers are whole, so that states are compared exactly. A tuple's times and punctuation follow from its ``seq`` alone:
what an operator puts out gets them anew, and two streams agree on them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.graph.feeds import SEQ, SEQ_FIELD

Int64s = npt.NDArray[np.int64]

KEYS_MAX = 250
SCHEMA = pa.schema(
    [
        SEQ_FIELD,
        pa.field("word", pa.string()),  # a key
        pa.field("number", pa.int64()),  # the same key, 0 to KEYS_MAX - 1
        pa.field("value", pa.int64()),  # 1 to 9
        pa.field("at", pa.timestamp("us")),  # ascends with seq
        pa.field("tick", pa.int64()),  # a time that now and then goes back
        pa.field("last", pa.bool_()),  # punctuation
    ]
)
_JITTER = 5  # ticks by which a tuple may lie off its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How times follow from ``seq``; an origin below zero lies before 1970."""

    origin_us: int
    step_us: int
    punctuation_every: int  # one tuple in so many ends a window

    def tuples(self, seqs: Any, numbers: Any, values: Any) -> pa.RecordBatch:
        """Tuples with these numbers, keys and values."""
        seqs, numbers = np.asarray(seqs, np.int64), np.asarray(numbers, np.int64)
        dice = _dice(seqs)
        ticks = seqs + self.origin_us // self.step_us + dice % (2 * _JITTER + 1) - _JITTER
        columns = [
            pa.array(seqs),
            words(numbers),
            pa.array(numbers),
            pa.array(np.asarray(values, np.int64)),
            pa.array(self.origin_us + seqs * self.step_us).cast(pa.timestamp("us")),
            pa.array(ticks),
            pa.array(dice % self.punctuation_every == 0),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def again(self, batch: pa.RecordBatch, *, key: str, value: str) -> pa.RecordBatch:
        """What an operator put out, as tuples of the common schema: a key of it and some number of it."""
        column = batch[key]
        numbers = np.asarray(number_of(column) if pa.types.is_string(column.type) else column).astype(np.int64)
        amounts = np.nan_to_num(np.asarray(batch[value], np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return self.tuples(batch[SEQ], numbers % KEYS_MAX, np.abs(np.rint(amounts)) % 9 + 1)


def words(numbers: Int64s) -> pa.Array:
    """The key of each number as a string; strings of all lengths."""
    return pa.array([f"{'x' * (int(number) % 11)}{number}" for number in numbers], pa.string())


def number_of(keys: pa.Array) -> pa.Array:
    """The number that ``words`` made each string of."""
    return pc.utf8_ltrim(keys, "x").cast(pa.int64())


def _dice(seqs: Int64s) -> Int64s:
    """A number of 31 bits for each tuple that looks random."""
    mixed = seqs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)
