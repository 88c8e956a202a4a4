"""A graph that was found well-formed, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa

from spillway.graph.declaration import Declaration
from spillway.graph.delays import DELAY_MAX
from spillway.graph.nodes import Edge, Exit, Source, Stream
from spillway.graph.protections import Protection
from spillway.graph.watermarks import TIMES, Watermark
from spillway.graph.windows import MARKS, Hopping


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGraph:
    """A well-formed graph: what runtimes work from."""

    name: str
    shards: int
    sources: Mapping[str, Source]
    operators: Mapping[str, Declaration]
    exits: Mapping[str, Exit]
    edges: tuple[Edge, ...]
    schemas: Mapping[Stream, pa.Schema]
    order: tuple[str, ...]  # operators, every one after those it reads from
    delay_max: timedelta = DELAY_MAX
    delays: Mapping[Stream, timedelta] = field(default_factory=dict)  # of streams that have a limit of their own
    protect: Protection | None = None  # of the whole graph, if that was said
    watermarks: Mapping[str, Watermark] = field(default_factory=dict)  # of operators whose windows they end

    def delay_max_of(self, operator: str) -> timedelta:
        """How late the output of an operator may be while a host is gone: by its own word, or by its streams'."""
        own = self.operators[operator].delay_max
        streams = [self.delays.get(Stream(operator, port)) for port in self.operators[operator].outputs]
        return min([self.delay_max if own is None else own, *(late for late in streams if late is not None)])

    def upstream(self, node: str) -> set[str]:
        """Everything whose tuples, or what became of them, can reach a node, feedback included."""
        found: set[str] = set()
        waiting = [node]
        while waiting:
            name = waiting.pop()
            new = {edge.stream.node for edge in self.edges if edge.node == name} - found
            found |= new
            waiting += new
        return found

    def shards_of(self, operator: str) -> int:
        """How many: as declared, or as the graph has by default if there is a key; otherwise one."""
        declaration = self.operators[operator]
        return declaration.shards or (self.shards if declaration.key else 1)

    def senders_of(self, edge: Edge) -> int:
        """How many put down what travels on a feedback edge: the shards of its operator, or the log of another job."""
        return self.shards_of(edge.stream.node) if edge.stream.node in self.operators else 1

    def schema_of(self, edge: Edge) -> pa.Schema:
        """What travels on an edge."""
        return TIMES if edge.tells_time else MARKS if edge.marks else self.schemas[edge.stream]

    def feedback_into(self, node: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.node == node and edge.feedback]

    def feedback_out_of(self, node: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.stream.node == node and edge.feedback]

    def marks_into(self, node: str) -> list[Edge]:
        """The punctuation that an operator with hopping windows gets beside its tuples, or the times of sources."""
        if node in self.watermarks:
            clocks = self.watermarks[node].clocks
            return [Edge(Stream(clock.source, "out"), node, "", marks=True) for clock in clocks]
        operator = self.operators.get(node)
        if operator is None or not isinstance(operator.windowing, Hopping):
            return []
        return [replace(edge, marks=True) for edge in self.into(node)]

    def into(self, node: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.node == node and not edge.feedback]

    def out_of(self, node: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.stream.node == node and not edge.feedback]

    def output_schemas(self, operator: str) -> Mapping[str, pa.Schema]:
        return {port: self.schemas[Stream(operator, port)] for port in self.operators[operator].outputs}

    def downstream_outputs_max(self, operator: str) -> float:
        """The most tuples at any one sink that one output tuple of ``operator`` can cause, or 1: β^(m-i) of a pipeline.

        A tuple goes to everything that reads its port, so paths that meet again at a sink add up.
        """
        sinks = {sink for name, exit in self.exits.items() for sink in exit.sink.ends(name)}
        return max(1.0, *(self._outputs_max(operator, sink) for sink in sinks))

    def arriving_max(self, sink: str) -> dict[str, float]:
        """The most tuples at ``sink`` that one tuple can cause which arrives at a node, by node."""
        most = {name: exit.sink.ends(name).get(sink, 0.0) for name, exit in self.exits.items()}
        for name in reversed(self.order):
            most[name] = max(self._by_port(name, most).values()) * self.operators[name].outputs_per_tuple_max
        return most

    def _outputs_max(self, operator: str, sink: str) -> float:
        """The most tuples at ``sink`` that one output tuple of ``operator`` can cause, by whichever port it leaves."""
        return max(self._by_port(operator, self.arriving_max(sink)).values())

    def _by_port(self, operator: str, most: Mapping[str, float]) -> dict[str, float]:
        by_port = dict.fromkeys(self.operators[operator].outputs, 0.0)
        for edge in self.out_of(operator):
            by_port[edge.stream.port] += most[edge.node]
        return by_port
