"""Where a stream leaves the graph."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spillway.errors import GraphError
from spillway.given import check_whole


@dataclass(frozen=True, slots=True)
class Sink:
    """A destination of one stream."""

    def ends(self, name: str) -> Mapping[str, float]:
        """Where tuples given to it end, under its ``name``, and how many each can become there at most."""
        return {name: 1.0}

    def describe(self) -> str:
        return type(self).__name__

    def about(self) -> dict[str, str]:
        """What the records of a run say of it: its kind and, if its batches are sub-folders of a folder, which."""
        return {"kind": type(self).__name__}


@dataclass(frozen=True, slots=True)
class Parquet(Sink):
    """A folder of Parquet files, one sub-folder ``batch=N`` per batch.

    A batch that is run again replaces its sub-folder, so every tuple is there exactly once.
    """

    path: str

    def __post_init__(self) -> None:
        path: object = self.path
        if not isinstance(path, str) or not path:
            raise GraphError(f"Parquet: the path of a folder is wanted, as text; got {path!r}.")

    def describe(self) -> str:
        return f"Parquet({self.path})"

    def about(self) -> dict[str, str]:
        return {"kind": "Parquet", "path": os.path.abspath(self.path) if "://" not in self.path else self.path}


@dataclass(frozen=True, slots=True)
class Console(Sink):
    """The first rows of every batch, printed."""

    rows: int = 20

    def __post_init__(self) -> None:
        check_whole("Console: rows", self.rows, least=0)


@dataclass(frozen=True, slots=True)
class Memory(Sink):
    """Kept in the driver, to be read with ``run.result(name)``; at most ``rows_max`` rows, then it is an error."""

    rows_max: int = 10_000_000

    def __post_init__(self) -> None:
        check_whole("Memory: rows_max", self.rows_max, least=0)


@dataclass(frozen=True, slots=True)
class Discard(Sink):
    """Computed and dropped: for benchmarks, and for graphs whose state is what matters."""


@dataclass(frozen=True, slots=True)
class ForEachBatch(Sink):
    """Any function of a batch and its number; a batch may come again after a failure, with the same number.

    The batch is a Spark DataFrame on Spark and an Arrow table on the local runtime.

    A job that is protected as a whole (``Coordinated``) may be sent back to an earlier batch. Then ``rewound`` is
    called with its number, and is to take back whatever later batches did; it may be called again with the same number.
    Without it nothing is taken back: batches after that one come once more, and may be divided otherwise than before.
    """

    function: Callable[[Any, int], object]
    rewound: Callable[[int], object] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise GraphError(f"ForEachBatch: a function of a batch and its number is wanted; got {self.function!r}.")
        if self.rewound is not None and not callable(self.rewound):
            raise GraphError(f"ForEachBatch: rewound is a function of a batch's number; got {self.rewound!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """A column of files that tasks write: one of theirs, or a struct of several."""

    name: str
    type: pa.DataType
    of: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFiles:
    """Parquet files in a folder of this machine, under names that nobody else has; who reads them is told which."""

    folder: str
    columns: tuple[FileColumn, ...]


@dataclass(frozen=True, slots=True)
class Frames(Sink):
    """Any function of a batch's Spark DataFrame and its number, which is given the frame before it was run.

    What the function does with it runs the batch, as one job: tuples are not kept in between, as they are for
    ``ForEachBatch``. If it does not look at all of them, they are run once more. Only on Spark, and the only sink.
    ``rewound`` is as for ``ForEachBatch``. With ``files`` tasks write these, and the frame has a row for each: its
    ``path``, its ``size`` in bytes, and the ``time`` at which it was written, in milliseconds.
    """

    function: Callable[[Any, int], object]
    rewound: Callable[[int], object] | None = None
    files: WrittenFiles | None = None
