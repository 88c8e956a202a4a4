"""Spillway: streaming pipelines on Spark that survive failures without paying for perfection.

Draw a pipeline as a graph of operators, run it on Spark Structured Streaming, and say for each operator how much error
it may have after a failure. State is kept in memory beside Spark and backed up only as often as that error requires.
"""

from typing import TYPE_CHECKING, Any

from spillway.backup import Loss
from spillway.errors import SpillwayError
from spillway.graph import (
    Approximate,
    Checkpoint,
    Console,
    Decaying,
    Discard,
    Exact,
    ForEachBatch,
    Generator,
    Graph,
    Hopping,
    Memory,
    Nothing,
    Parquet,
    Protection,
    Sliding,
    Stream,
    Trace,
    UpstreamBackup,
    Windowing,
)
from spillway.local import LocalRun
from spillway.operators import (
    Apply,
    Barrier,
    Count,
    CountMin,
    GlobalModel,
    Keyed,
    LatestJoin,
    LocalModel,
    LocalSketch,
    Match,
    MergeSketches,
    Operator,
    Out,
    RippleJoin,
    Select,
    SlidingAggregate,
    SumEstimates,
    Union,
    Where,
    WindowJoin,
    Words,
    columns,
    field,
)
from spillway.receiver import Sender
from spillway.state import HashTable, KeySet, Matrix, Number, Sample, Tally, TallyTable, Vector, Window

if TYPE_CHECKING:
    from spillway.spark import Run, received, run, session

__version__ = "0.1.0"

__all__ = [
    "Apply",
    "Approximate",
    "Barrier",
    "Checkpoint",
    "Console",
    "Count",
    "CountMin",
    "Decaying",
    "Discard",
    "Exact",
    "ForEachBatch",
    "Generator",
    "GlobalModel",
    "Graph",
    "HashTable",
    "Hopping",
    "KeySet",
    "Keyed",
    "LatestJoin",
    "LocalModel",
    "LocalRun",
    "LocalSketch",
    "Loss",
    "Match",
    "Matrix",
    "Memory",
    "MergeSketches",
    "Nothing",
    "Number",
    "Operator",
    "Out",
    "Parquet",
    "Protection",
    "RippleJoin",
    "Run",
    "Sample",
    "Select",
    "Sender",
    "Sliding",
    "SlidingAggregate",
    "SpillwayError",
    "Stream",
    "SumEstimates",
    "Tally",
    "TallyTable",
    "Trace",
    "Union",
    "UpstreamBackup",
    "Vector",
    "Where",
    "Window",
    "WindowJoin",
    "Windowing",
    "Words",
    "columns",
    "field",
    "received",
    "run",
    "session",
]


def __getattr__(name: str) -> Any:
    """Load Spark only for those who run on it: drawing and local runs start at once."""
    if name in ("Run", "received", "run", "session"):
        from spillway import spark

        return getattr(spark, name)
    raise AttributeError(f"module 'spillway' has no attribute {name!r}")
