"""What sinks wrote, tuple by tuple, beside what they are given if nothing goes wrong.

Tuples are compared as rows, batch by batch: jobs read each other in step, so what one batch of input becomes is one
batch of every sink. A row that should be there and is not is *lost*; one that is there and should not be is a
*duplicate* if it should be there less often, and *tainted* otherwise. A tainted row is often a wrong one in place of a
right one: then that one, found by its `seq`, is not counted as lost as well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.graph.feeds import SEQ
from spillway.graph.graph import Graph
from spillway.local.run import LocalRun
from spillway.model.validation.ways import writing

Row = tuple[Any, ...]
Batches = Mapping[int, pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One batch, all sinks together."""

    wanted: int
    lost: int
    tainted: int
    duplicates: int

    @property
    def wrong(self) -> int:
        return self.lost + self.tainted + self.duplicates

    def __add__(self, other: "Judged") -> "Judged":
        return Judged(
            wanted=self.wanted + other.wanted,
            lost=self.lost + other.lost,
            tainted=self.tainted + other.tainted,
            duplicates=self.duplicates + other.duplicates,
        )

    def is_right(self, tolerance: float) -> bool:
        """Whether all but a tolerated share is as it should be."""
        return self.wrong <= tolerance * self.wanted


NOTHING = Judged(wanted=0, lost=0, tainted=0, duplicates=0)


def judge(wanted: Mapping[str, Batches], written: Mapping[str, Batches], batches: Iterable[int]) -> dict[int, Judged]:
    """What is to be said of each batch."""
    found = {}
    for batch in batches:
        sinks = [_judge(wanted[sink].get(batch), written[sink].get(batch)) for sink in wanted]
        found[batch] = sum(sinks, NOTHING)
    return found


def _judge(wanted: pa.Table | None, written: pa.Table | None) -> Judged:
    right, there = _rows(wanted), _rows(written)
    missing, extra = right - there, there - right
    doubled = {row: count for row, count in extra.items() if row in right}
    at = None if written is None or SEQ not in written.schema.names else written.schema.names.index(SEQ)
    wrong = Counter({row: count for row, count in extra.items() if row not in right})
    in_place = 0 if at is None else (_by(missing, at) & _by(wrong, at)).total()
    return Judged(
        wanted=right.total(),
        lost=missing.total() - in_place,
        tainted=wrong.total(),
        duplicates=sum(doubled.values()),
    )


def _rows(table: pa.Table | None) -> Counter[Row]:
    if table is None:
        return Counter()
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _by(rows: Counter[Row], at: int) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for row, count in rows.items():
        found[row[at]] += count
    return found


def undisturbed(graph: Graph, batches: int, *, out: Path, backups: str) -> dict[str, Batches]:
    """What the sinks of a graph are given by so many batches in one process; it is written below ``out``."""
    with LocalRun(writing(graph, out=out), backups=backups) as run:
        while run.batch < batches and run.step():
            pass
    return read(out, list(graph.checked().exits))


def read(out: Path, sinks: Sequence[str]) -> dict[str, Batches]:
    """What is in the folders of the sinks below ``out``, batch by batch."""
    return {
        sink: {
            int(folder.name.removeprefix("batch=")): pa.concat_tables(
                pq.ParquetFile(part).read() for part in sorted(folder.iterdir())
            )
            for folder in (out / sink).glob("batch=*")
        }
        for sink in sinks
    }
