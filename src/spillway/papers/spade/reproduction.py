"""The experiments of seed 004 in one go: crashes of a model, and checkpoints of joins, each beside what it says.

As with seed 003, what *must* be shown decides whether the reproduction succeeds; what else the seed's figures show is
judged beside it on whatever was measured, and may be otherwise on another system.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from spillway.papers.spade import published
from spillway.papers.spade.crashes import Compared, Trial, crashes, root_mean_square, trials
from spillway.papers.spade.joins import Setting, costs
from spillway.papers.spade.judging import judge_crashes, judge_joins
from spillway.papers.spade.streams import GROUPS, GROUPS_BY_KEY, WINDOW_BY_KEY, WINDOWS, Kind
from spillway.records.reproduction import Reproduction, Row
from spillway.san.intervals import estimate

PARTS = ("crashes", "joins")

Tell = Callable[[str], None]

_POINTS = 100  # of a curve of figure 7
_LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """The settings of one join that are measured: groups with a checkpoint every second, and every ten."""

    kind: Kind
    every_second: tuple[int, ...]
    every_ten: tuple[int, ...] = ()
    worked_s: float  # processor time of the join without checkpoints, in one repetition
    repetitions: int

    @property
    def settings(self) -> list[Setting]:
        return [
            *(Setting(group=group, interval_s=1.0) for group in self.every_second),
            *(Setting(group=group, interval_s=10.0) for group in self.every_ten),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is run."""

    runs: int  # of each scenario
    joins: tuple[Joins, ...]


BY_KEY = Kind(window=WINDOW_BY_KEY, by_key=True)

# A little more than ten seconds, so that a join that is saved every ten is saved once in each repetition.
_TEN_S = 10.3

FULL = Size(
    runs=published.RUNS,
    joins=(
        *(
            Joins(kind=Kind(window=window), every_second=GROUPS, every_ten=GROUPS, worked_s=_TEN_S, repetitions=3)
            for window in WINDOWS
        ),
        Joins(kind=BY_KEY, every_second=GROUPS_BY_KEY, every_ten=GROUPS_BY_KEY, worked_s=_TEN_S, repetitions=3),
    ),
)
# What must hold is measured longest.
QUICK = Size(
    runs=10,
    joins=(
        Joins(kind=Kind(window=8_192), every_second=(512, 4_096), worked_s=2.1, repetitions=2),
        Joins(kind=Kind(window=16_384), every_second=(512,), worked_s=2.1, repetitions=2),
        Joins(kind=Kind(window=32_768), every_second=(512, 4_096), worked_s=2.1, repetitions=4),
        Joins(kind=Kind(window=32_768), every_second=(), every_ten=(512,), worked_s=_TEN_S, repetitions=1),
        Joins(kind=Kind(window=65_536), every_second=(512,), worked_s=2.1, repetitions=2),
        Joins(kind=Kind(window=131_072), every_second=(512, 4_096), worked_s=2.1, repetitions=2),
        Joins(kind=BY_KEY, every_second=(64, 256), worked_s=2.1, repetitions=2),
        Joins(kind=BY_KEY, every_second=(), every_ten=(64,), worked_s=_TEN_S, repetitions=1),
    ),
)


def reproduce(*, parts: Collection[str] = PARTS, quick: bool, seed: int, tell: Tell) -> Reproduction:
    """Run some parts of the experiments, shorter if ``quick``; nothing is written yet."""
    return reproduce_in(QUICK if quick else FULL, parts=parts, seed=seed, tell=tell, quick=quick)


def reproduce_in(size: Size, *, parts: Collection[str], seed: int, tell: Tell, quick: bool = True) -> Reproduction:
    """The same, of any size."""
    records = Reproduction(paper="spade", settings={"quick": quick, "seed": seed})
    if "crashes" in parts:
        records.settings["runs"] = size.runs
        _crashes(records, size, seed=seed, tell=tell)
        records.checks += judge_crashes(records.tables["scenarios"], records.tables["crashes"])
    if "joins" in parts:
        _joins(records, size, seed=seed, tell=tell)
        records.checks += judge_joins(records.tables["joins"])
    return records


# -- crashes ----------------------------------------------------------------------------------------------------------


def _crashes(records: Reproduction, size: Size, *, seed: int, tell: Tell) -> None:
    records.published["crashes"] = {"text": published.TEXTS["crashes"]}
    drawn = crashes(size.runs, seed=seed)
    found = []
    for trial in trials(drawn, seed=seed):
        found.append(trial)
        records.add("crashes", trial.as_row())
        tell(
            f"crash {len(found)} of {size.runs}, after {trial.crash.after:,} tuples, down {trial.crash.down_s:.1f} s: "
            f"RMSE {trial.with_checkpoint.rmse:.3f} with a checkpoint, {trial.without.rmse:.3f} without"
        )
    for row in scenario_rows(found):
        records.add("scenarios", row)
    # The curves are of one run, as in the seed: that whose crash is nearest to the middle.
    middle = sorted(found, key=lambda trial: trial.crash.after)[len(found) // 2]
    records.settings["figure_7_run"] = middle.crash.run
    for scenario, compared in (("S2", middle.with_checkpoint), ("S3", middle.without)):
        for row in _curve(scenario, compared):
            records.add("figure_7", row)


def scenario_rows(found: list[Trial]) -> list[Row]:
    """Of each scenario, the RMSE over runs: against the undisturbed run, and against what was measured."""
    rows: list[Row] = []
    of: dict[str, list[Compared]] = {
        "S2": [trial.with_checkpoint for trial in found],
        "S3": [trial.without for trial in found],
    }
    actual = {"S1": [trial.golden_rmse_actual for trial in found]}
    actual |= {scenario: [one.rmse_actual for one in compared] for scenario, compared in of.items()}
    for scenario in ("S1", "S2", "S3"):
        compared = of.get(scenario, [])
        rmse = [one.rmse for one in compared] or [0.0] * len(found)
        differences = [one.differences for one in compared] or [np.zeros(0)]
        rows.append(
            {
                "scenario": scenario,
                "runs": len(found),
                **_interval("rmse", rmse),
                "rmse_pooled": root_mean_square(np.concatenate(differences)),
                "largest": max((one.largest for one in compared), default=0.0),
                **_interval("rmse_actual", actual[scenario]),
                "paper_rmse": published.RMSE[scenario],
                "paper_largest": published.LARGEST[scenario],
            }
        )
    return rows


def _interval(name: str, samples: list[float]) -> Row:
    """A mean and its 95 % interval; of a single sample, that alone."""
    if len(samples) < 2:
        return {name: samples[0], f"{name}_low": samples[0], f"{name}_high": samples[0]}
    known = estimate(name, samples, level=_LEVEL)
    return {
        name: known.mean,
        f"{name}_low": known.mean - known.half_width,
        f"{name}_high": known.mean + known.half_width,
    }


def _curve(scenario: str, compared: Compared) -> list[Row]:
    """The distribution of differences, as far as it goes."""
    shares = np.linspace(0.0, 1.0, _POINTS + 1)
    errors = np.quantile(abs(compared.differences), shares)
    return [
        {"scenario": scenario, "error": float(error), "share": float(share)}
        for error, share in zip(errors, shares, strict=True)
    ]


# -- joins ------------------------------------------------------------------------------------------------------------


def _joins(records: Reproduction, size: Size, *, seed: int, tell: Tell) -> None:
    for name in ("table_1", "figure_8", "figure_9", "figure_10"):
        records.published[name] = {"text": published.TEXTS[name]}
    known: set[tuple[Kind, Setting]] = set()
    for joins in size.joins:
        kind = joins.kind
        for cost in costs(
            kind, joins.settings, worked_s=joins.worked_s, repetitions=joins.repetitions, seed=seed, tell=tell
        ):
            if (kind, cost.setting) in known:
                continue  # of one join that is measured twice, those without checkpoints are told once
            known.add((kind, cost.setting))
            row = cost.as_row()
            records.add("joins", row)
            if cost.setting.control:
                tell(f"  {cost.setting.name}: {abs(1 - row['ratio']):.2%} apart, by chance")
            elif cost.setting.interval_s is None:
                rates = published.IO_RATES_BY_KEY if kind.by_key else published.IO_RATES[kind.window]
                told = {name: row[name] for name in ("join", "window", "by_key", "input_per_s", "output_per_s")}
                records.add("table_1", told | {"paper_input_per_s": rates[0], "paper_output_per_s": rates[1]})
                tell(f"  {row['input_per_s']:,.0f} tuples/s in and {row['output_per_s']:,.0f} out without checkpoints")
            else:
                tell(
                    f"  {cost.setting.name}: {1 - row['ratio']:.2%} less ({1 - row['ratio_high']:.2%} to "
                    f"{1 - row['ratio_low']:.2%}), {cost.checkpoints} checkpoints of "
                    f"{row['checkpoint_bytes'] / 1024:,.0f} KiB"
                )
