"""A run that can be killed anywhere: its graph, what it must come to, and who goes on after a kill."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.state.crash_checks import check_no_leftovers, check_shard
from tests.state.crash_film import Files, Film, Still, crash_points, files_below, lay_out, lay_over, scratch

import spillway as sw
from spillway.clock import ManualClock
from spillway.engine.opened import OpenOperator
from spillway.soak.judge import in_order
from spillway.state import HashTable, KeySet, Sample, Vector, Window
from spillway.state.conformance import metric_distance
from spillway.state.folders import claim, wipe
from spillway.state.header import NONE, Word

NAME = "everything"
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        *(pa.field(name, kind) for name, kind in [("word", pa.string()), ("number", pa.int64()), ("at", pa.int64())]),
    ]
)
SEQS_PER_BATCH = 10_000
SEED = 5
BROKEN_SHOWN = 12
BATCHES_AFTER = 3
_ROUNDING = 1 + 1e-12

Content = dict[str, Any]


class Everything(sw.Operator):
    """Keeps something in every kind of state; with feedback it hears of what it said in the batch before."""

    schema = sw.columns(word=pa.string(), count=pa.int64())
    words = HashTable(key="string", metric="l1")
    sums = Vector(40, metric="l1", dtype="int64")
    seen = KeySet()
    recent = Window(3, 1, metric="max")
    sampled = Sample(rate=0.5)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        if port == "back":
            self.words.add(batch["word"], 1)
            return
        numbers = np.asarray(batch["number"])
        self.words.add(batch["word"], numbers % 5 + 1)
        self.sums.add(numbers % 40, numbers % 3 + 1)
        self.seen.add(numbers)
        self.recent.push(numbers, numbers[:, None].astype(np.float64))
        self.sampled.add(numbers, np.asarray(batch["seq"]))
        yield from ()

    def finish(self) -> Iterator[sw.Out]:
        words, numbers = self.words.updates()
        yield self.out(word=words, count=numbers)

    def end_window(self, window: int) -> Iterator[sw.Out]:
        words, numbers = self.words.items()
        yield self.out(word=pa.array([f"{word} in {window}" for word in words.to_pylist()]), count=numbers)

    def content(self) -> Content:
        """A copy of all there is."""
        keys = self.recent.keys()
        rows, _ = self.recent.newest(keys)
        return {
            "words": _counted(*self.words.items()),
            "sums": self.sums.read().tolist(),
            "seen": set(self.seen.items().to_pylist()),
            "recent": _counted(keys, self.recent.totals(keys)),
            "rows": dict(zip(keys.to_pylist(), rows.tolist(), strict=True)),
            "sampled": _counted(*self.sampled.items()),
        }


def _counted(keys: pa.Array, numbers: Any) -> dict[Any, int]:
    return dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))


def distance(one: Content, other: Content) -> float:
    """The divergence between two contents, as the primitives declare it."""
    state = Everything("nobody").state()
    return sum(metric_distance(str(declared.metric), one[name], other[name]) for name, declared in state.items())


@dataclass(frozen=True)
class Ideal:
    """A run without a kill: after each batch what every shard holds and what was put out, and all files before each."""

    contents: list[list[Content]]
    outputs: list[pa.Table]
    files: list[Files]


@dataclass(frozen=True, kw_only=True)
class World:
    """One graph and its input: the keys of each batch, and the windows that its tuples belong to."""

    protect: sw.Protection
    batches: list[list[int]]
    windows: list[list[int]] | None = None
    shards: int = 1
    feedback: bool = False

    def piece(self, batch: int) -> pa.RecordBatch:
        numbers = np.array(self.batches[batch], np.int64)
        windows = self.windows[batch] if self.windows else [0]
        at = np.repeat(windows, -(-len(numbers) // len(windows)))[: len(numbers)]
        words = [f"word {number} " + "é" * (number % 7) for number in numbers.tolist()]
        seqs = batch * SEQS_PER_BATCH + np.arange(len(numbers))
        columns = [pa.array(seqs), pa.array(words, pa.string()), pa.array(numbers), pa.array(at.astype(np.int64))]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    @cached_property
    def ideal(self) -> Ideal:
        """The run without a kill."""
        contents, outputs = list[list[Content]](), list[pa.Table]()
        with scratch() as folder:
            files = [files_below(folder)]
            run = Run(self, folder, batch=0)
            for _ in self.batches:
                run.step()
                contents.append(run.contents())
                outputs.append(run.output)
                files.append(files_below(folder))
        return Ideal(contents, outputs, files)

    def film(self, folder: Path, *, first: int, last: int, start: Files | None = None) -> list[Still]:
        """Batches ``first`` to ``last``, from the files of ``start``; by default from those of the ideal run."""
        folder.mkdir()
        lay_out(self.ideal.files[first] if start is None else start, folder)
        with Film(folder, batch=first) as film:
            run = Run(self, folder, batch=first)
            for film.batch in range(first, last + 1):
                run.step()
        return film.stills


class Run:
    """A run on a folder, from some batch on; what it does is held against the ideal one."""

    def __init__(self, world: World, folder: Path, *, batch: int) -> None:
        self.world = world
        self.folder = folder
        self.lost = 0  # how often memory was lost at least
        self.damaged = False  # backups were, so that nothing bounds what is missing
        self.output = pa.table({})
        graph = sw.Graph("crash")
        window = sw.Hopping(time="at", length=1) if world.windows else None
        operator = Everything(NAME, key="word", protect=world.protect, shards=world.shards, window=window)
        operator.feedback_inputs = ("back",) if world.feedback else ()
        source = graph.source("source", sw.Generator(make=world.piece, schema=SCHEMA, pieces=len(world.batches)))
        stream = graph.add(operator, source)
        if world.feedback:
            graph.connect(stream, NAME, "back", feedback=True, durable=True)
        graph.sink("out", stream, sw.ForEachBatch(self._take))
        self.local = sw.LocalRun(
            graph, state=folder / "state", backups=str(folder / "backups"), batch=batch, clock=ManualClock(now_s=1e9)
        )

    def opened(self) -> list[OpenOperator]:
        """Every shard, mapped in this process."""
        for index in range(self.world.shards):
            self.local.shard(NAME, index)
        return [self.local._open[NAME, index] for index in range(self.world.shards)]

    def contents(self) -> list[Content]:
        return [opened.operator.content() for opened in self.opened()]

    def step(self) -> None:
        assert self.local.step()

    def finish(self) -> None:
        """Go on for some batches; after each of them everything that was promised holds."""
        for _ in range(BATCHES_AFTER):
            if self.local.step():
                self._check(self.local.batch - 1)
        check_no_leftovers(self.folder)
        self.local.close()

    def _check(self, batch: int) -> None:
        ideal, protect = self.world.ideal, self.world.protect
        for opened, best in zip(self.opened(), ideal.contents[batch], strict=True):
            shard = opened.shard
            assert shard.version == batch
            assert shard.failures >= self.lost, f"{shard.failures} failures, memory was lost {self.lost} times"
            assert shard.failures == 0 or self.lost, "a failure was counted, though nothing was lost"
            check_shard(shard, opened.keeper._saving.store)
            if self.damaged:
                continue
            content = opened.operator.content()
            if shard.failures == shard.forgotten or not isinstance(protect, sw.Approximate):
                assert content == best, f"after batch {batch}"
            else:
                failures = shard.failures - shard.forgotten
                allowed = protect.theta / self.world.shards * (1 - 0.5**failures)
                apart = distance(content, best)
                assert apart <= allowed * _ROUNDING, f"off by {apart} after batch {batch}; {allowed} is allowed"
        if not self.damaged and not (self.lost and isinstance(protect, sw.Approximate)):
            assert self.output.equals(ideal.outputs[batch]), f"batch {batch} put out something else"

    def _take(self, table: pa.Table, batch: int) -> None:
        self.output = in_order(table)


class GoOn(StrEnum):
    """Who goes on after a kill."""

    ANEW = "a new process"
    MAPPED = "a process that had the shards mapped"
    WIPED = "a new process, after memory was lost too"


def judge(
    world: World, stills: list[Still], folder: Path, *, lost: int = 0, damaged: bool = False, depth: int = 1
) -> set[str]:
    """Kill the run at the crash points of a film, let it go on in every way; returns the functions it was killed in.

    Before the film memory was ``lost`` so many times, and backups were perhaps ``damaged``. A larger ``depth``
    tells apart who called the line that a kill comes after, and who called that.
    """
    starts: dict[int, Files] = {}
    for still in stills:
        starts.setdefault(still.batch, still.files)
    points = crash_points(stills, seed=SEED, depth=depth)
    kills, broken = 0, list[str]()
    durable = list[tuple[int, Files]]()
    for still in points:
        ways = [GoOn.ANEW]
        if not still.torn and _remembers(starts[still.batch]):
            ways.append(GoOn.MAPPED)
        # Without memory all that matters is what is durable.
        backups = {name: file for name, file in still.files.items() if name.startswith("backups")}
        if (still.batch, backups) not in durable:
            durable.append((still.batch, backups))
            ways.append(GoOn.WIPED)
        for how in ways:
            kills += 1
            try:
                run = after_kill(world, still, starts, folder / "on", how)
                run.lost += lost
                run.damaged = damaged
                run.finish()
            except Exception as error:
                broken.append(f"{still}; {how} goes on: {type(error).__name__}: {error}")
            shutil.rmtree(folder / "on", ignore_errors=True)
    assert not broken, f"{len(broken)} of {kills} kills broke a promise:\n" + "\n".join(broken[:BROKEN_SHOWN])
    return {place.rpartition(" ")[2] for still in points for place in still.after}


def after_kill(world: World, still: Still, starts: dict[int, Files], folder: Path, how: GoOn) -> Run:
    """Who goes on; ``starts`` are the files at the start of each batch that was filmed."""
    if how is not GoOn.MAPPED:
        lay_out(still.files, folder)
        if how is GoOn.WIPED:
            wipe(folder / "state")
        run = Run(world, folder, batch=still.batch)
        run.lost = int(how is GoOn.WIPED and _remembers(still.files) == world.shards)
        return run
    first = still.batch - 1 if still.batch - 1 in starts else still.batch
    lay_out(starts[first], folder)
    run = Run(world, folder, batch=first)
    run.opened()
    for _ in range(first, still.batch):
        run.step()
    before = starts[still.batch]
    assert files_below(folder).keys() == before.keys()
    lay_over(folder, before, still.files)
    claim(folder / "state", graph="crash")  # as whoever drives that process does first
    return run


def _remembers(files: Files) -> int:
    """How many shards have a memory that can be lost: a batch in it, and no recovery under way."""
    headers = [np.frombuffer(file.data, np.int64) for name, file in files.items() if name.endswith("/header")]
    whole = (header for header in headers if header.size and header[Word.MAGIC])
    return sum(bool(header[Word.VERSION] != NONE and not header[Word.RECOVERING]) for header in whole)
