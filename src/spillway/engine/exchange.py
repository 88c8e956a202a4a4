"""Tuples between stages: which task of the next stage each goes to, exactly as Spark places them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.engine.task import Leaving
from spillway.graph.feeds import SEQ
from spillway.graph.graph import CheckedGraph, Edge
from spillway.graph.stages import Stage
from spillway.operators.hashing import shards_of


def exchange(graph: CheckedGraph, stage: Stage, leaving: Iterable[Leaving]) -> list[list[Leaving]]:
    """The tuples that arrive at each task of ``stage``."""
    arriving: dict[int, list[Leaving]] = defaultdict(list)
    for edge, batch in leaving:
        places = _places(graph, stage, edge, batch)
        for place in np.unique(places):
            arriving[int(place)].append((edge, batch.filter(pa.array(places == place))))
    return [arriving[index] for index in range(stage.partitions)]


def _places(graph: CheckedGraph, stage: Stage, edge: Edge, batch: pa.RecordBatch) -> npt.NDArray[np.signedinteger[Any]]:
    if edge.node in stage.operators and graph.operators[edge.node].stateful and not edge.marks:
        return shards_of(batch, graph.operators[edge.node].key, graph.shards_of(edge.node))
    seqs: npt.NDArray[np.int64] = np.asarray(batch[SEQ])
    return np.mod(seqs, stage.partitions)
