"""Tuples that come more than once."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from spillway.given import check_whole
from spillway.inject.faults.fault import Fault, TupleFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplication(TupleFault):
    """Every tuple comes ``copies`` times, as from replicas that do not know of each other."""

    model: ClassVar[str] = "duplication"
    in_words: ClassVar[str] = "duplication"
    copies: int = 2

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("Duplication: copies", self.copies, least=2)

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return tuples.take(pa.array(np.repeat(np.arange(tuples.num_rows), self.copies)))

    @property
    def outputs_per_tuple_max(self) -> float:
        return float(self.copies)
