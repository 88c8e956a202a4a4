"""What fault tolerance costs, on the five workloads of seed 002 (tables 4 and 5).

Four protections run the same input in the same runtime: none, mini-batch (state and items made durable in every batch),
upstream backup (every item, state every 1 % of the stream) and approximate. They run side by side, one batch each in
turn, and every repetition begins from nothing; a ratio is the median, over all batches, of how long the same batch took
one and the other just before or after.

A batch on Spark takes far longer than its operators do, and varies by more than protection costs; so what protection
costs is also measured where it arises: *protecting* is the part of a batch in which the slowest shard makes state or
items durable. (An operator without state tells nothing here: its items are made durable where they are read.)

Disks of one machine are quick. With ``slow_ms`` all protections that write also take turns on a folder whose every
durable write takes so much longer, as a disk elsewhere would: *slow*.

Input is made once per workload and lies in shared memory. It can be read again, so approximate fault tolerance keeps no
items here: what a receiver in front of it costs is measured by ``bench receiver`` and ``reproduce af``.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Protocol

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_batches, ratio_of_turns
from spillway.benches.side_by_side import Contender, side_by_side
from spillway.errors import GraphError
from spillway.graph import Discard, Generator, Graph, Trace
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.records.bench import BenchRecords
from spillway.spark import session
from spillway.spark.java import java_found
from spillway.spark.timing import Timing, in_memory, new_folder
from spillway.state.folders import make_temporary

WARM = 3  # batches at the start of a turn that are not measured


class Workload(Protocol):
    """An application with its input, its protections, and what the paper says of it (``papers.af.workloads``)."""

    @property
    def theta(self) -> float: ...
    @property
    def tuples_per_batch(self) -> int: ...
    def generator(self, *, seed: int, batches: int, tuples_per_batch: int | None = None) -> Generator: ...
    def graph(self, data: object, protect: Protection, *, sink: Sink | None = None) -> Graph: ...
    def protection(self, mode: str) -> Protection: ...
    def published(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Af(Bench):
    """Subjects are a workload and a protection: grep/approximate."""

    NAME: ClassVar[str] = "af"
    MEANING: ClassVar[str] = "what each kind of fault tolerance costs, on the five workloads of AF-Stream"

    workloads: Mapping[str, Workload]
    modes: tuple[str, ...]  # of the paper's tables; "approximate" is compared with the others
    workload: tuple[str, ...] = option((), "which to run, such as grep,join (default: all)")
    tuples_per_batch: int = option(0, "tuples in a batch (default: as each workload says)", least=0)
    batches: int = option(10, "measured batches")
    repetitions: int = option(2, "how often all of them are run")
    slow_ms: int = option(0, "also with so many ms more for every durable write, as on a disk elsewhere", least=0)
    seed: int = option(1, "of the input", least=0)

    def __post_init__(self) -> None:
        Bench.__post_init__(self)
        for name in self.workload:
            if name not in self.workloads:
                raise GraphError(f"bench af: there is no workload {name!r}; there are {', '.join(self.workloads)}.")

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        tell("Starting Spark.")
        spark = session()
        about: dict[str, Any] = {}
        for name in self.workload or self.workloads:
            workload = self.workloads[name]
            self._measure(name, workload, spark, notes, tell)
            about[name] = {
                "tuples_per_batch": self._tuples(workload),
                "theta": workload.theta,
                "paper": workload.published(),
            }
        versions = {"master": spark.sparkContext.master, "java": java_found().found}
        return {"modes": self.modes, "workloads": about, **versions}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        return {
            "modes": records.about["modes"],
            "slow_ms": records.settings["slow_ms"],
            "workloads": {name: _summary(records, name, about) for name, about in records.about["workloads"].items()},
            "repetitions": records.settings["repetitions"],
        }

    def _tuples(self, workload: Workload) -> int:
        return self.tuples_per_batch or workload.tuples_per_batch

    def _measure(self, name: str, workload: Workload, spark: Any, notes: Notes, tell: Tell) -> None:
        memory = make_temporary("bench-", graph=name)
        disk = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        tuples = self._tuples(workload)
        try:
            tell(f"{name}: writing input.")
            made = workload.generator(seed=self.seed, batches=WARM + self.batches, tuples_per_batch=tuples)
            feed = in_memory(made, memory / "in")
            for turn in range(self.repetitions):
                place = new_folder(disk)
                timings = side_by_side(
                    self._contenders(workload, feed, place), spark, batches=WARM + self.batches, skip=WARM
                )
                shutil.rmtree(place, ignore_errors=True)
                for mode, timing in timings.items():
                    _note(timing, notes, subject=f"{name}/{mode}", turn=turn)
                told = ", ".join(f"{mode} {tuples / timing.batch_s / 1e6:.2f}" for mode, timing in timings.items())
                tell(f"{name}, repetition {turn + 1}: M tuples/s: {told}")
        finally:
            shutil.rmtree(memory, ignore_errors=True)
            shutil.rmtree(disk, ignore_errors=True)

    def _contenders(self, workload: Workload, feed: Trace, place: Path) -> dict[str, Contender]:
        found = {mode: self._contender(workload, feed, mode, place / mode) for mode in self.modes}
        if self.slow_ms:
            for mode in self.modes:
                if mode != "none":
                    backups = f"slow://{self.slow_ms}ms{place / slow(mode)}"
                    found[slow(mode)] = self._contender(workload, feed, mode, backups)
        return found

    def _contender(self, workload: Workload, feed: Trace, mode: str, backups: str | Path) -> Contender:
        return Contender(graph=workload.graph(feed, workload.protection(mode), sink=Discard()), backups=backups)


def slow(mode: str) -> str:
    """What a protection is called where its writes are slow."""
    return f"{mode}-slow"


def _note(timing: Timing, notes: Notes, *, subject: str, turn: int) -> None:
    notes.add_all(subject, "batch_s", timing.batches_s, turn=turn)
    notes.add_all(subject, "protecting_s", timing.protecting_s, turn=turn)
    notes.add(subject, "backups", timing.backups, turn=turn)
    notes.add(subject, "backup_bytes", timing.backup_bytes, turn=turn)
    notes.add(subject, "item_bytes", timing.item_bytes, turn=turn)


def _summary(records: BenchRecords, name: str, about: dict[str, Any]) -> dict[str, Any]:
    """The figures of one workload."""
    at_hand = records.about["modes"]
    slow_modes = [slow(mode) for mode in at_hand if mode != "none"] if records.settings["slow_ms"] else []
    modes = [*at_hand, *slow_modes]
    turns = {mode: records.turns(f"{name}/{mode}", "batch_s") for mode in modes}
    pairs = [("approximate", mode) for mode in at_hand] + [
        (slow("approximate"), mode) for mode in ("none", *slow_modes)
    ]
    ratios = {
        f"{one}_over_{other}": ratio_of_batches(turns[other], turns[one])
        for one, other in pairs
        if one != other and one in turns
    }
    counts = {
        measure: {mode: records.values(f"{name}/{mode}", measure) for mode in modes}
        for measure in ("backups", "backup_bytes", "item_bytes")
    }
    return {
        "tuples_per_batch": about["tuples_per_batch"],
        "theta": about["theta"],
        "tuples_per_s": {
            mode: about["tuples_per_batch"] / median(records.values(f"{name}/{mode}", "batch_s")) for mode in modes
        },
        "ratio": {of: median(each) for of, each in ratios.items()},
        "ratio_interval": {of: median_interval(each) for of, each in ratios.items()},
        "protecting_share": {mode: _protecting_share(records, f"{name}/{mode}") for mode in modes},
        **counts,
        "batches_s": turns,
        "paper": about["paper"],
    }


def _protecting_share(records: BenchRecords, subject: str) -> float:
    """The part of a batch that goes into making things durable: the median of turns; 0 where no shard reports any."""
    protecting = records.turns(subject, "protecting_s")
    return median(ratio_of_turns(protecting, records.turns(subject, "batch_s"))) if protecting else 0.0
