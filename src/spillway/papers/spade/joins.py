"""What checkpoints of joins cost (seed 004, section 5.2: figures 8 to 10 and table 1).

The same tuples go through joins that are never saved and joins that are saved every second or every ten, in groups of
so many tuples. All of one window take turns, a batch each, and in every round another comes first: whatever the machine
does meanwhile falls on all alike. What is compared is the *processor time* of a batch, that of the thread that writes a
checkpoint included: on a machine that is shared with others wall time says more of those. Wall time is measured beside
it. The relative performance is

    processor time without checkpoints / processor time with them       for the same tuples

taken for stretches that are as long as the interval, so that each has one checkpoint; of those the median. The kernel
that compares tuples with windows is most of a batch, does the same whether or not windows are saved, and takes now more
and now less, by more than a checkpoint costs: what the caches hold, and where memory lies. So its time is that of the
joins without checkpoints, for all; what is around it, which is where checkpoints are, is compared as it is. (The ratio
of whole batches is measured beside it, and a control shows how far that is off by chance.) Within a stretch batches
without a checkpoint count by their median, and those with one as they are.

Intervals are in processor time too, that is, as long as they would be if the join had a processor to itself and was
never idle, which is how the seed measures: sources send as fast as the join takes it.
"""

import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import pyarrow as pa

from spillway.backup.behind import UnderWay, in_thread
from spillway.graph.protections import Checkpoint, Nothing
from spillway.graph.sinks import ForEachBatch
from spillway.local import LocalRun
from spillway.papers.spade.streams import JOIN, Kind, Watch, join_graph
from spillway.score.medians import median_interval

Tell = Callable[[str], None]

_FIRST = 4  # the first batch that is measured: windows are filled, kernels compiled, and caches warm


class OwnTime:
    """A clock that runs while one join is at work, in processor time; the date is the machine's.

    Every join has one, so that those that take turns do not age each other's checkpoints.
    """

    def __init__(self) -> None:
        self._worked_s = 0.0
        self._began_s: float | None = None

    def begin(self) -> None:
        self._began_s = time.thread_time()

    def end(self) -> float:
        """How long it was at work."""
        assert self._began_s is not None
        taken_s = time.thread_time() - self._began_s
        self._worked_s += taken_s
        self._began_s = None
        return taken_s

    def skip(self, duration_s: float) -> None:
        """Let time pass without work."""
        self._worked_s += duration_s

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        running_s = 0.0 if self._began_s is None else time.thread_time() - self._began_s
        return self._worked_s + running_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How often a join is saved, in seconds, and in groups of how many tuples; neither for one that is not."""

    group: int | None = None
    interval_s: float | None = None
    control: bool = False  # it is not saved either, and shows how far two alike come out apart

    @property
    def name(self) -> str:
        if self.interval_s is None:
            return "no checkpoint, once more" if self.control else "no checkpoint"
        return f"every {self.interval_s:g} s, groups of {self.group:,}"


NONE = Setting()
CONTROL = Setting(control=True)


class Written:
    """Checkpoints written by threads, and the processor time that each takes: it counts for the batch that began it."""

    def __init__(self) -> None:
        self.batch = 0  # that is running
        self._taken_s: dict[int, float] = {}
        self._under_way: UnderWay | None = None

    def __call__(self, work: Callable[[], None]) -> UnderWay:
        batch = self.batch

        def timed() -> None:
            began_s = time.thread_time()
            try:
                work()
            finally:
                self._taken_s[batch] = time.thread_time() - began_s

        self._under_way = in_thread(timed)
        return self._under_way

    def wait(self) -> None:
        """Until nothing is being written."""
        if self._under_way is not None:
            self._under_way.wait(None)

    def taken_s(self, batch: int) -> float:
        return self._taken_s.get(batch, 0.0)


class Counted:
    """A sink that counts."""

    def __init__(self) -> None:
        self.tuples = 0

    def count(self, table: pa.Table, batch: int) -> None:
        self.tuples += table.num_rows


@dataclass(slots=True, kw_only=True)
class Subject:
    """A join that takes its turns."""

    setting: Setting
    run: LocalRun
    clock: OwnTime
    sink: Counted
    written: Written
    watch: Watch
    kernel_s: list[float] = field(default_factory=list)  # processor time of each batch's kernel
    own_s: list[float] = field(default_factory=list)  # processor time of each batch, without what a thread writes
    wall_s: list[float] = field(default_factory=list)

    def warm_up(self) -> None:
        """Fill the windows and, if they are saved, have that done once: the first checkpoint holds all there is."""
        self.step(measured=False)
        self.clock.skip(self.setting.interval_s or 0.0)
        for _ in range(1, _FIRST):
            self.step(measured=False)
            self.written.wait()
        self.sink.tuples = 0

    def step(self, *, measured: bool) -> None:
        self.written.batch = self.run.batch
        self.watch.taken_s = 0.0
        wall_s = time.perf_counter()
        self.clock.begin()
        self.run.step()
        own_s = self.clock.end()
        if measured:
            self.own_s.append(own_s)
            self.kernel_s.append(self.watch.taken_s)
            self.wall_s.append(time.perf_counter() - wall_s)

    def cpu_s(self) -> list[float]:
        """The processor time of each batch, of the thread that wrote its checkpoint too; nothing is being written."""
        return [own_s + self.written.taken_s(_FIRST + i) for i, own_s in enumerate(self.own_s)]

    def around_s(self) -> list[float]:
        """The same without the kernel."""
        return [cpu_s - kernel_s for cpu_s, kernel_s in zip(self.cpu_s(), self.kernel_s, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one setting costs beside none: samples of one repetition, or of several."""

    kind: Kind
    setting: Setting
    ratios: list[float]  # of processor time, each of a stretch with one checkpoint
    batch_ratios: list[float]  # of whole batches, the kernel included
    wall_ratios: list[float]
    batches: int
    cpu_s: float
    outputs: int
    checkpoint_bytes: list[float]  # of each checkpoint
    held_s: list[float]  # how long each holds up its batch, in processor time
    written_s: list[float]  # how much of it a thread takes to write each

    def __add__(self, other: "Cost") -> "Cost":
        """Both together."""
        assert (self.kind, self.setting) == (other.kind, other.setting)
        return Cost(
            kind=self.kind,
            setting=self.setting,
            ratios=self.ratios + other.ratios,
            batch_ratios=self.batch_ratios + other.batch_ratios,
            wall_ratios=self.wall_ratios + other.wall_ratios,
            batches=self.batches + other.batches,
            cpu_s=self.cpu_s + other.cpu_s,
            outputs=self.outputs + other.outputs,
            checkpoint_bytes=self.checkpoint_bytes + other.checkpoint_bytes,
            held_s=self.held_s + other.held_s,
            written_s=self.written_s + other.written_s,
        )

    @property
    def checkpoints(self) -> int:
        return len(self.checkpoint_bytes)

    @property
    def saving_share(self) -> float:
        """The part of its processor time that saving takes, as timed by itself: no difference of two large numbers."""
        return (sum(self.held_s) + sum(self.written_s)) / self.cpu_s

    def as_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "join": self.kind.name,
            "window": self.kind.window,
            "by_key": self.kind.by_key,
            "group": self.setting.group,
            "interval_s": self.setting.interval_s,
            "control": self.setting.control,
            "batches": self.batches,
            "input_per_s": 2 * self.kind.rows * self.batches / self.cpu_s,
            "output_per_s": self.outputs / self.cpu_s,
            "checkpoints": self.checkpoints,
            "checkpoint_bytes": _mean(self.checkpoint_bytes),
            "held_ms": _mean(self.held_s) * 1000,
            "written_ms": _mean(self.written_s) * 1000,
            "saving_share": self.saving_share,
            "every_s": self.cpu_s / self.checkpoints if self.checkpoints else None,
            "samples": len(self.ratios),
        }
        measured = {"ratio": self.ratios, "batch_ratio": self.batch_ratios, "wall_ratio": self.wall_ratios}
        for name, ratios in measured.items():
            low, high = median_interval(ratios)
            row |= {name: median(ratios), f"{name}_low": low, f"{name}_high": high}
        return row


def costs(
    kind: Kind, settings: Sequence[Setting], *, worked_s: float, repetitions: int, seed: int, tell: Tell
) -> list[Cost]:
    """None, none once more, and every setting, over as many tuples as keep a join without checkpoints busy so long.

    Every repetition begins with joins made anew. Where their memory comes to lie makes one faster than another for as
    long as it lives, by more than a checkpoint costs.
    """
    found: list[Cost] = []
    for repetition in range(repetitions):
        tell(f"join of {kind.name}, {repetition + 1} of {repetitions} repetitions")
        new = _repetition(kind, settings, worked_s=worked_s, seed=seed)
        found = [one + other for one, other in zip(found, new, strict=True)] if found else new
    return found


def _repetition(kind: Kind, settings: Sequence[Setting], *, worked_s: float, seed: int) -> list[Cost]:
    with ExitStack() as stack:
        subjects = [_opened(stack, kind, setting, seed=seed) for setting in (NONE, CONTROL, *settings)]
        for subject in subjects:
            subject.warm_up()
        rounds, bare = 0, subjects[0]
        while sum(bare.own_s) < worked_s:
            for place in range(len(subjects)):
                subjects[(place + rounds) % len(subjects)].step(measured=True)
            rounds += 1
        for subject in subjects:
            subject.run.close()  # which waits for what is being written
        return [_cost(kind, subject, bare) for subject in subjects]


def _opened(stack: ExitStack, kind: Kind, setting: Setting, *, seed: int) -> Subject:
    protect = Nothing() if setting.interval_s is None else Checkpoint(timedelta(seconds=setting.interval_s))
    backups = stack.enter_context(tempfile.TemporaryDirectory(prefix="spillway-spade-"))
    clock, sink, written, watch = OwnTime(), Counted(), Written(), Watch()
    graph = join_graph(kind, protect, ForEachBatch(sink.count), group=setting.group, seed=seed, watch=watch)
    run = stack.enter_context(LocalRun(graph, backups=backups, clock=clock, writing=written))
    return Subject(setting=setting, run=run, clock=clock, sink=sink, written=written, watch=watch)


def _cost(kind: Kind, subject: Subject, bare: Subject) -> Cost:
    cpu_s, bare_s = subject.cpu_s(), bare.cpu_s()
    kernel_s = median(bare.kernel_s)
    stretch = max(round((subject.setting.interval_s or 1.0) / fmean(bare_s)), 1)
    rows = {row.batch: row for row in subject.run.records() if row.operator == JOIN and row.batch >= _FIRST}
    saved = [row for row in rows.values() if row.backup and row.backup_batch >= _FIRST]
    # One batch takes the copy, and a later one finds it durable and lets it count; both do more than others.
    special = {batch - _FIRST for row in saved for batch in (row.batch, row.backup_batch)}
    return Cost(
        kind=kind,
        setting=subject.setting,
        ratios=stretches(bare.around_s(), subject.around_s(), stretch, special=special, same=kernel_s),
        batch_ratios=stretches(bare_s, cpu_s, stretch, special=special),
        wall_ratios=stretches(bare.wall_s, subject.wall_s, stretch, special=special),
        batches=len(cpu_s),
        cpu_s=sum(cpu_s),
        outputs=subject.sink.tuples,
        checkpoint_bytes=[float(row.backup_bytes) for row in saved],
        held_s=[rows[row.backup_batch].backup_s for row in saved],
        written_s=[subject.written.taken_s(row.backup_batch) for row in saved],
    )


def _mean(values: Sequence[float]) -> float:
    """0 of none."""
    return fmean(values) if values else 0.0


def stretches(
    over: Sequence[float], under: Sequence[float], length: int, *, special: Collection[int], same: float = 0.0
) -> list[float]:
    """The ratio of what so many batches took, stretch by stretch; what is left at the end goes with the last stretch.

    Batches count by their median, but for those of ``under`` that are special, which count as they are. To each of
    both ``same`` is added.

    >>> stretches([1.0, 1.0, 2.0, 2.0, 99.0], [1.0, 1.0, 4.0, 2.0, 2.0], 2, special={2})
    [1.0, 0.75]
    """
    count = max(len(over) // length, 1)
    ends = [*(i * length for i in range(count)), len(over)]
    found = []
    for start, end in pairwise(ends):
        plain = [under[i] for i in range(start, end) if i not in special]
        rest = [under[i] for i in range(start, end) if i in special]
        alike_s = same * (end - start)
        taken_s = alike_s + (median(plain) * len(plain) if plain else 0.0) + sum(rest)
        found.append((alike_s + median(over[start:end]) * (end - start)) / taken_s)
    return found
