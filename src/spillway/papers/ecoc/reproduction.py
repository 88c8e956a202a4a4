"""The evaluation of seed 003 in one go: costs while nothing fails, failures with real kills, each beside what it says.

Two kinds of checks. What *must* be shown decides whether the reproduction succeeds: that ECOC writes less where the
seed says so, and that no kill loses a tuple. The *relations* of the seed's figures are judged beside that, on whatever
was measured, and may turn out otherwise on another system for reasons that can be told; then they are said not to hold,
and nothing is bent. Our one machine stands for both of the seed's environments.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spillway.papers.ecoc.cutting import Elements
from spillway.papers.ecoc.evaluation import INTERVALS, PROCESSES, REPETITIONS, Setting
from spillway.papers.ecoc.failure_free import Cost, costs
from spillway.papers.ecoc.figures import FIGURES, Curve, Measure, Relation
from spillway.papers.ecoc.judging import NO_INTERVAL, judge
from spillway.records.reproduction import Check, Reproduction, Row

PARTS = ("failure-free", "failures")

Tell = Callable[[str], None]
Samples = dict[int, list[float]]
Measured = dict[tuple[Measure, Curve], Samples]

FAILURE_MEASURES: Mapping[Measure, str] = {
    "recovery_time": "recovery_seconds",
    "recovery_cpu": "recovery_cpu",
    "recovery_memory": "recovery_memory_bytes",
    "catch_up_time": "catch_up_seconds",
    "catch_up_cpu": "catch_up_cpu",
    "catch_up_memory": "catch_up_memory_bytes",
}
"""By measure, the column of a kill."""

_FIRST_TWO = ("SP1", "SP2")
SHOWN: Mapping[int, tuple[Measure, tuple[str, ...]]] = {
    13: ("network_overhead", _FIRST_TWO),
    14: ("cpu", _FIRST_TWO),
    15: ("memory", _FIRST_TWO),
    16: ("recovery_time", tuple(PROCESSES)),
    17: ("recovery_cpu", tuple(PROCESSES)),
    18: ("recovery_memory", tuple(PROCESSES)),
    19: ("catch_up_time", tuple(PROCESSES)),
    20: ("catch_up_cpu", tuple(PROCESSES)),
    21: ("catch_up_memory", tuple(PROCESSES)),
    23: ("network_overhead", tuple(PROCESSES)),
    24: ("cpu", tuple(PROCESSES)),
}
"""By figure, its measure and the processes in it; kills of SP3 and SP4 are ours, where they were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is run."""

    elements: int  # of each sensor while nothing fails
    per_batch: int
    repetitions: int
    kill_processes: tuple[str, ...]
    kill_intervals: tuple[int, ...]
    kills: int  # of each setting at each interval
    kill_per_batch: int = 100
    pace_s: float = 1.0


# The seed has 400 s of 30 elements each. Batches are small beside every interval, and divide it. Bytes depend on their
# size: an extension of ECOC is a number of batches, weighed against the mean of checkpoints, so where the two come near
# each other it can cost a little more than it saves (100 elements to a batch, SP2 at 1,500; see the figures page). When
# checkpoints are taken follows from the names of jobs: a seed changes tuples, not bytes.
FULL = Size(
    elements=12_000,
    per_batch=50,
    repetitions=REPETITIONS,
    kill_processes=tuple(PROCESSES),
    kill_intervals=INTERVALS,
    kills=2,
)
QUICK = Size(elements=12_000, per_batch=125, repetitions=1, kill_processes=_FIRST_TWO, kill_intervals=(500,), kills=1)


def reproduce(*, parts: Collection[str] = PARTS, quick: bool, seed: int, tell: Tell) -> Reproduction:
    """Run some parts of the experiments, shorter if ``quick``; nothing is written yet."""
    return reproduce_in(QUICK if quick else FULL, parts=parts, seed=seed, tell=tell, quick=quick)


def reproduce_in(size: Size, *, parts: Collection[str], seed: int, tell: Tell, quick: bool = True) -> Reproduction:
    """The same, of any size."""
    records = Reproduction(paper="ecoc", settings={"quick": quick, "seed": seed})
    measured: Measured = {}
    if "failure-free" in parts:
        records.settings |= {"elements": size.elements, "per_batch": size.per_batch, "repetitions": size.repetitions}
        measured |= _failure_free(records, size, seed=seed, tell=tell)
        records.checks += must_write_less(measured)
    if "failures" in parts:
        records.settings |= {"kill_per_batch": size.kill_per_batch, "pace_s": size.pace_s, "kills": size.kills}
        measured |= _failures(records, size, seed=seed, tell=tell)
        records.checks += must_lose_nothing(records.tables["failures"])
    for figure, (measure, processes) in SHOWN.items():
        for row in figure_rows(measured, measure, processes):
            records.add(f"figure_{figure}", row)
    records.checks += [replace(check, decides=False) for check in judge(measured, as_measured(measured))]
    return records


# -- what is run ------------------------------------------------------------------------------------------------------


def _failure_free(records: Reproduction, size: Size, *, seed: int, tell: Tell) -> Measured:
    elements = Elements(count=size.elements, per_batch=size.per_batch, seed=seed)
    found = []
    for cost in costs(elements, processes=tuple(PROCESSES), intervals=INTERVALS, repetitions=size.repetitions):
        found.append(cost)
        tell(
            f"{_named(cost.process, cost.setting, cost.interval)}: overhead {cost.network_overhead:.3f}, "
            f"{cost.cpu_s_per_element * 1e6:.0f} µs of CPU an element, {cost.memory_bytes / 1024:.0f} KiB held"
        )
    found.sort(key=lambda cost: (cost.process, PROCESSES[cost.process].settings.index(cost.setting), cost.interval))
    for cost in found:
        records.add("failure_free", cost.as_row())
    return measured_costs(found)


def _failures(records: Reproduction, size: Size, *, seed: int, tell: Tell) -> Measured:
    from spillway.papers.ecoc.failures import Trial, run_trial
    from spillway.papers.ecoc.node import SETTINGS
    from spillway.papers.ecoc.nodes import Nodes
    from spillway.spark import session

    trials = [
        Trial(
            process=process,
            setting=setting,
            interval=interval,
            repetition=repetition,
            per_batch=size.kill_per_batch,
            pace_s=size.pace_s,
            seed=seed,
        )
        for repetition in range(size.kills)
        for interval in size.kill_intervals
        for process in size.kill_processes
        for setting in PROCESSES[process].settings
        if setting != "unsafe"
    ]
    tell("Starting Spark three times: here, and for a node at work and one that waits.")
    with Nodes() as nodes:
        spark = session(**SETTINGS)
        for trial in trials:
            found = run_trial(trial, nodes, spark)
            records.add("failures", found.as_row())
            output = found.output
            tell(
                f"{_named(trial.process, trial.setting, trial.interval)}: killed after batch {found.committed}, went "
                f"back to {found.to}; recovery {found.recovery.seconds:.1f} s, catch-up "
                f"{found.catch_up.seconds:.1f} s; {output.lost_tuples} of {output.ideal_tuples} tuples lost, "
                f"{output.wrong_tuples} wrong"
            )
    return measured_failures(records.tables["failures"])


def _named(process: str, setting: str, interval: int) -> str:
    return f"{process} {setting}" + (f" at {interval}" if interval != NO_INTERVAL else "")


# -- what was measured ------------------------------------------------------------------------------------------------


def measured_costs(found: Sequence[Cost]) -> Measured:
    """The measures of runs without failures, by curve and interval."""
    measured: Measured = {}
    unsafe = {(one.process, one.repetition): one.cpu_s_per_element for one in found if one.setting == "unsafe"}
    for one in found:
        curve = Curve(process=one.process, setting=one.setting)
        taken: dict[Measure, float] = {
            "network_overhead": one.network_overhead,
            "cpu": one.cpu_s_per_element,
            "cpu_overhead": one.cpu_s_per_element - unsafe[one.process, one.repetition],
            "memory": one.memory_bytes,
        }
        for measure, value in taken.items():
            measured.setdefault((measure, curve), {}).setdefault(one.interval, []).append(value)
    return measured


def measured_failures(rows: Sequence[Row]) -> Measured:
    """The measures of kills; what could not be known on this system is left out."""
    measured: Measured = {}
    for row in rows:
        curve = Curve(process=row["process"], setting=row["setting"])
        for measure, column in FAILURE_MEASURES.items():
            if row[column] is not None:
                measured.setdefault((measure, curve), {}).setdefault(row["interval"], []).append(row[column])
    return measured


def figure_rows(measured: Measured, measure: Measure, processes: Sequence[str]) -> Iterator[Row]:
    """The rows of one figure: a point of a curve each, with the mean, the least and the largest of its samples."""
    for process in processes:
        for setting in PROCESSES[process].settings:
            samples = measured.get((measure, Curve(process=process, setting=setting)), {})
            for interval, values in sorted(samples.items()):
                yield {
                    "process": process,
                    "setting": setting,
                    "interval": interval,
                    "mean": sum(values) / len(values),
                    "least": min(values),
                    "most": max(values),
                    "samples": len(values),
                }


def as_measured(measured: Measured, relations: Sequence[Relation] = FIGURES) -> list[Relation]:
    """The relations at those of their intervals that were measured; without those of which nothing can be said then."""
    found = []
    for relation in relations:
        at = measured.get((relation.measure, relation.curve), {})
        intervals = tuple(c for c in relation.intervals if c in at or relation.curve.setting == "unsafe")
        if relation.curve.setting == "unsafe":
            intervals = relation.intervals[:1] if at else ()  # one run stands for all
        if len(intervals) >= (2 if relation.kind in ("rises", "flat") else 1):
            found.append(replace(relation, intervals=intervals))
    return found


# -- what must be shown -----------------------------------------------------------------------------------------------

_MUST_WRITE: tuple[tuple[str, str, Setting, Setting, bool], ...] = (
    ("SP1", "coordinated writes less than uncoordinated at every interval", "coordinated", "uncoordinated", False),
    ("SP2", "coordinated writes less than uncoordinated at every interval", "coordinated", "uncoordinated", False),
    ("SP2", "extended writes no more than coordinated at every interval (a join)", "extended", "coordinated", True),
    ("SP3", "extended writes less than uncoordinated at every interval (a cycle)", "extended", "uncoordinated", False),
    ("SP4", "extended writes less than uncoordinated at every interval (cycles)", "extended", "uncoordinated", False),
)


def must_write_less(measured: Measured) -> list[Check]:
    """The checks on bytes that decide."""
    checks = []
    for process, says, setting, other, may_equal in _MUST_WRITE:
        ours, theirs = (
            measured.get(("network_overhead", Curve(process=process, setting=one)), {}) for one in (setting, other)
        )
        pairs = [(max(ours[c]), min(theirs[c]), c) for c in INTERVALS if c in ours and c in theirs]
        holds = len(pairs) == len(INTERVALS) and all(a < b or (may_equal and a == b) for a, b, _ in pairs)
        told = ", ".join(f"{a:.3g} against {b:.3g} at {c}" for a, b, c in pairs)
        paper = "5.5, figure 13" if process in _FIRST_TWO else "5.6, figure 23"
        checks.append(Check(name=f"must: {process}, {says}", holds=holds, ours=told, paper=f"so it is in {paper}"))
    return checks


def must_lose_nothing(kills: Sequence[Row]) -> list[Check]:
    """The checks on output that decide: every run with a kill."""
    checks = []
    for column, level, says in (
        ("lole", "LOLE", "lossless"),
        ("iaso", "IASO", "in order within the stream"),
    ):
        kept = sum(row[column] is True for row in kills)
        wrong = sum(row["lost_tuples"] + row["wrong_tuples"] for row in kills)
        tuples = sum(row["ideal_tuples"] for row in kills)
        checks.append(
            Check(
                name=f"must: the output of every run with a kill is {says} ({level})",
                holds=kept == len(kills) and tuples > 0,
                ours=f"{kept} of {len(kills)} runs; {wrong} of {tuples:,} tuples lost or wrong",
                paper="lossless and in order within a stream, whichever operator fails (4.3, 4.4.1)",
            )
        )
    return checks
