"""What a fault schedule is about, chosen at random: a graph, its protections, its windows, its input."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from spillway.graph.nodes import Stream
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup
from spillway.graph.windows import Decaying, Hopping, Windowing
from spillway.graph.windows import Sliding as SlidingWindow
from spillway.soak import kinds
from spillway.soak.blocks import Block
from spillway.soak.demands import demands_on
from spillway.soak.plans import Fed, Feedback, Plan
from spillway.soak.tuples import Times
from spillway.state.primitives import Metric

OPERATORS = (1, 1, 2, 2, 3, 4)  # with state, how many; a pair that belongs together counts as one
SHARDS = (1, 1, 2, 2, 3, 4)
METRICS: tuple[Metric, ...] = ("l1", "l2", "max")
KINDS: dict[type[Block], float] = {
    kinds.Counts: 4.0,
    kinds.Sketch: 2.5,
    kinds.OwnSums: 4.0,
    kinds.OwnWeighted: 1.0,
    kinds.OwnRecent: 1.0,
    kinds.Hitters: 2.0,
    kinds.Sliding: 2.0,
    kinds.Joined: 1.5,
    kinds.SharedJoined: 0.7,
    kinds.Latest: 1.0,
    kinds.Ripple: 1.0,
}
"""How often each kind of operator is chosen, relative to the others."""

T = TypeVar("T")


def choose(random: np.random.Generator) -> Plan:
    """A run, small enough to be over in some tens of milliseconds."""
    return _Choosing(random).plan()


class _Choosing:
    """A plan in the making."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._keys = int(self._pick([1, 5, 20, 60, 120]))
        self._exact = random.random() < 0.2  # whether the whole graph is
        self._pieces = self._pick([1, 2, 3])  # of a source in a batch
        self._tuples_max = self._pick([2, 10, 40, 80])  # of a piece
        self._gap_max = self._pick([1, 1, 4])  # between two numbers of seq
        # About how many numbers of seq a batch has decides how many windows: of a few tuples, or of a few batches.
        self._numbers = numbers = self._pieces * self._tuples_max * (1 + self._gap_max) / 4
        self._extent = int(max(1, numbers * self._pick([0.2, 0.6, 1.0, 2.5])))
        self._times = Times(
            origin_us=int(self._pick([0, 10**15, -(10**6), -(10**9), -(10**15)])),
            step_us=int(self._pick([1, 1000, 7_777_777])),
            punctuation_every=int(max(2, numbers * self._pick([0.2, 0.6, 2.0]))),
        )
        self._tuples = self._batches = 0
        self._sources: tuple[Fed, ...] = ()
        self._blocks: list[Block] = []
        self._streams: list[str] = []
        self._plain: set[str] = set()  # streams in which no two tuples have the same seq

    def plan(self) -> Plan:
        self._sources = sources = self._fed()
        self._batches = len(sources[0].batches)
        self._tuples = sum(source.tuples for source in sources)
        self._streams = [source.name for source in sources]
        self._plain = set(self._streams)
        for number in range(self._pick(OPERATORS)):
            if self._random.random() < 0.3:
                self._pass_through(f"s{number}")
            self._enter(self._block(f"b{number}"))
        return Plan(
            sources=sources,
            blocks=tuple(self._blocks),
            feedback=tuple(self._feedback()),
            times=self._times,
            fault_rate=float(self._random.choice([0.0, 0.3, 0.6, 0.8], p=[0.05, 0.3, 0.4, 0.25])),
        )

    # -- the graph --------------------------------------------------------------------------------------------

    def _enter(self, block: Block) -> None:
        self._blocks.append(block)
        self._streams.append(block.name)

    def _pass_through(self, name: str) -> None:
        """An operator without state."""
        protection = self._pick([Nothing(), Nothing(), Exact(items=True)])
        stream = self._stream()
        if self._random.random() < 0.6:
            reads, above = (stream,), int(self._random.integers(5))
            self._enter(kinds.Filtered(name=name, reads=reads, protection=protection, shards=1, above=above))
            self._plain |= {name} if stream in self._plain else set()
        else:
            self._enter(kinds.United(name=name, reads=(stream, self._stream()), protection=Nothing(), shards=1))

    def _block(self, name: str) -> Block:
        weights = np.array(list(KINDS.values()))
        kind: Any = list(KINDS)[int(self._random.choice(len(KINDS), p=weights / weights.sum()))]
        own = self._parameters(kind)
        timed = own.get("timed", False)
        ports = kind.ports + (kind is kinds.OwnSums and self._random.random() < 0.3)
        reads = tuple(self._plain_stream() if timed else self._stream() for _ in range(ports))
        shards = 1 if kind is kinds.SharedJoined else self._pick(SHARDS)
        window = self._window(kind, own)
        protection = self._protection(self._moved(kind, own, shards))
        block: Block = kind(name=name, reads=reads, protection=protection, shards=shards, window=window, **own)
        return self._fitting(block) if isinstance(block, kinds.Hitters) else block

    def _fitting(self, block: kinds.Hitters) -> Block:
        """Heavy hitters that can be told: theta below phi, and windows whose number is not lost with memory."""
        assert isinstance(block.window, Hopping)
        if demands_on(block.protection).theta is not None:
            theta = block.phi * float(self._pick([0.0, 0.1, 0.5, 0.9]))
            return replace(block, protection=Approximate(theta=theta))
        if not block.protection.keeps_backups and block.window.punctuation is not None:
            # A shard that starts empty counts punctuation from 0 again; its sketches then belong to other windows.
            return replace(block, window=Hopping(count=self._extent))
        return block

    def _parameters(self, kind: type[Block]) -> dict[str, Any]:
        """What only this kind has."""
        random, metric = self._random, self._pick(METRICS)
        chosen: dict[type[Block], dict[str, Any]] = {
            kinds.Counts: {
                "key": self._pick(["string", "int64"]),
                "metric": self._pick((*METRICS, "keys")),
                "summed": bool(random.integers(2)),
            },
            kinds.Sketch: {
                "keys": self._pick([("word",), ("number",), ("word", "number")]),
                "metric": "max" if random.random() < 0.6 else metric,
                "rows": int(random.integers(1, 4)),
                "width": int(random.integers(2, 60)),
            },
            kinds.OwnSums: {
                "keyed": bool(random.integers(2)),
                "metric": metric,
                "bins": int(random.integers(1, 60)),
                "fed_back": bool(random.random() < 0.5),
            },
            kinds.OwnWeighted: {"bins": int(random.integers(1, 60))},
            kinds.OwnRecent: {
                "slots": (slots := int(random.integers(1, 30))),
                "width": int(max(1, self._numbers * self._pick([0.5, 2.0, 5.0]) / slots)),
                "metric": metric,
            },
            kinds.Hitters: {"phi": int(self._pick([20, 60, 200])), "rows": int(random.integers(1, 4)), "width": 64},
            kinds.Sliding: {"every": int(random.integers(1, 4)), **self._recent(rows_max=12)},
            kinds.Joined: self._recent(rows_max=5),
            kinds.SharedJoined: {"left": int(random.integers(1, 9)), "right": int(random.integers(1, 9))},
            kinds.Latest: {},
            kinds.Ripple: {"rate": float(self._pick([0.2, 0.7, 1.0]))},
        }
        return chosen[kind]

    def _recent(self, *, rows_max: int) -> dict[str, Any]:
        """So many tuples of a key, or so much time, and no more room in it than its tuples need."""
        if self._random.random() < 0.4:
            return {"size": int(self._random.integers(1, rows_max)), "timed": False, "rows": 0}
        steps = int(max(1, self._numbers * self._pick([0.03, 0.1, 0.5])))
        while (rows := max(_densest(source, steps) for source in self._sources)) > rows_max:
            steps //= 2
        return {"size": steps, "timed": True, "rows": rows}

    def _window(self, kind: type[Block], own: dict[str, Any]) -> Windowing | None:
        if kind is kinds.OwnRecent:
            extent = own["slots"] * own["width"]
            return self._pick([None, SlidingWindow(count=extent), SlidingWindow(count=2 * extent)])
        if kind in (kinds.Sliding, kinds.Joined, kinds.SharedJoined, kinds.Latest, kinds.Ripple):
            return None
        extent = self._extent
        hopping = self._pick(
            [
                Hopping(count=extent),
                Hopping(time="tick", length=extent),
                Hopping(time="at", length=timedelta(microseconds=extent * self._times.step_us)),
                Hopping(punctuation="last"),
            ]
        )
        if kind is kinds.Hitters:
            return hopping
        return self._pick([None, None, hopping, hopping, hopping, Decaying()])

    def _moved(self, kind: type[Block], own: dict[str, Any], shards: int) -> float:
        """About how far a batch moves an operator, in its metric: a theta far off it tests nothing."""
        tuples = self._tuples / self._batches + 1
        if kind in (kinds.Sliding, kinds.Joined, kinds.SharedJoined, kinds.Ripple):
            return tuples
        cells = min(self._keys, own.get("bins", own.get("slots", self._keys)))
        shares = {"l1": 1.0, "l2": shards / cells**0.5, "max": 1 / cells, "keys": shards / 5}
        return float(5 * tuples * min(shares[own.get("metric", "l1")], 1.0))

    def _protection(self, moved: float) -> Protection:
        """Any protection; most bounds let a few batches go without a backup, or a few backups without a batch."""
        theta = float(self._pick([0.0, 1e6, *2 * moved * 10 ** self._random.uniform(-0.7, 0.9, 8)]))
        exact: list[Protection] = [
            Exact(),
            Exact(items=True),
            UpstreamBackup(every=int(self._pick([1, 10, 60, 1000]))),
            UpstreamBackup(every=int(self._pick([1, 10, 60, 1000]))),
        ]
        if self._exact:
            return self._pick(exact)
        every_s = float(self._pick([0.5, 6.0, 20.0]))
        return self._pick(
            [
                Nothing(),
                # Shadows never recover, so that they drop nothing that is stale.
                Checkpoint(every=int(self._pick([1, 20, 150])), keep_stale=True),
                Checkpoint(every=timedelta(seconds=every_s), keep_stale=True),
                *[Approximate(theta=theta)] * 5,
                self._pick(exact),
                self._pick(exact),
                self._pick(exact),
            ]
        )

    def _feedback(self) -> list[Feedback]:
        senders = [kept.name for block in self._blocks for kept in block.kept()]
        hitters = {block.name for block in self._blocks if isinstance(block, kinds.Hitters)}
        edges = []
        for block in self._blocks:
            if block.takes_feedback:
                sender = self._pick(senders)
                stream = Stream(sender, "sketch" if sender in hitters else "out")
                durable = self._exact or bool(self._random.integers(2))
                edges.append(Feedback(stream=stream, to=block.name, durable=durable))
        return edges

    # -- the input --------------------------------------------------------------------------------------------

    def _fed(self) -> tuple[Fed, ...]:
        batches = int(self._random.integers(3, 9))
        first = int(self._pick([0, 0, 5, 1_000_003, -60]))
        aligned = float(self._pick([0.0, 0.4, 1.0]))  # how often a batch begins where a window does
        names = ["in", "more"][: 1 + int(self._random.random() < 0.25)]
        return tuple(Fed(name=name, batches=self._input(batches, first, aligned)) for name in names)

    def _input(self, batches: int, seq: int, aligned: float) -> tuple[tuple[pa.RecordBatch, ...], ...]:
        result = []
        for _ in range(batches):
            if self._random.random() < aligned:
                seq = -(-seq // self._extent) * self._extent
            made = []
            for _ in range(self._pieces):
                count = int(self._random.integers(0, self._tuples_max + 1)) * int(self._random.random() > 0.1)
                seqs = seq + np.cumsum(self._random.integers(1, self._gap_max + 1, size=count)) - 1
                values = self._random.integers(1, 10, size=count)
                made.append(self._times.tuples(seqs, self._random.integers(self._keys, size=count), values))
                seq = int(seqs[-1]) + 1 if count else seq
            result.append(tuple(made))
        return tuple(result)

    # -- choices ----------------------------------------------------------------------------------------------

    def _stream(self) -> str:
        """Mostly the newest, which makes chains."""
        return self._streams[-1] if self._random.random() < 0.6 else self._pick(self._streams)

    def _plain_stream(self) -> str:
        return self._pick(sorted(self._plain))

    def _pick(self, choices: Sequence[T]) -> T:
        return choices[int(self._random.integers(len(choices)))]


def _densest(source: Fed, steps: int) -> int:
    """The most tuples of one key whose numbers lie within so many of each other."""
    most, recent = 1, defaultdict[int, deque[int]](deque)
    for piece in (piece for pieces in source.batches for piece in pieces):
        for seq, key in zip(piece["seq"].to_pylist(), piece["number"].to_pylist(), strict=True):
            recent[key].append(seq)
            while recent[key][0] <= seq - steps:
                recent[key].popleft()
            most = max(most, len(recent[key]))
    return most
