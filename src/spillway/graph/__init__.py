"""What the user declares: sources, streams, operators, protections, sinks. Frozen data, no engine."""

from spillway.graph.feeds import Feed, Generator, Trace
from spillway.graph.graph import CheckedGraph, Graph, Stream
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet, Sink

__all__ = [
    "Approximate",
    "CheckedGraph",
    "Checkpoint",
    "Console",
    "Discard",
    "Exact",
    "Feed",
    "ForEachBatch",
    "Generator",
    "Graph",
    "Memory",
    "Nothing",
    "Parquet",
    "Protection",
    "Sink",
    "Stream",
    "Trace",
]
