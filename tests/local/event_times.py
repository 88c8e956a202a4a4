"""Event time slowly and from its definition alone: which window gets which tuple, and what is put aside."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import spillway as sw

SCHEMA = pa.schema(
    [pa.field("seq", pa.int64(), nullable=False), pa.field("at", pa.int64()), pa.field("k", pa.string())]
)
Row = tuple[int, str]
"""A tuple: its time and its key."""


def feed(batches: Sequence[Sequence[Row]]) -> sw.Generator:
    firsts = [sum(map(len, batches[:i])) for i in range(len(batches))]

    def make(piece: int) -> pa.RecordBatch:
        rows = [{"seq": firsts[piece] + i, "at": at, "k": key} for i, (at, key) in enumerate(batches[piece])]
        return pa.RecordBatch.from_pylist(rows, SCHEMA)

    return sw.Generator(make=make, schema=SCHEMA, pieces=len(batches))


@dataclass
class Model:
    """One source and windows of ``extent``, batch by batch."""

    extent: int
    lateness: int
    ahead_max: int
    first: int | None = None
    open: Counter[tuple[int, str]] = field(default_factory=Counter)
    ended: list[tuple[int, str, int]] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    ahead: list[Row] = field(default_factory=list)

    def apply(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        highest, top = self._shown(rows)
        for at, key in rows:
            window = at // self.extent
            if self.first is not None and window < self.first:
                self.late.append((at, key))
            elif top is not None and window > top:
                self.ahead.append((at, key))
            else:
                self.open[window, key] += 1
        reached = (highest - self.lateness) // self.extent
        self.first = reached if self.first is None else max(self.first, reached)
        for window, key in sorted(self.open):
            if window < self.first:
                self.ended.append((window, key, self.open.pop((window, key))))

    def _shown(self, rows: Sequence[Row]) -> tuple[int, int | None]:
        """The time that the clock shows after the batch, and the last window that is not ahead."""
        step = 1 + self.ahead_max // self.extent
        windows = sorted(at // self.extent for at, _ in rows)
        if self.first is None:
            groups = [[windows[0]]]
            for window in windows[1:]:
                if window - groups[-1][-1] > step:
                    groups.append([])
                groups[-1].append(window)
            top = max(groups, key=len)[-1]
            return max(at for at, _ in rows if at // self.extent <= top), top
        stands = (self.first * self.extent + self.lateness) // self.extent
        reached, believed = stands, 0
        for window in windows:
            if window > reached + step:
                break
            reached, believed = max(reached, window), believed + 1
        shown = [at for at, _ in rows if believed and at // self.extent <= windows[believed - 1]]
        if len(windows) - believed > believed:
            shown.append((self.first + max(self.lateness // self.extent, 1)) * self.extent + self.lateness)
        return max(shown), reached if len(windows) - believed < believed else None


def counting(batches: Sequence[Sequence[Row]], model: Model, **given: Any) -> sw.Graph:
    """source -> count of each key in each window -> out, and what was put aside -> late"""
    graph = sw.Graph("g", shards=2)
    source = graph.source("source", feed(batches), time="at", lateness=model.lateness, ahead_max=model.ahead_max)
    window = sw.Hopping(time="at", length=model.extent)
    count = sw.operators.Count("count", key="k", window=window, bounds=True, late=True, **{"final": True, **given})
    graph.sink("out", graph.add(count, source), sw.Memory())
    graph.sink("late", graph.output(count, "late"), sw.Memory())
    return graph


def ended(run: sw.LocalRun, model: Model) -> list[tuple[int, str, int]]:
    """What came out, as the model tells it."""
    rows = run.result("out").to_pylist()
    assert all(row["window_end"] - row["window_start"] == model.extent for row in rows)
    return sorted((row["window_start"] // model.extent, row["k"], row["count"]) for row in rows)


def put_aside(run: sw.LocalRun) -> list[Row]:
    return sorted((row["at"], row["k"]) for row in run.result("late").to_pylist())
