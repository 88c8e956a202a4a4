"""Tuples added up by key, several columns at once: what ``groupBy(...).agg(...)`` keeps.

For each key there is a row. A column of it is what its values were folded into: their sum, the least, greatest, first
or last of them. Keys have any number of columns, of any types, and null is a value like others there.

**What is put out** (Spark's output modes). ``update``: each row that the batch touched, as it is then. ``complete``:
all rows, in every batch. ``append``: each row once, when it has ended.

**Rows that end.** With ``ends`` one of the key's columns says when a row does: once the watermark has reached it. How
far that is comes with the tuples, in the column ``told_by`` of tuples that have nothing else to say. A row that has
ended is put out, if that is the mode, and dropped. Memory is given back when as many rows have ended as there are
left: the others are written anew, which costs as much as they take. So there is never more than twice the memory of
the rows that live, and what a batch brings. A batch in which rows were put out for good is backed up: a recovery must
not put them out again.

**What theta bounds.** Each value of each row that is a number, by itself: after any failures a sum, a count, a least or
a greatest value is off by at most theta from what it would have been (``metric`` max, a row that is missing counts as
zero). Of texts and wide decimals it cannot be said how far they are off: under ``Approximate`` they are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Approximate, Protection
from spillway.operators.composite import CompositeKeys, is_text, width_of
from spillway.operators.held import Held, Int64s, Tables, held, known_column
from spillway.operators.operator import Operator, Out
from spillway.state.folding import Fold
from spillway.state.rows import RowColumn, RowTable, keep_rows

__all__ = ["Aggregate", "Folded", "Mode"]

Mode = Literal["update", "append", "complete"]

_ENDS = "ends"
_ROWS_KEPT_MIN = 4096
"""So many rows that have ended are not worth writing the others anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A column of the rows: values of ``column``, folded; nulls are passed over.

    ``valid_by`` names another column: then null is a value, wherever that one is not null. ``weight`` is what a
    difference of one counts in the divergence: with 1/10 the column may be off by ten times the theta of its operator.
    """

    fold: Fold
    column: str
    type: pa.DataType
    valid_by: str | None = None
    weight: float = 1.0


class Aggregate(Operator):
    """A row for each key; see above.

    A key comes at most once in all tuples of a batch, so whoever sends them adds up first (see ``graph.summed``); rows
    are put out as tuples come. ``wraps`` lets sums of integers wrap around, as SQL did before it was strict. ``about``
    says in words what the columns stand for: state is not taken over by an operator that is about something else.
    """

    ordered = False
    null_keys = True
    parameters: ClassVar[tuple[str, ...]] = ("values", "key_types", "ends", "wraps", "about")

    def __init__(
        self,
        name: str,
        *,
        key: Mapping[str, pa.DataType],
        values: Mapping[str, Folded],
        mode: Mode = "update",
        ends: str | None = None,
        told_by: str | None = None,
        wraps: bool = False,
        about: Sequence[str] = (),
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=tuple(key), protect=protect, shards=shards, delay_max=delay_max)
        for kind in key.values():
            width_of(kind)  # refuses what is no key
        self.key_types = tuple(key.values())
        self.values = dict(values)
        self.mode: Mode = mode
        self.ends, self.told_by = ends, told_by
        self.wraps = wraps
        self.about = tuple(about)
        if (ends is None) != (told_by is None) or (ends is not None and ends not in key):
            raise GraphError(
                f"Operator {name!r}: rows that end want ends=, one of the key's columns, and told_by=, a column that "
                f"says how far time has come; got {ends!r} and {told_by!r}."
            )
        if mode == "append" and ends is None:
            raise GraphError(f"Operator {name!r}: append puts a row out when it ends, so it wants ends=.")
        self._held = [self._holding(place, *item) for place, item in enumerate(self.values.items())]
        self._check_theta()
        columns = {known_column(place): RowColumn(metric=None) for place in range(len(self._held))}
        columns |= {_ENDS: RowColumn(metric=None)} if ends is not None else {}
        for one in self._held:
            columns |= one.columns()
        self.groups = RowTable(columns)
        if any(is_text(one.kind) for one in self._held):
            self.texts = RowTable({})

    def _holding(self, place: int, name: str, of: Folded) -> Held:
        return held(f"value-{name}", of.type, of.fold, place=place, weight=of.weight, wraps=self.wraps)

    def _check_theta(self) -> None:
        if isinstance(self.protect, Approximate):
            for one, name in zip(self._held, self.values, strict=True):
                if not one.measured:
                    raise GraphError(
                        f"Operator {self.name!r}: nothing tells how far {one.kind} values such as {name!r} are apart, "
                        f"so no theta can bound their error. Use Exact() or Coordinated(every=...), or leave {name!r} "
                        f"out."
                    )

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        wanted = dict(zip(self.key, self.key_types, strict=True))
        wanted |= {of.column: of.type for of in self.values.values()}
        self.want(inputs, "in", **wanted)
        keys = [pa.field(name, kind) for name, kind in zip(self.key, self.key_types, strict=True)]
        return {"out": pa.schema([SEQ_FIELD, *keys, *(pa.field(name, of.type) for name, of in self.values.items())])}

    def reads(self, port: str) -> frozenset[str]:
        also = [name for name in (self.told_by, *(of.valid_by for of in self.values.values())) if name is not None]
        return self.placed_by | {of.column for of in self.values.values()} | frozenset(also)

    # -- kernel -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._reached: int | None = None  # the watermark

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if self.told_by is not None:
            batch = self._hear(batch)
        if not batch.num_rows:
            return
        keys = [batch[name] for name in self.key]
        before = len(self.groups)
        positions = self.groups.enter(*self._keys.encode(keys, rows=batch.num_rows))
        if self.ends is not None and len(self.groups) > before:
            fresh = positions >= before
            self.groups.set(_ENDS, positions[fresh], _times(batch[self.ends])[fresh])
        words = {name: self.groups.read(name)[positions] for name in self._words}
        before_words = {name: found.copy() for name, found in words.items()}
        found: list[pa.Array] = []
        for one, of in zip(self._held, self.values.values(), strict=True):
            values = batch[of.column]
            by = values if of.valid_by is None else batch[of.valid_by]
            valid = np.asarray(pc.is_valid(by)) if by.null_count else np.ones(batch.num_rows, np.bool_)
            known = (words[one.word] & one.bit) != 0
            found.append(one.put(self._tables, positions, values, valid, known))
            words[one.word] |= np.where(valid, one.bit, 0)
        for name, now in words.items():
            (changed,) = np.nonzero(now != before_words[name])
            if changed.size:
                self.groups.set(name, positions[changed], now[changed])
        if self.mode == "update":
            yield self._out(keys, found)

    def finish(self) -> Iterator[Out]:
        if self.mode == "complete":
            yield from self._out_stored(np.arange(len(self.groups)))
        if self._reached is not None and self.mode != "complete":
            yield from self._end(self._reached)

    def _end(self, reached: int) -> Iterator[Out]:
        """Drop the rows that have ended by now, and put out those that had not before, if that is the mode."""
        ends = self.groups.read(_ENDS)
        if self.mode == "append":
            before = self.groups.closed
            ending = np.flatnonzero((ends <= reached) & (ends > (_NEVER if before is None else before)))
            if ending.size:
                yield from self._out_stored(ending)
                self.groups.close_up_to(reached)
        living = ends > reached
        count = int(np.count_nonzero(living))
        if living.size - count > max(count, _ROWS_KEPT_MIN):
            self._keep(np.flatnonzero(living))

    def _keep(self, living: Int64s) -> None:
        texts = self._tables.texts
        if texts is None:
            keep_rows((self.groups, living))
            return
        named = [one.name for one in self._held if is_text(one.kind)]
        entries = {name: self.groups.read(name)[living] for name in named}
        wanted = np.unique(np.concatenate([*entries.values(), np.zeros(0, np.int64)]))
        keep_rows((self.groups, living), (texts, wanted))
        everything = np.arange(living.size)
        for name, old in entries.items():
            self.groups.set(name, everything, np.searchsorted(wanted, old))

    def _hear(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take note of the watermark; the tuples without those that tell of it."""
        told = batch[self.told_by]
        if told.null_count == batch.num_rows:
            return batch
        reached = pc.max(told).as_py()
        self._reached = reached if self._reached is None else max(reached, self._reached)
        return batch.filter(pc.is_null(told))

    def _out_stored(self, positions: Int64s) -> Iterator[Out]:
        for first in range(0, positions.size, _ROWS_OUT):
            some = positions[first : first + _ROWS_OUT]
            words = {name: self.groups.read(name)[some] for name in self._words}
            values = [one.take(self._tables, some, (words[one.word] & one.bit) != 0) for one in self._held]
            yield self._out(self._keys.decode(*self.groups.keys(some)), values)

    def _out(self, keys: Sequence[pa.Array], values: Sequence[pa.Array]) -> Out:
        columns: dict[str, Any] = dict(zip([*self.key, *self.values], [*keys, *values], strict=True))
        return self.out(**columns)

    @property
    def _tables(self) -> Tables:
        return Tables(self.groups, getattr(self, "texts", None))

    @property
    def _words(self) -> list[str]:
        """The columns that say what is known."""
        return [*dict.fromkeys(one.word for one in self._held)]

    @property
    def _keys(self) -> CompositeKeys:
        return CompositeKeys(self.key_types)


_NEVER = -(2**63)
_ROWS_OUT = 200_000


def _times(column: pa.Array) -> Int64s:
    """When rows end, in microseconds; one that never says so never does."""
    found: Int64s = np.asarray(pc.fill_null(column.cast(pa.int64()), 2**63 - 1))
    return found
