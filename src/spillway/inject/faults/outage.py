"""Tuples that are lost."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from spillway.inject.faults.fault import TupleFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage(TupleFault):
    """An operator that is down loses what is sent to it, in a burst; its state stays as it was."""

    model: ClassVar[str] = "outage"
    in_words: ClassVar[str] = "outages (bursty loss of tuples)"

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return tuples.slice(0, 0)
