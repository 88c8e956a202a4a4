"""Where a stream leaves the graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spillway.errors import GraphError


@dataclass(frozen=True, slots=True)
class Sink:
    """A destination of one stream."""

    def describe(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Parquet(Sink):
    """A folder of Parquet files, one sub-folder ``batch=N`` per batch.

    A batch that is run again replaces its sub-folder, so every tuple is there exactly once.
    """

    path: str

    def __post_init__(self) -> None:
        if not self.path:
            raise GraphError("Parquet: a folder is wanted; got an empty path.")

    def describe(self) -> str:
        return f"Parquet({self.path})"


@dataclass(frozen=True, slots=True)
class Console(Sink):
    """The first rows of every batch, printed."""

    rows: int = 20


@dataclass(frozen=True, slots=True)
class Memory(Sink):
    """Kept in the driver, to be read with ``run.result(name)``; at most ``rows_max`` rows, then it is an error."""

    rows_max: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Discard(Sink):
    """Computed and dropped: for benchmarks, and for graphs whose state is what matters."""


@dataclass(frozen=True, slots=True)
class ForEachBatch(Sink):
    """Any function of a batch and its number; a batch may come again after a failure, with the same number.

    The batch is a Spark DataFrame on Spark and an Arrow table on the local runtime.
    """

    function: Callable[[Any, int], object]
