"""The sinks of a graph at work: what each kind is given, and what becomes of it, said once for both runtimes.

A runtime brings what leaves the graph as an ``Output`` for each sink. A kind of sink that is not known here is refused
before anything runs. A batch may come again, with the same number: what it gave before is replaced. A job may also be
sent back: then sinks forget what came after a batch, as far as they can.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from spillway.engine.job_logs import JobLogs
from spillway.engine.kept import Kept
from spillway.engine.parquet_folder import forget_batches
from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.sinks import Console, Discard, ForEachBatch, Frames, Memory, Parquet, Sink
from spillway.graph.stream_logs import LogOutput


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A sink at work: what it does with a batch, and what to forget those after one."""

    write: Write
    forget_after: Forget = lambda batch: None


class Outlets:
    """All sinks of a graph at work."""

    def __init__(self, graph: CheckedGraph, logs: JobLogs | None = None) -> None:
        self._graph = graph
        self._logs = logs
        self.schemas = {name: graph.schemas[graph.into(name)[0].stream] for name in graph.exits}
        """What each sink is given."""
        self._kept: dict[str, Kept] = {}
        self._outlets = {name: self._outlet(name, exit.sink) for name, exit in graph.exits.items()}

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
            case LogOutput() if self._logs is not None:
                logs = self._logs
                # Nothing is forgotten: others may have read it, and when it comes again it is the same.
                return Outlet(write=lambda output, batch: logs.append(name, batch, output.table()))
            case _:
                raise GraphError(
                    f"Sink {name!r}: nothing is known of what a {type(sink).__name__} is to be given. Use Parquet, "
                    f"Memory, Console or Discard, or ForEachBatch with a function of your own."
                )
