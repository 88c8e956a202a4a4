"""Trials from the first tuple to the last, on the local runtime: for any graph, and to check the faster ones by."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ
from spillway.graph.graph import Graph
from spillway.graph.sinks import Discard, Memory
from spillway.inject.difference import Difference
from spillway.inject.faults.fault import Fault, StateFault
from spillway.inject.golden import Flow, read_all
from spillway.inject.rewriting import entries, redraw, with_arrival, with_fault
from spillway.inject.single_operator import joined
from spillway.inject.trial import Outcome
from spillway.local.run import LocalRun
from spillway.operators.arrival import Interleaving
from spillway.score import affected_seqs
from spillway.state.folders import default_root

Int64s = npt.NDArray[np.int64]

_WATCHED = "watched"


class FullTrials:
    """Runs every trial of one graph in full."""

    def __init__(self, graph: Graph, *, sink: str) -> None:
        self._graph = _kept_in_memory(graph, sink)
        self._sink = sink
        checked = graph.checked()
        seqs = [np.asarray(read_all(checked, name)["seq"]) for name in checked.sources]
        self.seqs: Int64s = seqs[0] if len(seqs) == 1 else np.sort(np.concatenate(seqs))
        self._outputs: dict[Interleaving | None, Flow] = {}

    def close(self) -> None:
        self._outputs.clear()

    def entering(self, fault: Fault) -> Int64s:
        """The numbers of the tuples on the streams that a fault strikes, all together, in the order of ``seq``."""
        parts = []
        for edge in entries(self._graph, fault):
            watched = redraw(self._graph)
            watched.sink(_WATCHED, edge.stream, Memory())
            parts.append(np.asarray(_result(watched, _WATCHED)["seq"]))
        return np.sort(np.concatenate(parts))

    def output(self, arrival: Interleaving | None) -> Flow:
        """What reaches the scored sink without a fault."""
        if arrival not in self._outputs:
            if len(self._outputs) >= 16:
                self._outputs.pop(next(iter(self._outputs)))
            self._outputs[arrival] = Flow(_result(with_arrival(self._graph, arrival), self._sink))
        return self._outputs[arrival]

    def run(self, fault: Fault, arrival: Interleaving | None) -> Outcome:
        """The fault, in a run of this order of arrival; where it rejoined the golden run is not found out."""
        if not isinstance(fault, StateFault) and fault.offset >= self.entering(fault).size:
            raise InputError(f"Fault at {', '.join(fault.targets)}: offset {fault.offset:,} lies beyond its tuples.")
        golden, faulty = self.output(arrival).batch, self.faulty_output(fault, arrival)
        seqs = affected_seqs(pa.Table.from_batches([golden]), pa.Table.from_batches([faulty]))
        added = faulty.filter(pa.array(np.isin(np.asarray(faulty[SEQ]), seqs)))
        return Outcome(difference=Difference(lost=np.intersect1d(golden[SEQ], seqs), added=added), rejoined_seq=-1)

    def faulty_output(self, fault: Fault, arrival: Interleaving | None) -> pa.RecordBatch:
        return _result(with_fault(with_arrival(self._graph, arrival), fault), self._sink)


@contextmanager
def full_run(graph: Graph) -> Iterator[LocalRun]:
    """A run of a graph whose operators may be protected: backups lie in memory, and go with the run."""
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with TemporaryDirectory(prefix="backups-", dir=default_root()) as backups, LocalRun(graph, backups=backups) as run:
        yield run


def _result(graph: Graph, sink: str) -> pa.RecordBatch:
    with full_run(graph) as run:
        run.run()
        table = run.result(sink)
    return joined(table.to_batches(), table.schema)


def _kept_in_memory(graph: Graph, sink: str) -> Graph:
    """The graph with the scored output kept and all others dropped."""
    checked = graph.checked()
    if sink not in checked.exits:
        raise GraphError(f"Graph {graph.name!r} has no sink {sink!r}; it has {', '.join(checked.exits)}.")
    return redraw(graph, sink=lambda name, _: Memory(rows_max=10**9) if name == sink else Discard())
