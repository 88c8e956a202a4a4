"""The two streams that seed 004 (section 5.2) joins, and the graphs that join them.

S1 has two integers and a text of 70 bytes, S2 an integer and a text of 10 bytes; they are joined where the integers are
equal, and what leaves has all of S1 and the text of S2. Windows of ours hold numbers: the texts are nine numbers and
two, of 72 and 16 bytes. Both streams are uniform and bring equally many tuples.

The seed does not say how many different integers there are in the join with one window. Its I/O rates do: of 8,192
tuples in the window 5.4 match, of 32,768 it is 20.5, about one in 1,600. In the per-group join it does say: 50 integers
in S1, 600 in S2, so that one in twelve of S2 has a window, of 1,024 tuples.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import SEQ_FIELD, Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.merging import Int64s, Merging
from spillway.operators.operator import Out
from spillway.operators.shared_join import SharedWindowJoin
from spillway.operators.window_join import WindowJoin
from spillway.seeds import generator

JOIN = "join"
WINDOWS = (8_192, 16_384, 32_768, 65_536, 131_072)
GROUPS = (512, 1_024, 2_048, 4_096)
"""Tuples in a checkpoint group of the window."""
GROUPS_BY_KEY = (32, 64, 128, 256)
"""The same where each key has a window."""
WINDOW_BY_KEY = 1_024
DIFFERENT = 1_600
DIFFERENT_BY_KEY = (50, 600)
INTERVALS_S = (1.0, 10.0)

_TEXTS = {"left": 9, "right": 2}  # numbers that stand for the text
# Record batches that are made; after them they come again, under new numbers. A prime: windows hold a power of two, so
# that a row never takes the place of its like, which would be no change.
_MADE = 37
_BATCHES_MAX = 10**6
_COMPARISONS = 1 << 24  # of a batch, about: so a batch takes some tens of milliseconds whatever the window


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One join: a window of all keys, or one of each."""

    window: int
    by_key: bool = False

    @property
    def name(self) -> str:
        return "per-group" if self.by_key else f"{self.window:,}"

    @property
    def groups(self) -> tuple[int, ...]:
        return GROUPS_BY_KEY if self.by_key else GROUPS

    @property
    def rows(self) -> int:
        """Tuples of either stream in a batch."""
        return 512 if self.by_key else max(_COMPARISONS // self.window, 1)

    @property
    def filled(self) -> int:
        """Tuples of S1 after which windows are full: of those of one key there is twice what they hold on average."""
        return 2 * DIFFERENT_BY_KEY[0] * self.window if self.by_key else self.window

    @property
    def different(self) -> tuple[int, int]:
        return DIFFERENT_BY_KEY if self.by_key else (DIFFERENT, DIFFERENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the streams. The first batch fills the windows of S1; from then on both bring the same."""

    kind: Kind
    left: bool
    seed: int

    def __call__(self, piece: int) -> pa.RecordBatch:
        kind, port = self.kind, "left" if self.left else "right"
        if piece == 0:
            count, first = (kind.filled if self.left else 0), 0
        else:
            count, first = kind.rows, 2 * kind.filled + 2 * (piece - 1) * kind.rows
        seqs = first + 2 * np.arange(count) + (not self.left)
        # The filling has a record batch of its own; those that follow are made once and come round.
        made = 0 if piece == 0 else 1 + piece % _MADE
        columns = _made(self.seed, port, kind.different[0 if self.left else 1], made, count)
        return pa.RecordBatch.from_arrays([pa.array(seqs), *columns], schema=schema(port))


@lru_cache(maxsize=4 * _MADE)
def _made(seed: int, port: str, different: int, number: int, count: int) -> list[pa.Array]:
    random = generator(seed, "stream", port, number)
    numbers = [random.integers(different, size=count)]
    if port == "left":
        numbers.append(random.integers(2**31, size=count))
    texts = random.random((_TEXTS[port], count))
    return [pa.array(values) for values in (*numbers, *texts)]


def schema(port: str) -> pa.Schema:
    """The columns of a stream."""
    numbers = ["number", "other"] if port == "left" else ["number"]
    return pa.schema(
        [
            SEQ_FIELD,
            *(pa.field(name, pa.int64(), nullable=False) for name in numbers),
            *(pa.field(name, pa.float64(), nullable=False) for name in texts(port)),
        ]
    )


def texts(port: str) -> list[str]:
    return [f"text_{number}" for number in range(_TEXTS[port])]


class Watch:
    """How much processor time kernels have taken."""

    def __init__(self) -> None:
        self.taken_s = 0.0


class _Watched(Merging):
    """A join whose kernel is timed."""

    watch: Watch

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        outs = super().merged(batches, ports)  # type: ignore[safe-super]
        while True:
            began_s = time.thread_time()
            out = next(outs, None)
            self.watch.taken_s += time.thread_time() - began_s
            if out is None:
                return
            yield out


class _SharedJoin(_Watched, SharedWindowJoin):
    """One window for all keys."""


class _JoinByKey(_Watched, WindowJoin):
    """A window for each key."""


def join_graph(
    kind: Kind, protect: Protection, sink: Sink, *, group: int | None, seed: int, watch: Watch | None = None
) -> Graph:
    """S1 and S2 -> join -> sink, its windows saved in groups of so many tuples; ``watch`` is told of the kernel."""
    graph = Graph("streams", shards=1)
    sources = [
        graph.source(
            name, Generator(make=Side(kind=kind, left=left, seed=seed), schema=schema(port), pieces=_BATCHES_MAX)
        )
        for name, port, left in (("S1", "left", True), ("S2", "right", False))
    ]
    left, right, size = ["other", *texts("left")], texts("right"), {"left": kind.window, "right": 0}
    join: _SharedJoin | _JoinByKey
    if kind.by_key:
        join = _JoinByKey(JOIN, key="number", left=left, right=right, size=size, unit_rows=group, protect=protect)
    else:
        join = _SharedJoin(JOIN, on="number", left=left, right=right, size=size, unit_rows=group, protect=protect)
    join.watch = watch or Watch()
    graph.sink("out", graph.add(join, *sources), sink)
    return graph
