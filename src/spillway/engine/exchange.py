"""Tuples between stages: which task of the next stage each goes to.

The rule is said here as a value, so that a runtime can compute it where its tuples are: the local one in numpy, Spark
as a column. Both hash alike (``state.hashing``), so the same tuple reaches the same shard on both.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.engine.task import Leaving
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage
from spillway.operators.hashing import key_hashes
from spillway.state.hashing import shard_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """The number of the task a tuple goes to: the hash of its key, or its ``seq`` if there is none, modulo ``tasks``.

    >>> batch = pa.RecordBatch.from_pydict({"seq": [7, 8, 9, -1]})
    >>> Placing(key=(), tasks=4).places(batch).tolist()
    [3, 0, 1, 3]
    """

    key: tuple[str, ...]
    tasks: int

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The task of each tuple."""
        if self.tasks == 1:
            return np.zeros(batch.num_rows, np.int32)
        if self.key:
            return shard_of(key_hashes(batch, self.key), self.tasks)
        shares: npt.NDArray[np.int32] = np.mod(np.asarray(batch[SEQ]), self.tasks).astype(np.int32)
        return shares


def placing(graph: CheckedGraph, stage: Stage, edge: Edge) -> Placing:
    """How what arrives on an edge is shared out among the tasks of a stage.

    Tuples for an operator with state go to their shard. All else may be anywhere: what passes by, and punctuation, of
    which there is a copy for every shard, numbered so that each gets one.
    """
    if edge.node in stage.operators and graph.operators[edge.node].stateful and not edge.marks:
        return Placing(key=tuple(graph.operators[edge.node].key), tasks=graph.shards_of(edge.node))
    return Placing(key=(), tasks=stage.partitions)


def exchange(graph: CheckedGraph, stage: Stage, leaving: Iterable[Leaving]) -> list[list[Leaving]]:
    """The tuples that arrive at each task of ``stage``."""
    arriving: dict[int, list[Leaving]] = defaultdict(list)
    for edge, batch in leaving:
        places = placing(graph, stage, edge).places(batch)
        for place in np.unique(places):
            arriving[int(place)].append((edge, batch.filter(pa.array(places == place))))
    return [arriving[index] for index in range(stage.partitions)]
