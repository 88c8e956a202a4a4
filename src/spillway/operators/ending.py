"""Rows that end: when they do, and how their memory is given back.

A row has an *end*, in microseconds, beside its columns. Time is told with the tuples, in the column ``told_by`` of
tuples that have nothing else to say; once it has reached a row's end, the row is gone with the batch. There are two
kinds of ends.

* *For good*: the end is a column of the key, as that of a window is. No tuple comes for such a row any more, so it just
  lies there until memory is given back.
* *Forgotten*: a row ends so long after the time of its newest tuple, or of the one that made it. A tuple may come for
  its key again, which begins anew: so its columns and its end are made 0, as if it had never been.

Memory is given back when as many rows have gone as there are left, and some thousands: the others are written anew,
which costs as much as they take. So there is never more than twice the memory of the rows that live, and what a batch
brings.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.state.rows import RowColumn, RowTable

Int64s = npt.NDArray[np.int64]

END = "ends"
"""The column of a row's end."""

END_COLUMN = RowColumn(metric=None)
ROWS_KEPT_MIN = 4096
"""So many rows that have gone are not worth writing the others anew."""

_LATEST = 2**63 - 1
_NOBODY = 0
"""The end of a row that is forgotten. One that really ends then ends a microsecond later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When the rows of an operator end."""

    column: str  # of tuples: a time in microseconds
    told_by: str
    after_us: int | None = None  # how long after that time; None if it is the end itself, and part of the key

    @property
    def for_good(self) -> bool:
        return self.after_us is None

    def heard(self, batch: pa.RecordBatch, reached: int | None) -> tuple[pa.RecordBatch, int | None]:
        """The tuples without those that tell how far time has come, and how far that is."""
        told = batch[self.told_by]
        if told.null_count == batch.num_rows:
            return batch, reached
        now = pc.max(told).as_py()
        return batch.filter(pc.is_null(told)), now if reached is None else max(now, reached)

    def ends(self, batch: pa.RecordBatch, reached: int | None) -> Int64s:
        """When the rows of these tuples end. One without a time never does, or counts as seen now."""
        times = batch[self.column].cast(pa.int64())
        if self.after_us is None:
            return np.asarray(pc.fill_null(times, _LATEST))
        found: Int64s = np.asarray(pc.fill_null(times, reached or 0))
        found = np.minimum(found, _LATEST - self.after_us) + self.after_us
        return np.where(found == _NOBODY, _NOBODY + 1, found)

    def put_off(self, rows: RowTable, positions: Int64s, ends: Int64s, *, before: int) -> None:
        """Note the ends of rows that tuples came for; those from ``before`` on are new. None becomes earlier."""
        had = rows.read(END)[positions]
        later = positions >= before if self.for_good else (had == _NOBODY) | (ends > had)
        if later.any():
            rows.set(END, positions[later], ends[later])

    def living(self, rows: RowTable, reached: int) -> Int64s:
        """The positions of rows that still are there."""
        ends = rows.read(END)
        return np.flatnonzero(ends > reached if self.for_good else ends != _NOBODY)

    def there(self, rows: RowTable, positions: Int64s) -> npt.NDArray[np.bool_]:
        """Whether the rows at these positions were not forgotten."""
        found: npt.NDArray[np.bool_] = rows.read(END)[positions] != _NOBODY
        return found

    def forget(self, rows: RowTable, reached: int, *, columns: Iterable[str]) -> None:
        """Have rows that have ended be none, with zeros in these columns."""
        if self.for_good:
            return
        ends = rows.read(END)
        gone = np.flatnonzero((ends != _NOBODY) & (ends <= reached))
        if gone.size:
            for name in {*columns, END}:
                rows.set(name, gone, 0)


def ending(
    name: str,
    *,
    key: Collection[str],
    ends: str | None,
    seen: str | None,
    forget_after: timedelta | None,
    told_by: str | None,
) -> Ending | None:
    """When the rows of an operator end, as it was declared; None if they stay. Refused if something is amiss."""
    if ends is None and forget_after is None:
        if told_by is not None or seen is not None:
            raise GraphError(f"Operator {name!r}: told_by= and seen= are for rows that end: ends= or forget_after=.")
        return None
    if told_by is None or (ends is not None and (forget_after is not None or ends not in key)):
        raise GraphError(
            f"Operator {name!r}: rows that end want either ends=, one of the key's columns, or forget_after= and "
            f"seen=; and told_by=, a column that says how far time has come. Got ends={ends!r}, "
            f"forget_after={forget_after!r}, told_by={told_by!r}."
        )
    if ends is not None:
        return Ending(column=ends, told_by=told_by)
    if not isinstance(forget_after, timedelta) or forget_after < timedelta(0):
        raise GraphError(f"Operator {name!r}: forget_after must be a timedelta of 0 or more; got {forget_after!r}.")
    if seen is None:
        raise GraphError(f"Operator {name!r}: forget_after= wants seen=, the column with the time of each tuple.")
    return Ending(column=seen, told_by=told_by, after_us=forget_after // timedelta(microseconds=1))


def check_forget_after(who: str, given: object) -> None:
    """Refuse what forgets at once: only a watermark without delay means that, and says so itself."""
    if not isinstance(given, timedelta) or given <= timedelta(0):
        raise GraphError(f"{who}: forget_after must be a timedelta above 0; got {given!r}.")


def to_keep(living: int, rows: int) -> bool:
    """Whether so many have gone that the others are to be written anew."""
    return rows - living > max(living, ROWS_KEPT_MIN)
