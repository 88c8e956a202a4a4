"""Output kept in memory: what a Memory sink has been given."""

import pyarrow as pa

from spillway.errors import RunError


class Kept:
    """Tables by batch; a batch that comes again replaces what it gave before."""

    def __init__(self, sink: str, schema: pa.Schema, *, rows_max: int) -> None:
        self._sink = sink
        self._schema = schema
        self._rows_max = rows_max
        self._tables: dict[int, pa.Table] = {}
        self._rows = 0

    def put(self, batch: int, table: pa.Table) -> None:
        before = self._tables.get(batch)
        self._rows += table.num_rows - (before.num_rows if before is not None else 0)
        if self._rows > self._rows_max:
            raise RunError(
                f"Sink {self._sink!r}: {self._rows:,} rows are more than Memory(rows_max={self._rows_max:,}) allows. "
                f"Raise the limit, or use Parquet."
            )
        self._tables[batch] = table

    def forget_after(self, batch: int) -> None:
        """Drop what later batches gave."""
        self._tables = {of: table for of, table in self._tables.items() if of <= batch}
        self._rows = sum(table.num_rows for table in self._tables.values())

    def result(self) -> pa.Table:
        """All tables, in the order of batches."""
        tables = [self._tables[batch] for batch in sorted(self._tables)]
        return pa.concat_tables(tables) if tables else self._schema.empty_table()

    def batches(self) -> list[tuple[int, pa.Table]]:
        return sorted(self._tables.items(), key=lambda item: item[0])
