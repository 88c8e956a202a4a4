"""Real files under the names and types an application wants."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.graph.feeds import SEQ, Trace

_EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A trace whose columns have other names or types in the files; none may be null.

    Types are cast where that loses nothing. Read piece by piece, as the trace is.
    """

    trace: Trace
    schema: pa.Schema
    names: tuple[tuple[str, str], ...]  # (name wanted, name in the files)

    @property
    def pieces(self) -> int:
        return self.trace.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.trace.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.trace.read(piece)
        columns = [batch[SEQ], *(self._column(batch, wanted, stored) for wanted, stored in self.names)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.RecordBatch, wanted: str, stored: str) -> pa.Array:
        values = batch[stored]
        if values.null_count:
            seqs = batch[SEQ].filter(pc.is_null(values))[:_EXAMPLES_MAX].to_pylist()
            raise InputError(
                f"{self.trace.paths}: column {stored!r} must not be null; it is in {values.null_count} rows "
                f"(seq {', '.join(map(str, seqs))}). Drop or fill them first."
            )
        try:
            return values.cast(self.schema.field(wanted).type)
        except pa.ArrowInvalid as error:
            raise InputError(f"{self.trace.paths}: column {stored!r} does not fit ({error}).") from error
