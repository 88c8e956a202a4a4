"""Sinks of the local runtime."""

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet, Sink


class Outlet:
    """One sink at work."""

    def __init__(self, name: str, sink: Sink, schema: pa.Schema) -> None:
        self._name = name
        self._sink = sink
        self._schema = schema
        self._kept: dict[int, pa.Table] = {}

    def write(self, batches: list[pa.RecordBatch], batch: int) -> None:
        """Write one batch; a batch written before is replaced."""
        sink = self._sink
        table = pa.Table.from_batches(batches, self._schema)
        if isinstance(sink, Parquet):
            _write_parquet(Path(sink.path), table, batch)
        elif isinstance(sink, Memory):
            self._kept[batch] = table
            rows = sum(kept.num_rows for kept in self._kept.values())
            if rows > sink.rows_max:
                raise RunError(f"Sink {self._name!r}: {rows:,} rows are more than Memory(rows_max={sink.rows_max:,}).")
        elif isinstance(sink, Console):
            sys.stdout.write(f"batch {batch}, {table.num_rows} rows\n{table.slice(0, sink.rows).to_string()}\n")
        elif isinstance(sink, ForEachBatch):
            sink.function(table, batch)
        else:
            assert isinstance(sink, Discard)

    def result(self) -> pa.Table:
        """Everything a Memory sink was given, in the order of batches."""
        return pa.concat_tables([self._kept[batch] for batch in sorted(self._kept)] or [self._schema.empty_table()])


def _write_parquet(folder: Path, table: pa.Table, batch: int) -> None:
    final = folder / f"batch={batch}"
    temporary = folder / f".batch={batch}.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    pq.write_table(table, temporary / "part-0.parquet")
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
