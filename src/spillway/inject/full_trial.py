"""Trials from the first tuple to the last, on the local runtime: for any graph, and to check the faster ones by."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ
from spillway.graph.graph import Graph
from spillway.graph.nodes import Edge
from spillway.graph.sinks import Discard, Memory
from spillway.inject.difference import Difference
from spillway.inject.faults.fault import Fault, SetBackFault, StateFault
from spillway.inject.full_run import full_run
from spillway.inject.golden import Flow, read_all
from spillway.inject.rewriting import entries, redraw, with_arrival, with_fault
from spillway.inject.setting_back import output_set_back
from spillway.inject.single_operator import joined
from spillway.inject.trial import Outcome
from spillway.operators.arrival import Interleaving
from spillway.score import affected_seqs

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
        self._entering: dict[tuple[Edge, ...], Int64s] = {}

    def close(self) -> None:
        self._outputs.clear()

    def entering(self, fault: Fault) -> Int64s:
        """The numbers of the tuples on the streams that a fault strikes, all together, in the order of ``seq``."""
        edges = entries(self._graph, fault)
        if edges not in self._entering:
            parts = []
            for edge in edges:
                watched = redraw(self._graph)
                watched.sink(_WATCHED, edge.stream, Memory())
                parts.append(np.asarray(_result(watched, _WATCHED)["seq"]))
            self._entering[edges] = np.sort(np.concatenate(parts))
        return self._entering[edges]

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
        graph = with_arrival(self._graph, arrival)
        if isinstance(fault, SetBackFault):
            return output_set_back(graph, fault, sink=self._sink, seqs=self.seqs)
        return _result(with_fault(graph, fault), self._sink)


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
