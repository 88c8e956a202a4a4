"""Tuples added up by key, several columns at once: what ``groupBy(...).agg(...)`` keeps.

For each key there is a row. A column of it is what its values were folded into: their sum, the least, greatest, first
or last of them. Keys have any number of columns, of any types, and null is a value like others there.

**What is put out** (Spark's output modes). ``update``: each row that the batch touched, as it is then. ``complete``:
all rows, in every batch. ``append``: each row once, when it has ended.

**Rows that end** (see ``operators.ending``). With ``ends`` one of the key's columns says when a row does: once the
watermark has reached it. A row that has ended is put out, if that is the mode, and dropped. A batch in which rows were
put out for good is backed up: a recovery must not put them out again. With ``forget_after`` a row ends so long after
the newest of its tuples, whose times are in the column ``seen``; the next one for its key begins it anew.

**What theta bounds.** Each value of each row that is a number, by itself: after any failures a sum, a count, a least or
a greatest value is off by at most theta from what it would have been (``metric`` max, a row that is missing counts as
zero). Of texts, wide decimals and sketches it cannot be said how far they are off: under ``Approximate`` they are
refused. So is ``forget_after``: a recovered row may have been seen since its backup, although its values are the same;
it would be forgotten too soon, with all it has.
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
from spillway.operators.ending import END, END_COLUMN, ending, to_keep
from spillway.operators.held import Held, Int64s, Tables, held, known_column, out_type
from spillway.operators.operator import Operator, Out
from spillway.state.folding import Fold
from spillway.state.rows import RowColumn, RowTable, keep_rows

__all__ = ["Aggregate", "Folded", "Mode"]

Mode = Literal["update", "append", "complete"]


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
    registers: int = 0
    """Of a sketch, whose ``column`` is lists of places and ranks: see ``operators.sketched``."""

    @property
    def out(self) -> pa.DataType:
        """The type of what is put out."""
        return out_type(self.type, self.fold)


class Aggregate(Operator):
    """A row for each key; see above.

    A key comes at most once in all tuples of a batch, so whoever sends them adds up first (see ``graph.summed``); rows
    are put out as tuples come. ``wraps`` lets sums of integers wrap around, as SQL did before it was strict. ``about``
    says in words what the columns stand for: state is not taken over by an operator that is about something else.
    """

    ordered = False
    null_keys = True
    parameters: ClassVar[tuple[str, ...]] = ("values", "key_types", "ends", "forget_after", "wraps", "about")

    def __init__(
        self,
        name: str,
        *,
        key: Mapping[str, pa.DataType],
        values: Mapping[str, Folded],
        mode: Mode = "update",
        ends: str | None = None,
        forget_after: timedelta | None = None,
        seen: str | None = None,
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
        self.ends, self.forget_after = ends, forget_after
        self.wraps = wraps
        self.about = tuple(about)
        self._ending = ending(name, key=key, ends=ends, seen=seen, forget_after=forget_after, told_by=told_by)
        if mode == "append" and ends is None:
            raise GraphError(f"Operator {name!r}: append puts a row out when it ends, so it wants ends=.")
        self._held = [self._holding(place, *item) for place, item in enumerate(self.values.items())]
        self._check_theta()
        columns = {known_column(place): RowColumn(metric=None) for place in range(len(self._held))}
        columns |= {END: END_COLUMN} if self._ending is not None else {}
        for one in self._held:
            columns |= one.columns()
        self.groups = RowTable(columns)
        if any(is_text(one.kind) for one in self._held):
            self.texts = RowTable({})

    def _holding(self, place: int, name: str, of: Folded) -> Held:
        return held(
            f"value-{name}", of.type, of.fold, place=place, weight=of.weight, wraps=self.wraps, registers=of.registers
        )

    def _check_theta(self) -> None:
        if not isinstance(self.protect, Approximate):
            return
        for one, name in zip(self._held, self.values, strict=True):
            if not one.measured:
                raise GraphError(
                    f"Operator {self.name!r}: nothing tells how far {one.kind} values such as {name!r} are apart, "
                    f"so no theta can bound their error. Use Exact() or Coordinated(every=...), or leave {name!r} "
                    f"out."
                )
        if self.forget_after is not None:
            raise GraphError(
                f"Operator {self.name!r}: a row that was recovered could be forgotten too soon, with all it has, so "
                f"no theta bounds the error. Use forget_after= with Exact() or Coordinated(every=...)."
            )

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        wanted = dict(zip(self.key, self.key_types, strict=True))
        wanted |= {of.column: of.type for of in self.values.values()}
        wanted |= {name: pa.int64() for name in self._times()}
        self.want(inputs, "in", **wanted)
        keys = [pa.field(name, kind) for name, kind in zip(self.key, self.key_types, strict=True)]
        return {"out": pa.schema([SEQ_FIELD, *keys, *(pa.field(name, of.out) for name, of in self.values.items())])}

    def reads(self, port: str) -> frozenset[str]:
        also = {of.valid_by for of in self.values.values() if of.valid_by is not None}
        return self.placed_by | {of.column for of in self.values.values()} | also | self._times()

    def _times(self) -> frozenset[str]:
        """The columns about time that are not the key's."""
        if self._ending is None:
            return frozenset()
        return frozenset({self._ending.told_by, self._ending.column}) - {*self.key}

    # -- kernel -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._reached: int | None = None  # how far time has come

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if self._ending is not None:
            batch, self._reached = self._ending.heard(batch, self._reached)
        if not batch.num_rows:
            return
        keys = [batch[name] for name in self.key]
        before = len(self.groups)
        positions = self.groups.enter(*self._keys.encode(keys, rows=batch.num_rows))
        if self._ending is not None:
            self._ending.put_off(self.groups, positions, self._ending.ends(batch, self._reached), before=before)
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
        living: Int64s | None = None  # all
        if self._ending is not None and self._reached is not None:
            if self.mode == "append":
                yield from self._put_out_ended(self._reached)
            self._ending.forget(self.groups, self._reached, columns=self.groups.columns)
            if self.mode != "complete" or not self._ending.for_good:
                living = self._ending.living(self.groups, self._reached)
        if self.mode == "complete":
            yield from self._out_stored(np.arange(len(self.groups)) if living is None else living)
        self._give_back(living)

    def _put_out_ended(self, reached: int) -> Iterator[Out]:
        """Put out the rows that have ended by now and had not before."""
        ends, before = self.groups.read(END), self.groups.closed
        ending = np.flatnonzero((ends <= reached) & (ends > (_NEVER if before is None else before)))
        if ending.size:
            yield from self._out_stored(ending)
            self.groups.close_up_to(reached)

    def _give_back(self, living: Int64s | None) -> None:
        """Give memory back, if rows have gone, or texts that rows named before, and it is worth it."""
        count = len(self.groups) if living is None else living.size
        texts = self._tables.texts
        named = count * sum(is_text(one.kind) for one in self._held)
        if to_keep(count, len(self.groups)) or (texts is not None and to_keep(named, len(texts))):
            self._keep(np.arange(count) if living is None else living)

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
