"""A graph and its input, as a declaration from which any number of graphs can be made."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.graph.sinks import ForEachBatch
from spillway.soak.blocks import Block, Kept, Making
from spillway.soak.demands import demands_on
from spillway.soak.tuples import SCHEMA, Times

GRAPH = "schedule"
OUT = "-out"
"""What the name of a sink ends with, behind that of the stream it is given."""

Collect = Callable[[str, pa.Table, int], None]
"""Told what a sink is given: its name, the tuples, the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """A source and all it will give, pieces by batch; some are empty."""

    name: str
    batches: tuple[tuple[pa.RecordBatch, ...], ...]

    @property
    def tuples(self) -> int:
        return sum(piece.num_rows for pieces in self.batches for piece in pieces)

    def feed(self) -> Generator:
        pieces = [piece for pieces in self.batches for piece in pieces]
        per_batch = len(self.batches[0])
        return Generator(make=pieces.__getitem__, schema=SCHEMA, pieces=len(pieces), pieces_per_batch=per_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What one operator puts out, led back to another."""

    stream: Stream
    to: str
    durable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run to be broken."""

    sources: tuple[Fed, ...]
    blocks: tuple[Block, ...]
    feedback: tuple[Feedback, ...]
    times: Times
    fault_rate: float  # probability of each fault that may happen in a batch

    @property
    def batches(self) -> int:
        return len(self.sources[0].batches)

    @property
    def tuples(self) -> int:
        return sum(source.tuples for source in self.sources)

    @property
    def kept(self) -> list[Kept]:
        """All operators with state."""
        return [kept for block in self.blocks for kept in block.kept()]

    @property
    def exact(self) -> bool:
        """Whether the whole graph puts out what it would without faults, whatever is lost."""
        named = [kept for kept in self.kept if not kept.name.endswith(("-merged", "-total"))]
        kept_exact = all(demands_on(kept.protection).nothing_lost for kept in named)
        return kept_exact and all(edge.durable for edge in self.feedback)

    def seqs(self, batch: int) -> tuple[int, int] | None:
        """The least and the highest ``seq`` that the sources have given up to a batch; None if they gave nothing."""
        ends = [
            (piece["seq"][0].as_py(), piece["seq"][-1].as_py())
            for source in self.sources
            for pieces in source.batches[: batch + 1]
            for piece in pieces
            if piece.num_rows
        ]
        return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None

    def graph(self, making: Making, collect: Collect) -> Graph:
        graph = Graph(GRAPH)
        streams = {source.name: graph.source(source.name, source.feed()) for source in self.sources}
        for block in self.blocks:
            streams[block.name] = block.add(graph, [streams[name] for name in block.reads], making)
        for edge in self.feedback:
            graph.connect(edge.stream, edge.to, "back", feedback=True, durable=edge.durable)
        read = {name for block in self.blocks for name in block.reads}
        for name, stream in streams.items():
            if name not in read:
                graph.sink(name + OUT, stream, ForEachBatch(_given_to(collect, name)))
        return graph

    def describe(self) -> str:
        """The graph in words, one line for each part."""
        lines = [f"{source.name}: {source.tuples} tuples in {self.batches} batches" for source in self.sources]
        lines += [str(block) for block in self.blocks]
        lines += [f"feedback {edge.stream} to {edge.to}{', durable' if edge.durable else ''}" for edge in self.feedback]
        return "\n".join(lines)


def _given_to(collect: Collect, sink: str) -> Callable[[pa.Table, int], None]:
    return lambda table, batch: collect(sink, table, batch)
