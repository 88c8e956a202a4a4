"""What the user declares: sources, streams, operators, protections, sinks. Frozen data, no engine."""

from spillway.graph.checked import CheckedGraph
from spillway.graph.contracts import Contract
from spillway.graph.feeds import Feed, Generator, Trace
from spillway.graph.graph import Graph
from spillway.graph.growing import Files
from spillway.graph.nodes import Stream
from spillway.graph.protections import (
    Approximate,
    Checkpoint,
    Coordinated,
    Exact,
    Nothing,
    Protection,
    Uncoordinated,
    UpstreamBackup,
)
from spillway.graph.replicas import Group, Replicate
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet, Sink
from spillway.graph.tables import Delta, Postgres
from spillway.graph.windows import Decaying, Hopping, Sliding, Windowing

__all__ = [
    "Approximate",
    "CheckedGraph",
    "Checkpoint",
    "Console",
    "Contract",
    "Coordinated",
    "Decaying",
    "Delta",
    "Discard",
    "Exact",
    "Feed",
    "Files",
    "ForEachBatch",
    "Generator",
    "Graph",
    "Group",
    "Hopping",
    "Memory",
    "Nothing",
    "Parquet",
    "Postgres",
    "Protection",
    "Replicate",
    "Sink",
    "Sliding",
    "Stream",
    "Trace",
    "Uncoordinated",
    "UpstreamBackup",
    "Windowing",
]
