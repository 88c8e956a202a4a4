"""Tables of other systems at work as sinks: what they have in common, whatever the system.

Theory of operation
-------------------
A batch of a sink is given to its table in one transaction of the table's own, which also notes the writer (this run and
the sink, see ``author``) and the number of the batch. So the table knows the newest batch it has of each writer:

    it has not got batch N     N was never given, or its transaction did not come to its end: it is given now
    it has got batch N         it was given, and whoever gave it died before Spark had noted N: N is passed over
    it has got more than N     the run goes back (below), or resumes from a copy of its checkpoint that is too old

Two drivers cannot both give N, though one was taken for dead and is only slow: both name the same writer, and the
system lets one of two transactions with the same writer through and not the other.

A job that is protected as a whole may be sent back to a batch. Then the table takes back what came after, and notes
that batch as its newest, in one transaction too; so that may be repeated, and be cut short anywhere. It is also done
when a run begins where it was sent back to: it may have been sent back by hand, and then the table was not there to be
told. A sink whose table could not take anything back is refused before such a job begins.

Empty batches are passed over: the newest that a table has may be older than the newest that was given.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from spillway.backup.keeper import Observer
from spillway.errors import InputError, RunError

NONE = -1

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SAID_MAX = 300


class Table(Protocol):
    """The table of one sink, as one writer sees it."""

    def open(self) -> int:
        """Have the table there, with columns that fit, or say why not; returns the newest batch it has."""

    def add(self, rows: pa.Table, batch: int, observe: Observer) -> None:
        """Have it hold the rows of a batch, unless it does."""

    def take_back(self, after: int) -> None:
        """Have it hold nothing of later batches."""


class TableOutlet:
    """A table at work for one sink: satisfies what ``outlets`` asks of one."""

    def __init__(self, table: Table, *, name: str) -> None:
        self._table = table
        self._name = name

    def begin(self, batch: int, *, went_back: bool) -> None:
        """A run is about to begin with a batch, perhaps where it was sent back to."""
        newest = self._table.open()
        if went_back:
            self._table.take_back(batch - 1)
        elif newest > batch:
            raise RunError(
                f"Sink {self._name!r}: its table has batch {newest} of this run, which begins with batch {batch}. Was "
                f"an older copy of its checkpoint put back? Resume from where it stopped; to begin anew, name new "
                f"folders (checkpoint=, backups=)."
            )

    def write(self, rows: pa.Table, batch: int, observe: Observer) -> None:
        """Give a batch to the table."""
        self._table.add(rows, batch, observe)

    def forget_after(self, batch: int) -> None:
        """Have what came after a batch taken back."""
        self._table.take_back(batch)


# -- rows as other systems have them -----------------------------------------------------------------------------------


def plain(schema: pa.Schema) -> pa.Schema:
    """The same columns, of types that other systems have: no dictionaries, nothing unsigned, microseconds.

    >>> plain(pa.schema([("n", pa.uint32()), ("at", pa.timestamp("ns"))])).types
    [DataType(int64), TimestampType(timestamp[us])]
    """
    return pa.schema([pa.field(column.name, _plain(column.type), column.nullable) for column in schema])


def fitted(rows: pa.Table, schema: pa.Schema, *, who: str) -> pa.Table:
    """Rows as a table has them; a value that would not be the same there is refused."""
    columns = []
    for column in schema:
        try:
            found = rows[column.name].cast(column.type)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{who}: column {column.name!r} has a value that {column.type} cannot hold: {one_line(str(error))}"
            ) from error
        if found.null_count and not column.nullable:
            raise InputError(f"{who}: column {column.name!r} has a null, and the table allows none there.")
        columns.append(found)
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32()}.get(kind.bit_width, pa.int64())
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@contextmanager
def one_sentence(
    doing: str, *, of: tuple[type[Exception], ...], to_do: str, secrets: frozenset[str] = frozenset()
) -> Iterator[None]:
    """Say what a library raises, ``of`` these classes or of none in particular, in words without the ``secrets``.

    The exception it came from is left out: it might say more.

    >>> with one_sentence("Sink 'out' cannot be opened", of=(OSError,), to_do="Mend it.", secrets=frozenset(["pw"])):
    ...     raise OSError("no pw here")
    Traceback (most recent call last):
    spillway.errors.RunError: Sink 'out' cannot be opened: no … here. Mend it.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, of) and type(error) is not Exception:
            raise
        said = str(error)
        for secret in sorted(secrets, key=len, reverse=True):
            said = said.replace(secret, "…")
        raise RunError(f"{doing}: {one_line(said).rstrip('.')}. {to_do}") from None


def one_line(said: str) -> str:
    """What matters of a message of many lines: PostgreSQL's own word, or all up to where frames of a stack begin.

    >>> one_line("INVALID: [libpq] Failed: ERROR:  no such column" + chr(10) + "LINE 1: select")
    'no such column'
    >>> one_line("IO: [libpq] Failed to connect: refused" + chr(10) + chr(9) + "Is the server running?")
    'refused'
    """
    own = (r"(?:ERROR|FATAL):\s+(.*)", r"\[libpq\] (?:Failed to connect: )?(.*)")
    found = next(filter(None, (re.search(pattern, said) for pattern in own)), None)
    text = found[1] if found else re.split(r"\n\s*\d+: ", said)[0]
    text = re.sub(r"\s*↳\s*", ": ", _COLOURS.sub("", text))
    return " ".join(text.split())[:_SAID_MAX]
