"""Tuples that come with another value."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ
from spillway.inject.faults.fault import TupleFault
from spillway.seeds import generator


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCorruption(TupleFault):
    """Silent data corruption: one bit of a column is flipped in every tuple.

    Of a floating-point number one of its upper bits below the exponent's largest is taken, so that it stays finite; of
    an integer one of its lowest sixteen. The bit follows from the tuple's ``seq``.
    """

    model: ClassVar[str] = "corruption"
    in_words: ClassVar[str] = "corrupted values"
    column: str

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        place = tuples.schema.get_field_index(self.column)
        if place < 0:
            raise GraphError(
                f"Fault at {', '.join(self.targets)}: there is no column {self.column!r} to corrupt; tuples have "
                f"{', '.join(tuples.schema.names)}."
            )
        kind = tuples.schema.field(place).type
        if kind not in (pa.float64(), pa.int64()):
            raise GraphError(f"Fault at {', '.join(self.targets)}: column {self.column!r} is {kind}, not a number.")
        salt = int(generator(self.seed, "corruption").integers(2**62))
        dice = (np.asarray(tuples[SEQ]).astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
        dice >>= np.uint64(40)
        bits = np.uint64(48) + dice % np.uint64(6) if kind == pa.float64() else dice % np.uint64(16)
        words = np.asarray(pc.fill_null(tuples[self.column], 0)).view(np.uint64) ^ (np.uint64(1) << bits)
        return tuples.set_column(place, tuples.schema.field(place), pa.array(words.view(kind.to_pandas_dtype())))
