"""Sinks of the local runtime."""

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.engine.kept import Kept
from spillway.graph.sinks import Console, Discard, ForEachBatch, Memory, Parquet, Sink


class Outlet:
    """One sink at work."""

    def __init__(self, name: str, sink: Sink, schema: pa.Schema) -> None:
        self._sink = sink
        self._schema = schema
        self.kept = Kept(name, schema, rows_max=sink.rows_max) if isinstance(sink, Memory) else None

    def write(self, batches: list[pa.RecordBatch], batch: int) -> None:
        """Write one batch; a batch written before is replaced."""
        sink = self._sink
        table = pa.Table.from_batches(batches, self._schema)
        if isinstance(sink, Parquet):
            _write_parquet(Path(sink.path), table, batch)
        elif self.kept is not None:
            self.kept.put(batch, table)
        elif isinstance(sink, Console):
            _print(table.slice(0, sink.rows), f"batch {batch}, {table.num_rows} rows: {', '.join(table.column_names)}")
        elif isinstance(sink, ForEachBatch):
            sink.function(table, batch)
        else:
            assert isinstance(sink, Discard)


def _print(table: pa.Table, title: str) -> None:
    lines = ("  ".join(map(str, row.values())) for row in table.to_pylist())
    sys.stdout.write("\n".join([title, *lines]) + "\n")


def _write_parquet(folder: Path, table: pa.Table, batch: int) -> None:
    final = folder / f"batch={batch}"
    temporary = folder / f".batch={batch}.part"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    pq.write_table(table, temporary / "part-0.parquet")
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
