"""Settings simulated, one after the other, under one replication rule."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from spillway.model.faults import Faults
from spillway.model.flow import Flow
from spillway.model.protections import Technique
from spillway.model.stream_net import build
from spillway.parallel.pool import Pool
from spillway.records.model import MEASURES, POINTS_SCHEMA
from spillway.san.intervals import Estimate, Precision
from spillway.san.replications import simulate

HORIZON_S = 7200.0

PAPER_RULE = Precision(
    relative=0.1, level=0.95, replications_min=1000, replications_max=20_000, replications_round=1000
)
"""At least 1000 runs, until every measure is known at a level of 95 % (seed 001, 5.6.4); to a tenth, which its tool
takes unless told otherwise."""

QUICK_RULE = Precision(relative=1.0, level=0.95, replications_min=200, replications_max=200)
"""Two hundred runs, whatever comes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of an experiment: what is simulated."""

    configuration: str
    flow: Flow
    technique: Technique
    faults: Faults
    horizon_s: float = HORIZON_S
    crashed: str = ""  # the operator that crashes, if it is one alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A setting and what its simulation found."""

    setting: Setting
    measures: Mapping[str, Estimate]
    replications: int
    precise: bool
    copies: int
    events: int
    skipped: int  # tuples from outside that were not simulated one by one
    jumps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """An experiment's points, in the order of its settings."""

    experiment: str
    seed: int
    points: tuple[Point, ...] = field(repr=False)

    def table(self) -> pa.Table:
        """One row per point: parameters, then mean and half width of every measure."""
        return pa.Table.from_pylist([_row(self.experiment, point) for point in self.points], schema=POINTS_SCHEMA)


Progress = Callable[[int, int, Setting], None]
"""Called before each setting: how many are done, of how many, and which comes."""


def run_settings(
    name: str,
    settings: Sequence[Setting],
    *,
    seed: int,
    precision: Precision = PAPER_RULE,
    pool: Pool | None = None,
    progress: Progress = lambda done, of, setting: None,
) -> Result:
    """Simulate every setting."""
    points = []
    for done, setting in enumerate(settings):
        progress(done, len(settings), setting)
        points.append(run_setting(setting, seed=seed, precision=precision, pool=pool))
    return Result(experiment=name, seed=seed, points=tuple(points))


def run_setting(setting: Setting, *, seed: int, precision: Precision = PAPER_RULE, pool: Pool | None = None) -> Point:
    """Simulate one setting. All settings of a seed share its random streams, which steadies their differences."""
    stream = build(setting.flow, setting.technique, setting.faults)
    measures = [*stream.measures(horizon_s=setting.horizon_s), stream.invariant(horizon_s=setting.horizon_s)]
    found = simulate(stream.net, measures, seed=seed, precision=precision, pool=pool)
    assert found["invariant"].mean > 1 - 1e-9, f"{setting.configuration}: its invariant was broken (seed {seed})"
    return Point(
        setting=setting,
        measures=found.estimates,
        replications=found.replications,
        precise=found.precise,
        copies=stream.copies,
        events=found.events,
        skipped=found.skipped,
        jumps=found.jumps,
    )


def _row(experiment: str, point: Point) -> dict[str, object]:
    setting = point.setting
    row: dict[str, object] = {
        "experiment": experiment,
        "configuration": setting.configuration,
        "crashed": setting.crashed,
        "tuples_per_s": setting.flow.tuples_per_s,
        "crash_rate": setting.faults.crash_rate,
        "recovery_s": setting.faults.recovery_s,
        "corruption_rate": setting.faults.corruption_rate,
        "horizon_s": setting.horizon_s,
        "copies": point.copies,
        "replications": point.replications,
        "precise": point.precise,
        "events": point.events,
        "skipped": point.skipped,
        "jumps": point.jumps,
    }
    for name in MEASURES:
        row[name] = point.measures[name].mean
        row[f"{name}_half_width"] = point.measures[name].half_width
    return row
