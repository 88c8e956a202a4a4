"""What leaves a graph on the local runtime: Arrow tables."""

import sys
from pathlib import Path

import pyarrow as pa

from spillway.engine.parquet_folder import ParquetFolder


class LocalOutput:
    """A table for one sink; satisfies ``engine.outlets.Output``."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def native(self) -> pa.Table:
        return self._table

    def table(self) -> pa.Table:
        return self._table

    def show(self, *, batch: int, rows: int) -> None:
        title = f"batch {batch}, {self._table.num_rows} rows: {', '.join(self._table.column_names)}"
        lines = ("  ".join(map(str, row.values())) for row in self._table.slice(0, rows).to_pylist())
        sys.stdout.write("\n".join([title, *lines]) + "\n")

    def write_parquet(self, path: str, *, batch: int) -> None:
        folder = ParquetFolder(Path(path))
        part = folder.open_part(batch, self._table.schema)
        for tuples in self._table.to_batches():
            part.write(tuples)
        folder.finish(batch, [part.close()], self._table.schema)
