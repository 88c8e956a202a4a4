"""Progress as columns: what a page is drawn from, however many batches there are.

A row of progress as an object costs microseconds, and a run of a hundred thousand batches has some hundred thousand of
them. Here they stay in Arrow, and sums and largest values are numpy's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.records.progress import OF_RECOVERY, PROGRESS_SCHEMA, ShardProgress
from spillway.records.summary import OperatorSummary

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Batches of one shard, one after the other, in which nothing about its place changed."""

    operator: str
    shard: int
    host: str
    epoch: int
    first: int
    last: int
    tuples: int
    state_bytes: int  # after the last

    @property
    def batch(self) -> int:
        """The last."""
        return self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One row per shard and batch, by batch: of a batch that was run again the last word (see ``last_words``)."""

    table: pa.Table
    repeated: int  # rows that were written again, since their batch was run again
    operators: tuple[str, ...]  # in the order in which they first reported
    operator: Indices  # (rows,) by its place among them

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def of(self, column: str) -> npt.NDArray[np.generic]:
        """One column of figures, or of yes and no."""
        values: npt.NDArray[np.generic] = self.table.column(column).to_numpy()
        return values

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """One column of figures, to reckon with."""
        return np.asarray(self.of(column), np.float64)

    def rows(self, where: npt.NDArray[np.bool_] | Indices | None = None) -> list[ShardProgress]:
        """Some of the rows as objects, or all."""
        indices = None if where is None else np.flatnonzero(where) if where.dtype == np.bool_ else where
        chosen = self.table if indices is None else self.table.take(pa.array(indices))
        return [ShardProgress(**row) for row in chosen.to_pylist()]

    def stretches(self) -> list[Stretch]:
        """Where each shard was, by operator, shard and batch; none of a run on one machine."""
        hosts, host = _coded(self.table.column("host"))
        (there,) = np.nonzero(host != (list(hosts).index("") if "" in hosts else -1))
        if not len(there):
            return []
        shard, batch, epoch = (self.of(name)[there].astype(np.int64) for name in ("shard", "batch", "epoch"))
        operator, host = self.operator[there], host[there]
        order = np.lexsort((batch, shard, operator))
        kept = [column[order] for column in (operator, shard, host, epoch)]
        change = np.append(True, np.diff(batch[order]) != 1)
        for column in kept:
            change[1:] |= np.diff(column) != 0
        begins = np.flatnonzero(change)
        ends = np.append(begins[1:], len(order)) - 1
        tuples = np.add.reduceat(self.of("tuples")[there][order], begins)
        state_bytes = self.of("state_bytes")[there][order][ends]
        return [
            Stretch(
                operator=self.operators[kept[0][begin]],
                shard=int(kept[1][begin]),
                host=hosts[kept[2][begin]],
                epoch=int(kept[3][begin]),
                first=int(batch[order[begin]]),
                last=int(batch[order[end]]),
                tuples=int(count),
                state_bytes=int(size),
            )
            for begin, end, count, size in zip(begins, ends, tuples, state_bytes, strict=True)
        ]

    def newest(self, operator: int) -> Indices:
        """The rows of the last batch that each shard of an operator has recorded, by shard."""
        (own,) = np.nonzero(self.operator == operator)
        shard = self.of("shard")[own]
        order = np.lexsort((self.of("batch")[own], shard))
        last = np.append(np.diff(shard[order]) != 0, True) if len(own) else np.zeros(0, bool)
        found: Indices = own[order[last]]
        return found

    def summaries(self) -> list[OperatorSummary]:
        """As ``summarise`` has them."""
        return [self._summary(place) for place in range(len(self.operators))]

    def _summary(self, place: int) -> OperatorSummary:
        own, newest = self.operator == place, self.newest(place)

        def total(column: str) -> int:
            return int(self.of(column)[own].sum())

        threshold, backed_up = self.numbers("threshold")[newest], self.of("backup")[newest].astype(bool)
        bounded = (threshold > 0) & ~backed_up
        shares = self.numbers("divergence")[newest][bounded] / threshold[bounded]
        return OperatorSummary(
            operator=self.operators[place],
            shards=len(newest),
            batch=int(self.of("batch")[own].max()),
            tuples=total("tuples"),
            backups=total("backup"),
            backup_chances=int(own.sum()),
            backup_bytes=total("backup_bytes"),
            item_bytes=total("item_bytes"),
            divergence_of_threshold=float(shares.max(initial=0.0)),
            failures=int(self.of("failures")[newest].sum()),
            recoveries=total("recovered"),
            lost_chunks=total("lost_chunks"),
            state_bytes=int(self.of("state_bytes")[newest].sum()),
            process_s=float(self.numbers("process_s")[own].sum()),
            backup_s=float(self.numbers("backup_s")[own].sum()),
            late=total("late"),
            ahead=total("ahead"),
        )


def progress_of(table: pa.Table) -> Progress:
    """Progress from rows as they were written; a column that an older version did not record is nothing."""
    columns = [_filled(table.column(field.name), field.type) for field in PROGRESS_SCHEMA]
    written = pa.table(columns, schema=PROGRESS_SCHEMA)
    operators, code = _coded(written.column("operator"))
    shard, batch = written.column("shard").to_numpy(), written.column("batch").to_numpy()
    order = np.lexsort((np.arange(len(code)), batch, shard, code))  # of one place in the order they were written
    change = (np.diff(code[order]) != 0) | (np.diff(shard[order]) != 0) | (np.diff(batch[order]) != 0)
    last = np.append(change, True) if len(order) else np.zeros(0, bool)
    keeps = order[last]
    kept = _with_recoveries(written, order, last) if not last.all() else written.take(pa.array(keeps))
    by_batch = np.argsort(kept.column("batch").to_numpy(), kind="stable")
    first_seen = list(dict.fromkeys(code[keeps][by_batch].tolist()))  # in the order in which they first reported
    place_of = np.empty(len(operators), np.int64)
    place_of[first_seen] = np.arange(len(first_seen))
    return Progress(
        table=kept.take(pa.array(by_batch)).combine_chunks(),
        repeated=_repeated(written, order, last),
        operators=tuple(operators[place] for place in first_seen),
        operator=place_of[code[keeps][by_batch]],
    )


def holes(progress: Progress) -> dict[str, list[tuple[int, int]]]:
    """For each operator the stretches of batches, first and last, of which one of its shards at least has no record.

    Looked for between the first and the last batch that any operator has recorded, since every shard takes part in
    every batch.
    """
    batch, shard, found = progress.of("batch"), progress.of("shard"), {}
    for place, name in enumerate(progress.operators):
        own = progress.operator == place
        batches, shards_there = np.unique(batch[own], return_counts=True)
        whole = batches[shards_there == 1 + int(shard[own].max())].tolist()
        missing = _stretches_without(whole, first=int(batch.min()), last=int(batch.max()))
        if missing:
            found[name] = missing
    return found


def _stretches_without(present: Sequence[int], *, first: int, last: int) -> list[tuple[int, int]]:
    """The stretches of first to last in which no number is present.

    >>> _stretches_without([2, 3, 7], first=1, last=9)
    [(1, 1), (4, 6), (8, 9)]
    """
    ends = [first - 1, *sorted(present), last + 1]
    return [(a + 1, b - 1) for a, b in pairwise(ends) if b - a > 1]


def _with_recoveries(written: pa.Table, order: Indices, last: npt.NDArray[np.bool_]) -> pa.Table:
    """The last word of each place, with the recovery of an attempt before it if it had none itself."""
    keeps = order[last]
    group = np.append(0, np.cumsum(last)[:-1])  # of each row in order
    recovered = written.column("recovered").to_numpy()
    source = keeps.copy()
    had = np.flatnonzero(recovered[order])
    source[group[had]] = order[had]  # the last of several stays, because rows come in the order they were written
    source[recovered[keeps]] = keeps[recovered[keeps]]
    kept = written.take(pa.array(keeps))
    for name in OF_RECOVERY:
        place = kept.schema.get_field_index(name)
        kept = kept.set_column(place, kept.schema.field(place), written.column(name).take(pa.array(source)))
    return kept


def _repeated(written: pa.Table, order: Indices, last: npt.NDArray[np.bool_]) -> int:
    """How many rows are of batches that were run again.

    A row that is there twice was being put together with others when its writer was killed.
    """
    group = np.append(0, np.cumsum(last)[:-1]) if len(order) else order
    several = np.bincount(group)[group] > 1 if len(order) else np.zeros(0, bool)
    rows = written.take(pa.array(order[several])).to_pylist()
    distinct = {tuple(row.values()) for row in rows}
    return len(distinct) - len(set(group[several].tolist()))


def _coded(column: pa.ChunkedArray) -> tuple[Sequence[str], Indices]:
    """The distinct texts of a column, and which of them each row has."""
    encoded = pc.dictionary_encode(column.combine_chunks())
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _filled(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    nothing = "" if pa.types.is_string(kind) else pa.types.is_boolean(kind) is False and 0
    return column if column.null_count == 0 else pc.fill_null(column, pa.scalar(nothing, kind))
