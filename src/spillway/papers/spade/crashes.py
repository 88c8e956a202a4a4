"""What a crash of the model does to its predictions (seed 004, section 5.1, figure 7), on the application ``fab``.

Three scenarios, as the seed has them: nothing fails (S1); the operator that builds the model is killed and had a
checkpoint every second (S2); it is killed and had none (S3). Both kinds of crash happen at the same tuple. All shard
memory of the operator is removed and it alone: others go on. While it is down, 2 to 5 seconds, what is sent to it is
dropped. What comes out after the crash is compared with S1, wafer by wafer.

The seed's numbers are kept: 5,381 tuples reach the model, in 30 minutes. Its time is the stream's: a clock that is told
how much of the stream a batch was. Predictions do not depend on how tuples are cut into batches (S1 is run with other
cuts each time, and must say the same), so batches are large where nothing happens, and hold a single wafer in the
seconds before a crash, where it matters when the last checkpoint was.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps import APPS
from spillway.clock import ManualClock
from spillway.graph.graph import Graph
from spillway.graph.protections import Checkpoint, Nothing, Protection
from spillway.graph.sinks import Memory
from spillway.inject.faults.outage import Outage
from spillway.inject.rewriting import with_fault
from spillway.local import LocalRun
from spillway.seeds import generator

MODEL = "Model"
CHECKPOINT_S = 1.0
DOWN_S = (2.0, 5.0)
WAFERS = 5_381
WAFERS_PER_S = WAFERS / 1_800.0
LAG = 50

_BATCH_WAFERS = 500
_LEFT = 50  # predictions that are left to compare after a crash, at least
_ALONE = 8  # wafers in batches of their own before a crash, at least: more than two checkpoints' worth

Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """When the model's operator is killed: after so many tuples have reached it; and what it misses while down."""

    run: int
    after: int
    down_s: float
    lost: int

    @property
    def at_s(self) -> float:
        return self.after / WAFERS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What was predicted of each wafer, in the order of wafers."""

    wafers: npt.NDArray[np.int64]
    predicted: Float64s
    actual: Float64s

    def from_wafer(self, first: int) -> "Predictions":
        late = self.wafers >= first
        return Predictions(wafers=self.wafers[late], predicted=self.predicted[late], actual=self.actual[late])

    def before(self, first: int) -> "Predictions":
        early = self.wafers < first
        return Predictions(wafers=self.wafers[early], predicted=self.predicted[early], actual=self.actual[early])

    def same_as(self, other: "Predictions") -> bool:
        return np.array_equal(self.wafers, other.wafers) and np.array_equal(self.predicted, other.predicted)

    @property
    def rmse(self) -> float:
        """Against what was measured."""
        return root_mean_square(self.predicted - self.actual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The predictions after a crash beside those of a run without: differences of the wafers that both predict."""

    differences: Float64s
    missing: int  # wafers that only the undisturbed run predicts
    same_before: bool
    rmse_actual: float  # against what was measured, from the crash on
    recovered_from: str  # what the operator began with again

    @property
    def rmse(self) -> float:
        return root_mean_square(self.differences)

    @property
    def largest(self) -> float:
        return float(abs(self.differences).max(initial=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One crash, in both scenarios."""

    crash: Crash
    golden_same: bool
    golden_rmse_actual: float
    with_checkpoint: Compared
    without: Compared

    def as_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "run": self.crash.run,
            "after_tuples": self.crash.after,
            "at_s": self.crash.at_s,
            "down_s": self.crash.down_s,
            "dropped_tuples": self.crash.lost,
            "golden_same": self.golden_same,
            "golden_rmse_actual": self.golden_rmse_actual,
        }
        for name, found in (("with", self.with_checkpoint), ("without", self.without)):
            row |= {
                f"{name}_rmse": found.rmse,
                f"{name}_largest": found.largest,
                f"{name}_rmse_actual": found.rmse_actual,
                f"{name}_compared": found.differences.size,
                f"{name}_missing": found.missing,
                f"{name}_same_before": found.same_before,
                f"{name}_recovered_from": found.recovered_from,
            }
        return row


def root_mean_square(values: Float64s) -> float:
    """0 of none."""
    return float(np.sqrt((values**2).mean())) if values.size else 0.0


def crashes(runs: int, *, seed: int, wafers: int = WAFERS) -> list[Crash]:
    """At any time of the run, down for 2 to 5 seconds; some predictions are left to compare."""
    drawn = []
    for run in range(runs):
        random = generator(seed, "crash", run)
        down_s = float(random.uniform(*DOWN_S))
        lost = round(down_s * WAFERS_PER_S)
        after = int(random.integers(_ALONE + 2, wafers - lost - _LEFT))
        drawn.append(Crash(run=run, after=after, down_s=down_s, lost=lost))
    return drawn


def trials(drawn: Sequence[Crash], *, seed: int, wafers: int = WAFERS) -> Iterator[Trial]:
    """Every crash in both scenarios, beside a run without."""
    line = _line(seed, wafers)
    golden, _ = _predicted(line, [*range(0, line.num_rows, 2 * _BATCH_WAFERS)], Nothing())
    for crash in drawn:
        # The undisturbed run is cut as that with a crash is, which must make no difference.
        again, _ = _predicted(line, _cuts(line, crash, seed=seed), Nothing())
        yield Trial(
            crash=crash,
            golden_same=again.same_as(golden),
            golden_rmse_actual=golden.from_wafer(crash.after).rmse,
            with_checkpoint=_crashed(line, crash, golden, Checkpoint(timedelta(seconds=CHECKPOINT_S)), seed=seed),
            without=_crashed(line, crash, golden, Nothing(), seed=seed),
        )


def _crashed(line: pa.RecordBatch, crash: Crash, golden: Predictions, protect: Protection, *, seed: int) -> Compared:
    found, recovered_from = _predicted(line, _cuts(line, crash, seed=seed), protect, crash)
    late, late_golden = found.from_wafer(crash.after), golden.from_wafer(crash.after)
    both = np.isin(late_golden.wafers, late.wafers)
    return Compared(
        differences=late.predicted - late_golden.predicted[both],
        missing=int((~both).sum()),
        same_before=found.before(crash.after).same_as(golden.before(crash.after)),
        rmse_actual=late.rmse,
        recovered_from=recovered_from,
    )


def _line(seed: int, wafers: int) -> pa.RecordBatch:
    """All tuples of a run in which so many wafers are read and measured."""
    tuples = 2 * (wafers + LAG)
    feed = APPS["fab"].generator(
        seed=seed, tuples=tuples, tuples_per_batch=tuples, pieces_per_batch=1, lag=LAG, wafers_per_s=WAFERS_PER_S
    )
    return feed.read(0)


def _cuts(line: pa.RecordBatch, crash: Crash, *, seed: int) -> list[int]:
    """Where batches begin. The k-th pair to reach the model comes with tuple 2 (k + lag) + 1: wafers are numbered so.

    How many wafers come alone before the crash is drawn, and with it how old the last checkpoint is.
    """
    at = 2 * (crash.after + LAG)
    alone = at - 2 * (_ALONE + int(generator(seed, "alone", crash.run).integers(3)))
    large = 2 * _BATCH_WAFERS
    return [*range(0, alone, large), *range(alone, at, 2), *range(at, line.num_rows, large)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """Tuples cut into batches as given."""

    tuples: pa.RecordBatch
    starts: Sequence[int]
    pieces_per_batch: int = 1

    @property
    def schema(self) -> pa.Schema:
        return self.tuples.schema

    @property
    def pieces(self) -> int:
        return len(self.starts)

    def read(self, piece: int) -> pa.RecordBatch:
        first = self.starts[piece]
        end = self.starts[piece + 1] if piece + 1 < len(self.starts) else self.tuples.num_rows
        return self.tuples.slice(first, end - first)


def _predicted(
    line: pa.RecordBatch, starts: list[int], protect: Protection, crash: Crash | None = None
) -> tuple[Predictions, str]:
    """Run the application, with a crash or none; what it predicts, and what the model's operator recovered from."""
    graph: Graph = APPS["fab"].build(Slices(tuples=line, starts=starts), protect=protect, shards=1, sink=Memory())
    crash_batch = -1
    if crash is not None:
        graph = with_fault(graph, Outage(targets=(MODEL,), offset=crash.after, length=crash.lost))
        crash_batch = starts.index(2 * (crash.after + LAG))
    clock = ManualClock()
    with (
        tempfile.TemporaryDirectory(prefix="spillway-spade-") as backups,
        LocalRun(graph, backups=backups, clock=clock) as run,
    ):
        for first, end in pairwise([*starts, line.num_rows]):
            if run.batch == crash_batch:
                run.wipe(MODEL)
            clock.advance((end - first) / 2 / WAFERS_PER_S)
            run.step()
        out = run.result("out").sort_by("wafer")
        recovered = [row for row in run.records() if row.operator == MODEL and row.recovered]
    batches = [row.recovered_from for row in recovered]
    told = "" if not batches else "nothing" if batches[0] < 0 else f"batch {batches[0]} of {crash_batch}"
    wafers, predicted, actual = (out[name].to_numpy() for name in ("wafer", "predicted", "actual"))
    return Predictions(wafers=wafers, predicted=predicted, actual=actual), told
