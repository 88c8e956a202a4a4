"""Spillway: streaming pipelines on Spark that survive failures without paying for perfection.

Draw a pipeline as a graph of operators, run it on Spark Structured Streaming, and say for each operator how much error
it may have after a failure. State is kept in memory beside Spark and backed up only as often as that error requires.

Here are the names that every pipeline uses. Built-in operators are in ``spillway.operators``; ``spillway.inject``
breaks a pipeline on purpose, ``spillway.score`` says what that did to the answer, ``spillway.model`` and
``spillway.san`` say what would happen.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spillway import operators
from spillway.backup.promise import Loss
from spillway.engine.supervising import RestartRule
from spillway.errors import SpillwayError
from spillway.graph import (
    Approximate,
    Checkpoint,
    Console,
    Contract,
    Coordinated,
    Decaying,
    Delta,
    Discard,
    Exact,
    ForEachBatch,
    Generator,
    Graph,
    Group,
    Hopping,
    Memory,
    Nothing,
    Parquet,
    Postgres,
    Protection,
    Replicate,
    Sliding,
    Stream,
    Trace,
    Uncoordinated,
    UpstreamBackup,
    Windowing,
)
from spillway.local import LocalJobs, LocalRun
from spillway.operators.adding import Added, AddingUp
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.stateless import field
from spillway.state import HashTable, KeySet, Matrix, Number, Sample, Tally, TallyTable, Vector, Window

# Last, since there is a package of this name too, whose first import would take the name. Its modules are imported by
# their whole names, which finds them whatever the name stands for here.
from spillway.graph.growing import files  # isort: skip
from spillway.graph.kafka.topic import kafka  # isort: skip

if TYPE_CHECKING:
    from spillway import inject, model, san, score
    from spillway.receiver import Sender
    from spillway.spark import (
        JobsRun,
        ProtectedFrame,
        ProtectedQuery,
        ProtectedWriter,
        Run,
        explain,
        frame,
        protect,
        received,
        run,
        run_jobs,
        session,
        session_settings,
        verify,
    )
    from spillway.tls import TLS

__version__ = "0.1.0"

# A library says nothing by itself: whoever wants its lines gives ``spillway`` a handler.
logging.getLogger("spillway").addHandler(logging.NullHandler())

__all__ = [
    "TLS",
    "Added",
    "AddingUp",
    "Approximate",
    "Checkpoint",
    "Console",
    "Contract",
    "Coordinated",
    "Decaying",
    "Delta",
    "Discard",
    "Exact",
    "ForEachBatch",
    "Generator",
    "Graph",
    "Group",
    "HashTable",
    "Hopping",
    "JobsRun",
    "KeySet",
    "LocalJobs",
    "LocalRun",
    "Loss",
    "Matrix",
    "Memory",
    "Nothing",
    "Number",
    "Operator",
    "Out",
    "Parquet",
    "Postgres",
    "ProtectedFrame",
    "ProtectedQuery",
    "ProtectedWriter",
    "Protection",
    "Replicate",
    "RestartRule",
    "Run",
    "Sample",
    "Sender",
    "Sliding",
    "SpillwayError",
    "Stream",
    "Tally",
    "TallyTable",
    "Trace",
    "Uncoordinated",
    "UpstreamBackup",
    "Vector",
    "Window",
    "Windowing",
    "columns",
    "explain",
    "field",
    "files",
    "frame",
    "inject",
    "kafka",
    "model",
    "operators",
    "protect",
    "received",
    "run",
    "run_jobs",
    "san",
    "score",
    "session",
    "session_settings",
    "verify",
]

_OF_SPARK = {
    "JobsRun",
    "ProtectedFrame",
    "ProtectedQuery",
    "ProtectedWriter",
    "Run",
    "explain",
    "frame",
    "protect",
    "received",
    "run",
    "run_jobs",
    "session",
    "session_settings",
    "verify",
}


def __getattr__(name: str) -> Any:
    """Load Spark only for those who run on it, and the receiver, models and campaigns for those who ask: the rest
    starts at once."""
    if name in _OF_SPARK:
        return getattr(import_module("spillway.spark"), name)
    if name == "Sender":
        return import_module("spillway.receiver").Sender
    if name == "TLS":
        return import_module("spillway.tls").TLS
    if name in ("inject", "model", "san", "score"):
        return import_module(f"spillway.{name}")
    raise AttributeError(f"module 'spillway' has no attribute {name!r}")
