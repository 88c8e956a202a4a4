"""Graphs with something put into them: a fault in front of an operator, another order of arrival.

Both make a new graph and leave the given one alone, so the same graph can be run with any fault on either runtime.
"""

import copy
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from spillway.engine.kernels import kernel
from spillway.errors import GraphError
from spillway.graph.graph import Graph
from spillway.graph.nodes import Edge, Exit, Source, Stream
from spillway.graph.protections import Nothing
from spillway.graph.sinks import Sink
from spillway.inject.faults.fault import Fault, SetBackFault, StateFault, TupleFault
from spillway.inject.striking_state import with_struck_state
from spillway.operators.arrival import Interleaving
from spillway.operators.merging import Int64s, Merging
from spillway.operators.operator import Operator, Out
from spillway.state.primitives import Number

FAULT_POINT = "fault"
"""The name of the operator that strikes."""


class FaultPoint(Merging):
    """Counts the tuples of all its inputs in the order of ``seq`` and strikes those of a fault; others pass.

    Input port i leads to output port i.
    """

    seen = Number(dtype="int64")
    parameters = ("fault",)

    def __init__(self, name: str, fault: TupleFault, *, ports: int) -> None:
        super().__init__(name, protect=Nothing())
        self.fault = fault
        self.inputs = tuple(f"in{i}" for i in range(ports))
        self.outputs = tuple(f"out{i}" for i in range(ports))
        self.outputs_per_tuple_max = fault.outputs_per_tuple_max

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        for schema in inputs.values():
            self.fault.strike(_empty(schema))
        return dict(zip(self.outputs, (inputs[port] for port in self.inputs), strict=True))

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        before = int(self.seen)
        first = min(max(self.fault.offset - before, 0), ports.size)
        end = min(max(self.fault.offset + self.fault.length - before, 0), ports.size)
        self.seen = before + ports.size
        for index, (port, out) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            if port not in batches:
                continue
            tuples = batches[port]
            start, stop = (int(np.count_nonzero(ports[:place] == index)) for place in (first, end))
            for part in (tuples.slice(0, start), self._struck(tuples.slice(start, stop - start)), tuples.slice(stop)):
                if part.num_rows:
                    yield Out(out, part)

    def _struck(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return self.fault.strike(tuples) if tuples.num_rows else tuples


def with_fault(graph: Graph, fault: Fault) -> Graph:
    """The graph with a fault in front of its targets, or in their state."""
    if isinstance(fault, SetBackFault):
        raise GraphError(
            f"Fault at {', '.join(fault.targets)}: no graph sets back by itself what it keeps. Try it in a campaign."
        )
    if isinstance(fault, StateFault):
        check_targets(graph, fault)
        return redraw(graph, operator=lambda operator: with_struck_state(operator, fault))
    assert isinstance(fault, TupleFault)
    edges = entries(graph, fault)
    point = FaultPoint(FAULT_POINT, fault, ports=len(edges))
    ports = {edge: Stream(FAULT_POINT, port) for edge, port in zip(edges, point.outputs, strict=True)}
    redrawn = redraw(graph, stream=lambda edge: ports.get(edge, edge.stream), extra=(point,))
    for edge, port in zip(edges, point.inputs, strict=True):
        redrawn.connect(edge.stream, FAULT_POINT, port)
    return redrawn


def with_arrival(graph: Graph, arrival: Interleaving | None) -> Graph:
    """The graph in which streams that meet arrive in another order."""

    def arriving(operator: Operator) -> Operator:
        if not isinstance(operator, Merging) or isinstance(operator, FaultPoint):
            return operator
        changed = copy.copy(operator)
        changed.arrival = arrival
        return changed

    return redraw(graph, operator=arriving)


def entries(graph: Graph, fault: Fault) -> tuple[Edge, ...]:
    """The streams that a fault strikes, in the order they were drawn."""
    failing = set(fault.targets)
    check_targets(graph, fault)
    for between in _downstream(graph, failing) & _upstream(graph, failing) - failing:
        raise GraphError(
            f"Fault: operators that fail together must have nothing between them; {between!r} lies between "
            f"{' and '.join(sorted(failing))}. Let it fail with them."
        )

    def strikes(edge: Edge) -> bool:
        sent = edge.stream.node in failing
        if fault.at == "output":
            return sent and edge.node not in failing
        if sent:
            return isinstance(graph.nodes[edge.stream.node], Source)
        return edge.node in failing

    return tuple(edge for edge in graph.edges if not edge.feedback and strikes(edge))


def check_targets(graph: Graph, fault: Fault) -> None:
    """Refuse a fault at something that is not there, or that has no state to corrupt."""
    for target in fault.targets:
        node = graph.nodes.get(target)
        if node is None or isinstance(node, Exit):
            known = [name for name, node in graph.nodes.items() if not isinstance(node, Exit)]
            raise GraphError(
                f"Fault: {target!r} is no source or operator of graph {graph.name!r}; there are {', '.join(known)}."
            )
        if isinstance(fault, StateFault) and not fault.can_strike(node):
            what = (
                "state that could be set back"
                if isinstance(fault, SetBackFault)
                else "state by key that could be corrupted"
            )
            raise GraphError(f"Fault: {target!r} keeps no {what}.")


def _downstream(graph: Graph, nodes: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        new = {edge.node for edge in graph.edges if edge.stream.node == node and not edge.feedback} - found
        found |= new
        waiting += new
    return found


def _upstream(graph: Graph, nodes: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        new = {edge.stream.node for edge in graph.edges if edge.node == node and not edge.feedback} - found
        found |= new
        waiting += new
    return found


def redraw(
    graph: Graph,
    *,
    stream: Callable[[Edge], Stream] = lambda edge: edge.stream,
    operator: Callable[[Operator], Operator] = lambda operator: operator,
    sink: Callable[[str, Sink], Sink] = lambda name, sink: sink,
    extra: tuple[Operator, ...] = (),
) -> Graph:
    """The same graph drawn again, with other operators or sinks, or with streams that come from elsewhere.

    Contracts of sinks are left out: a graph that is struck on purpose is not refused because it cannot keep them.
    """
    redrawn = Graph(graph.name, shards=graph.shards, delay_max=graph.delay_max)
    for node in graph.nodes.values():
        if isinstance(node, Source):
            redrawn.source(node.name, node.data, **node.said)
        elif not isinstance(node, Exit):
            redrawn.add(operator(kernel(node)))
    for added in extra:
        redrawn.add(added)
    for edge in graph.edges:
        node = graph.nodes[edge.node]
        if isinstance(node, Exit):
            redrawn.sink(node.name, stream(edge), sink(node.name, node.sink))
        else:
            redrawn.connect(stream(edge), edge.node, edge.port, feedback=edge.feedback, durable=edge.durable)
    return redrawn


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
