"""Tuples that come in another order."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from spillway.given import check_whole
from spillway.graph.feeds import SEQ
from spillway.inject.faults.fault import Fault, TupleFault
from spillway.seeds import generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordering(TupleFault):
    """Tuples change places with others at most ``reach`` of the source's tuples away.

    Operators take tuples in the order of ``seq``, so a tuple that comes in another's place gets its ``seq``. Places are
    changed inside the spans [n · reach, (n+1) · reach) of ``seq``; batches must begin where a span does.
    """

    model: ClassVar[str] = "reordering"
    in_words: ClassVar[str] = "reordering"
    reach: int = 1000

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        check_whole("Reordering: reach", self.reach, least=2)

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        spans = np.asarray(tuples[SEQ]) // self.reach
        edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(spans)]
        order = np.arange(len(spans))
        for first, end in pairwise(edges):
            if end > first:
                random = generator(self.seed, "reordering", int(spans[first]))
                order[first:end] = first + random.permutation(end - first)
        moved = tuples.take(pa.array(order))
        return moved.set_column(moved.schema.get_field_index(SEQ), tuples.schema.field(SEQ), tuples[SEQ])

    @classmethod
    def unfelt(cls, *, inputs: int, stateful: bool) -> str:
        if inputs == 1 and not stateful:
            return "It has one input and no state: the order of tuples makes no difference to it."
        return ""
