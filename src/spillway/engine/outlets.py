"""The sinks of a graph at work: what each kind is given, and what becomes of it, said once for both runtimes.

A runtime brings what leaves the graph as an ``Output`` for each sink. A kind of sink that is not known here is refused
before anything runs. A batch may come again, with the same number: what it gave before is replaced, or stays if it is
in a table of another system (see ``tables``). A job may also be sent back: then sinks forget what came after a batch,
as far as they can; a table that could not is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spillway.backup.keeper import Observer, ignore
from spillway.engine.author import Author
from spillway.engine.coordinating import batches_kept
from spillway.engine.delta_table import DeltaTable
from spillway.engine.job_logs import JobLogs
from spillway.engine.kept import Kept
from spillway.engine.parquet_folder import forget_batches
from spillway.engine.postgres_table import PostgresTable
from spillway.engine.rewinding import job_protection
from spillway.engine.tables import Table, TableOutlet
from spillway.errors import GraphError, RunError
from spillway.graph.checked import CheckedGraph
from spillway.graph.sinks import Console, Discard, ForEachBatch, Frames, Memory, Parquet, Sink
from spillway.graph.stream_logs import LogOutput
from spillway.graph.tables import Delta, Postgres, TableSink


class Output(Protocol):
    """What leaves the graph for one sink in one batch, wherever a runtime has it."""

    def native(self) -> Any:
        """It, in the form in which this runtime hands it to a function of the user's."""

    def table(self) -> pa.Table:
        """All of it, in this process."""

    def show(self, *, batch: int, rows: int) -> None:
        """Print the first rows."""

    def write_parquet(self, path: str, *, batch: int) -> None:
        """Have it as the whole content of the batch's sub-folder of a folder; one that is there is replaced."""


Write = Callable[[Output, int], object]
Forget = Callable[[int], object]
Begin = Callable[[int, bool], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A sink at work: what it does with a batch, what to forget those after one, and what before the first."""

    write: Write
    forget_after: Forget = lambda batch: None
    begin: Begin = lambda batch, went_back: None


class Outlets:
    """All sinks of a graph at work; tables of other systems know by ``author`` which run it is."""

    def __init__(self, graph: CheckedGraph, logs: JobLogs | None = None, *, author: Author | None = None) -> None:
        self._graph = graph
        self._logs = logs
        self._author = author or Author()
        self._observe: Observer = ignore
        self.schemas = {name: graph.schemas[graph.into(name)[0].stream] for name in graph.exits}
        """What each sink is given."""
        self._kept: dict[str, Kept] = {}
        self._outlets = {name: self._outlet(name, exit.sink) for name, exit in graph.exits.items()}

    def begin(self, batch: int, *, went_back: bool, observe: Observer = ignore) -> None:
        """A run is about to begin with a batch, perhaps where it was sent back to: have sinks ready, or say why not.

        ``observe`` is told when tables are given what.
        """
        self._observe = observe
        tables = [name for name, exit in self._graph.exits.items() if isinstance(exit.sink, TableSink)]
        if tables and batch > 0 and not self._author.is_known:
            raise RunError(
                f"Sink {tables[0]!r}: to go on with batch {batch} it must be known as whom the run wrote to its table "
                f"before. Name checkpoint= or backups=, as the run that is resumed has done."
            )
        for outlet in self._outlets.values():
            outlet.begin(batch, went_back)

    def write(self, outputs: Mapping[str, Output], *, batch: int) -> None:
        """Give every sink its part of a batch."""
        for name, output in outputs.items():
            self._outlets[name].write(output, batch)

    def forget_after(self, batch: int) -> None:
        """Have every sink be as it was after ``batch``; what cannot be taken back, on a screen, stays."""
        for outlet in self._outlets.values():
            outlet.forget_after(batch)

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        if sink not in self._kept:
            raise GraphError(f"Graph {self._graph.name!r} has no Memory sink {sink!r}.")
        return self._kept[sink].result()

    def _outlet(self, name: str, sink: Sink) -> Outlet:
        match sink:
            case Parquet(path=path):
                return Outlet(
                    write=lambda output, batch: output.write_parquet(path, batch=batch),
                    forget_after=lambda batch: forget_batches(path, after=batch),
                )
            case Memory(rows_max=rows_max):
                kept = self._kept[name] = Kept(name, self.schemas[name], rows_max=rows_max)
                return Outlet(
                    write=lambda output, batch: kept.put(batch, output.table()), forget_after=kept.forget_after
                )
            case Console(rows=rows):
                return Outlet(write=lambda output, batch: output.show(batch=batch, rows=rows))
            case ForEachBatch(function=function, rewound=rewound) | Frames(function=function, rewound=rewound):
                return Outlet(
                    write=lambda output, batch: function(output.native(), batch),
                    forget_after=rewound or (lambda batch: None),
                )
            case Discard():
                return Outlet(write=lambda output, batch: None)
            case TableSink():
                outlet = TableOutlet(self._table(name, sink), name=name)
                return Outlet(
                    write=lambda output, batch: outlet.write(output.table(), batch, self._observe),
                    forget_after=outlet.forget_after,
                    begin=lambda batch, went_back: outlet.begin(batch, went_back=went_back),
                )
            case LogOutput() if self._logs is not None:
                logs = self._logs
                # Nothing is forgotten: others may have read it, and when it comes again it is the same.
                return Outlet(write=lambda output, batch: logs.append(name, batch, output.table()))
            case _:
                raise self._unknown(name, sink)

    def _table(self, name: str, sink: TableSink) -> Table:
        protection = job_protection(self._graph)
        if protection is not None and sink.obstacle:
            raise GraphError(
                f"Sink {name!r} ({sink.describe()}) could not take anything back, and graph {self._graph.name!r} is "
                f"protected by {protection.describe()}, under which it may be sent back: {sink.obstacle}, or protect "
                f"the graph otherwise, with Exact() for one."
            )
        schema, goes_back = self.schemas[name], protection is not None
        match sink:
            case Delta():
                return DeltaTable(sink, schema, name=name, author=self._author, goes_back=goes_back)
            case Postgres():
                kept = 0 if protection is None else batches_kept(protection)
                return PostgresTable(
                    sink, schema, name=name, author=self._author, goes_back=goes_back, batches_kept=kept
                )
            case _:
                raise self._unknown(name, sink)

    def _unknown(self, name: str, sink: Sink) -> GraphError:
        return GraphError(
            f"Sink {name!r}: nothing is known of what a {type(sink).__name__} is to be given. Use Parquet, Delta, "
            f"Postgres, Memory, Console or Discard, or ForEachBatch with a function of your own."
        )
