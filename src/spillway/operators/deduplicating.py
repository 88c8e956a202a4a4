"""Tuples without those whose key came before: what ``dropDuplicates`` keeps.

Of each key the first tuple is put out, with all its columns, and the key is kept; further ones are dropped. In which
order tuples of one batch come is up to whoever sends them.

**Keys that end** (see ``operators.ending``). With ``ends``, one of the key's columns, a key goes once the watermark has
reached that time: no tuple comes for it any more. With ``forget_after`` it goes so long after the time, in the column
``seen``, of the tuple that was put out, and the next tuple is put out again. Tuples that come late are left to
others.

**What theta bounds.** How many tuples are put out that should not have been, over all failures together: every key that
is entered counts one in the divergence (``metric`` l1), and each one that a recovery lacks lets one more tuple through.
A key that was forgotten and is entered again counts once more, because a backup from before takes it for forgotten.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.composite import CompositeKeys, width_of
from spillway.operators.ending import END, END_COLUMN, ending, to_keep
from spillway.operators.operator import Operator, Out
from spillway.state.rows import RowColumn, RowTable, keep_rows

__all__ = ["DropDuplicates"]

Int64s = npt.NDArray[np.int64]

_ENTERED = "entered"


class DropDuplicates(Operator):
    """The first tuple of each key; see above. ``columns`` are all that is put out, those of the ``key`` among them.

    ``about`` says in words what the key is: state is not taken over by an operator that is about something else.
    """

    ordered = False
    null_keys = True
    parameters: ClassVar[tuple[str, ...]] = ("key_types", "ends", "forget_after", "about")

    def __init__(
        self,
        name: str,
        *,
        key: Collection[str],
        columns: Mapping[str, pa.DataType],
        ends: str | None = None,
        forget_after: timedelta | None = None,
        seen: str | None = None,
        told_by: str | None = None,
        about: Sequence[str] = (),
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=tuple(key), protect=protect, shards=shards, delay_max=delay_max)
        for column in self.key:
            if column not in columns:
                raise GraphError(f"Operator {name!r}: the key's column {column!r} is not among columns=.")
            width_of(columns[column])  # refuses what is no key
        self.columns = dict(columns)
        self.key_types = tuple(columns[column] for column in self.key)
        self.ends, self.forget_after = ends, forget_after
        self.about = tuple(about)
        self._ending = ending(name, key=self.key, ends=ends, seen=seen, forget_after=forget_after, told_by=told_by)
        self._keys = CompositeKeys(self.key_types)
        entered = {_ENTERED: RowColumn(metric="l1")}
        self.seen = RowTable(entered if self._ending is None else {**entered, END: END_COLUMN}, metric="l1")

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **self.columns, **dict.fromkeys(self._times(), pa.int64()))
        return {"out": pa.schema([SEQ_FIELD, *(pa.field(name, kind) for name, kind in self.columns.items())])}

    def reads(self, port: str) -> frozenset[str]:
        return self.placed_by | self.columns.keys() | self._times()

    def _times(self) -> frozenset[str]:
        """The columns about time that are not put out."""
        if self._ending is None:
            return frozenset()
        return frozenset({self._ending.told_by, self._ending.column}) - {*self.columns}

    # -- kernel -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._reached: int | None = None  # how far time has come

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if self._ending is not None:
            batch, self._reached = self._ending.heard(batch, self._reached)
        if not batch.num_rows:
            return
        before = len(self.seen)
        keys = self._keys.encode([batch[name] for name in self.key], rows=batch.num_rows)
        positions = self.seen.enter(*keys)
        first = self._first(positions, before)
        if not first.size:
            return
        entering = positions[first]
        self.seen.change(_ENTERED, entering)[entering] += 1
        if self._ending is not None:
            ends = self._ending.ends(batch, self._reached)[first]
            self._ending.put_off(self.seen, entering, ends, before=before)
        if first.size < batch.num_rows:
            batch = batch.take(pa.array(first))
        yield self.out(**{name: batch[name] for name in self.columns})

    def finish(self) -> Iterator[Out]:
        if self._ending is not None and self._reached is not None:
            # How often a key was entered stays: a backup from before knows another end of it.
            self._ending.forget(self.seen, self._reached, columns=())
            living = self._ending.living(self.seen, self._reached)
            if to_keep(living.size, len(self.seen)):
                keep_rows((self.seen, living))
        yield from ()

    def _first(self, positions: Int64s, before: int) -> Int64s:
        """The first tuple of each key that was not there, in their order."""
        # New keys have positions in the order in which they came: the first of one is above all positions before it.
        highest = np.maximum.accumulate(np.concatenate([[before - 1], positions[:-1]]))
        first = np.flatnonzero(positions > highest)
        if self._ending is None or self._ending.for_good:
            return first
        again = np.flatnonzero((positions < before) & ~self._ending.there(self.seen, positions))
        _, places = np.unique(positions[again], return_index=True)
        return np.sort(np.concatenate([first, again[places]]))
