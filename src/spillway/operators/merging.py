"""Operators that read several streams in the order in which their tuples arrive.

A runtime gives the tuples of one port at a time. A merging operator keeps them until the batch is complete and then
takes all ports together: by ``seq``, and for equal ``seq`` the first port first, unless it is given another order of
arrival (``arrival``).
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.graph.feeds import SEQ
from spillway.operators.arrival import Interleaving
from spillway.operators.operator import Operator, Out
from spillway.state.compiled import compiled

Int64s = npt.NDArray[np.int64]


class Merging(Operator):
    """An operator that sees the tuples of all its ports in one order."""

    arrival: Interleaving | None = None
    """In which order tuples of different ports arrive; None for the order of ``seq``."""

    _waiting: dict[str, pa.RecordBatch]

    def begin(self) -> None:
        self._waiting = {}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self._waiting[port] = batch
        return iter(())

    def finish(self) -> Iterator[Out]:
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        yield from self.merged(waiting, self._order(waiting))

    @abstractmethod
    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        """Apply tuples of all ports: ``ports[i]`` says by its index which port the i-th to arrive came by.

        ``batches`` holds the ports that have tuples.
        """

    def _order(self, waiting: dict[str, pa.RecordBatch]) -> Int64s:
        times: list[Any] = []
        for index, port in enumerate(self.inputs):
            seqs = np.asarray(waiting[port][SEQ]) if port in waiting else np.empty(0, np.int64)
            times.append(seqs if self.arrival is None else self.arrival.arrivals(index, seqs))
        if len(times) == 2:
            return merge_order(times[0], times[1])
        indices = np.repeat(np.arange(len(times)), [len(part) for part in times])
        return indices[np.argsort(np.concatenate(times), kind="stable")]


def merge_order(first: Any, second: Any) -> Int64s:
    """Which of two ascending sequences the next number comes from, 0 or 1; of equal numbers the first's come first.

    >>> merge_order(np.array([1, 4]), np.array([1, 2, 9])).tolist()
    [0, 1, 1, 0, 1]
    """
    out = np.empty(first.size + second.size, np.int64)
    _merge(first, second, out)
    return out


@compiled
def _merge(first: Any, second: Any, out: Any) -> None:
    i = j = 0
    for k in range(out.size):
        takes_first = j == second.size or (i < first.size and first[i] <= second[j])
        out[k] = 0 if takes_first else 1
        i += takes_first
        j += not takes_first
