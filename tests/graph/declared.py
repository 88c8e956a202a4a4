"""Operators that only declare: all that a graph looks at, and nothing that runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.graph import Generator, Memory, Nothing, Protection, Windowing
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.graph.watermarks import Watermark

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("k", pa.string()), pa.field("v", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class Step:
    """An operator by its declaration alone."""

    name: str
    inputs: tuple[str, ...] = ("in",)
    feedback_inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out",)
    key: tuple[str, ...] = ()
    shards: int | None = None
    delay_max: timedelta | None = None
    delay_min: timedelta = timedelta(0)
    protect: Protection = field(default_factory=Nothing)
    stateful: bool = False
    windowing: Windowing | None = None
    windows_at_once: bool = False
    outputs_per_tuple_max: float = 1.0
    schema: pa.Schema = SCHEMA
    schemas: Mapping[str, pa.Schema] | None = None

    def following(self, watermark: Watermark) -> "Step":
        return self

    def resolved(self, inputs: Mapping[str, pa.Schema]) -> "Step":
        return self

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        return dict.fromkeys(self.outputs, self.schema) if self.schemas is None else self.schemas

    def protected_by(self, protect: Protection, *, anyway: bool = False) -> "Step":
        return replace(self, protect=protect) if self.stateful else self

    def describe_state(self) -> str:
        return "table HashTable(string,int64,max)"


def rows(piece: int) -> pa.RecordBatch:
    seqs = np.arange(10 * piece, 10 * piece + 10)
    return pa.RecordBatch.from_arrays([seqs, [str(seq % 3) for seq in seqs], seqs * 2], schema=SCHEMA)


def feed() -> Generator:
    return Generator(make=rows, schema=SCHEMA, pieces=2)


def source(graph: Graph, name: str = "s") -> Stream:
    return graph.source(name, feed())


def chain(*steps: Step, name: str = "g", **options: Any) -> Graph:
    """source -> the steps, one after the other -> sink"""
    graph = Graph(name, **options)
    stream = source(graph)
    for step in steps:
        stream = graph.add(step, stream)
    graph.sink("out", stream, Memory())
    return graph
