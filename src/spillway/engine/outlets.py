"""The sinks of a graph at work: what each kind is given, and what becomes of it, said once for both runtimes.

A runtime brings what leaves the graph as an ``Output`` for each sink. A kind of sink that is not known here is refused
before anything runs. A batch may come again, with the same number: what it gave before is replaced.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from spillway.engine.kept import Kept
from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet, Sink


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


class Outlets:
    """All sinks of a graph at work."""

    def __init__(self, graph: CheckedGraph) -> None:
        self._graph = graph
        self.schemas = {name: graph.schemas[graph.into(name)[0].stream] for name in graph.exits}
        """What each sink is given."""
        self._kept: dict[str, Kept] = {}
        self._writers = {name: self._writer(name, exit.sink) for name, exit in graph.exits.items()}

    def write(self, outputs: Mapping[str, Output], *, batch: int) -> None:
        """Give every sink its part of a batch."""
        for name, output in outputs.items():
            self._writers[name](output, batch)

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        if sink not in self._kept:
            raise GraphError(f"Graph {self._graph.name!r} has no Memory sink {sink!r}.")
        return self._kept[sink].result()

    def _writer(self, name: str, sink: Sink) -> Write:
        match sink:
            case Parquet(path=path):
                return lambda output, batch: output.write_parquet(path, batch=batch)
            case Memory(rows_max=rows_max):
                kept = self._kept[name] = Kept(name, self.schemas[name], rows_max=rows_max)
                return lambda output, batch: kept.put(batch, output.table())
            case Console(rows=rows):
                return lambda output, batch: output.show(batch=batch, rows=rows)
            case ForEachBatch(function=function):
                return lambda output, batch: function(output.native(), batch)
            case Discard():
                return lambda output, batch: None
            case _:
                raise GraphError(
                    f"Sink {name!r}: nothing is known of what a {type(sink).__name__} is to be given. Use Parquet, "
                    f"Memory, Console or Discard, or ForEachBatch with a function of your own."
                )
