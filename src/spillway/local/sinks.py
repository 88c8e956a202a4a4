"""What leaves a graph on the local runtime: Arrow tables."""

import shutil
import sys
from pathlib import Path

import pyarrow as pa


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

    def write_parquet(self, folder: str) -> None:
        import pyarrow.parquet as pq  # not loaded by those who write none

        final = Path(folder)
        temporary = final.with_name(f".{final.name}.part")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        pq.write_table(self._table, temporary / "part-0.parquet")
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)

    def drop(self) -> None:
        """It is computed already."""
