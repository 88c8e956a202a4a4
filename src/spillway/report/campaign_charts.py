"""A campaign's figures as charts: quality against outage length, against offset, and over time after a fault."""

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import AffectedKey, MetricsRow, TrialRow
from spillway.report.charts import Group, Mark, Series, bar_chart, line_chart
from spillway.report.panels import Control, panels
from spillway.score.evaluation import golden_matrix, local_curve

Floats = npt.NDArray[np.float64]

_POINTS_MAX = 160  # of one line over time
_WIDTH = 560  # pixels: text is still readable when a phone makes it narrower
_BEFORE = 3  # sections shown before the fault


class CampaignCharts:
    """The charts of one campaign; trials are looked up once."""

    def __init__(self, records: CampaignRecords) -> None:
        self._records = records
        self._declared = records.declaration
        self._offsets = tuple(sorted(self._declared.offsets_seq))
        self._outages = tuple(sorted(self._declared.outages_s))
        self._rates = tuple(sorted(self._declared.rates, key=lambda name: -self._declared.rates[name]))
        self._cells: dict[tuple[str, str, int, float], list[TrialRow]] = {}
        for trial in records.trials:
            if not trial.plan:
                key = (trial.target, trial.rate, trial.offset_seq, trial.outage_s)
                self._cells.setdefault(key, []).append(trial)
        self._golden_osf = {row.key: float(np.mean(row.golden_osf)) for row in records.affected}

    def by_outage(self) -> str:
        """QS against outage length, one line for each target; rate and offset to choose."""
        offsets = ("all, mean and range", *(f"{offset:,}" for offset in self._offsets))
        controls = [self._rate_control(), Control(name="offset", label="Offset", options=offsets)]
        bodies: dict[tuple[int, ...], str] = {}
        for (r, rate), (o, where) in product(enumerate(self._rates), enumerate((None, *self._offsets))):
            series = [
                self._line(target, [(outage, self._qs(target, rate, where, outage)) for outage in self._outages])
                for target in self._declared.targets
            ]
            told = "at all offsets" if where is None else f"at offset {where:,}"
            bodies[r, o] = line_chart(
                series,
                title=f"{rate.capitalize()} rate, {told}",
                x_label="outage (s)",
                y_label="quality score",
                log_x=len(self._outages) > 2 and min(self._outages) > 0,
                marks=[Mark(label="no effect", y=1.0)],
                width=_WIDTH,
            )
        return panels(controls, bodies)

    def by_offset(self) -> str:
        """QS against offset, one line for each target; rate and outage to choose."""
        longest = len(self._outages) - 1
        outages = tuple(f"{outage:g} s" for outage in self._outages)
        controls = [
            self._rate_control(),
            Control(name="outage", label="Outage", options=outages, chosen=longest),
        ]
        bodies: dict[tuple[int, ...], str] = {}
        for (r, rate), (o, outage) in product(enumerate(self._rates), enumerate(self._outages)):
            series = [
                self._line(target, [(offset, self._qs(target, rate, offset, outage)) for offset in self._offsets])
                for target in self._declared.targets
            ]
            bodies[r, o] = line_chart(
                series,
                title=f"{rate.capitalize()} rate, {outage:g} s outage",
                x_label="offset (tuples of the source)",
                y_label="quality score",
                marks=[Mark(label="no effect", y=1.0)],
                width=_WIDTH,
            )
        return panels(controls, bodies)

    def over_time(self, worst: str) -> str:
        """Local QS after a fault, one line for each outage, with Rlq; operator, rate and offset to choose."""
        targets = self._declared.targets
        controls = [
            Control(name="operator", label="Operator", options=targets, chosen=targets.index(worst)),
            self._rate_control(),
            Control(name="offset", label="Offset", options=tuple(f"{offset:,}" for offset in self._offsets)),
        ]
        golden = golden_matrix(self._records)
        bodies: dict[tuple[int, ...], str] = {}
        for (t, target), (r, rate), (o, offset) in product(
            enumerate(targets), enumerate(self._rates), enumerate(self._offsets)
        ):
            bodies[t, r, o] = self._local_chart(target, rate, offset, golden)
        return panels(controls, bodies)

    def _local_chart(self, target: str, rate: str, offset: int, golden: Floats) -> str:
        declared = self._declared
        section_s = declared.section_s(rate)
        numbers = [row.repetition for row in self._records.golden]
        series, marks, shown = [], [], 0
        curves = {
            outage: local_curve(trials, golden, numbers, threshold=declared.threshold, percentile=declared.percentile)
            for outage in self._outages
            if (trials := self._cells.get((target, rate, offset, outage)))
        }
        for curve in curves.values():
            shown = max(shown, curve.until + 4, round(1.15 * curve.impact.rlq))
        for outage, curve in curves.items():
            quality = _ratio(curve.faulty[:shown], curve.golden[:shown])
            before = min(_BEFORE, curve.section_first)
            points = [(-(i + 1) * section_s, 1.0) for i in reversed(range(before))]
            points += [(u * section_s, float(value)) for u, value in enumerate(quality)]
            series.append(Series(f"{outage:g} s outage", _thinned(points)))
            if outage == declared.outage_max_s:
                impact = curve.impact
                told = f"Rlq {impact.rlq * section_s:,.0f} s, Ilq {impact.ilq:.3g}"
                marks.append(Mark(label=told, x=impact.rlq * section_s))
        marks.append(Mark(label=f"±{declared.threshold:.0%}", y=1 + declared.threshold))
        marks.append(Mark(label="", y=1 - declared.threshold))
        return line_chart(
            series,
            title=f"{target}: {rate} rate, fault at {offset:,}",
            x_label="seconds since the fault began",
            y_label="local quality score",
            marks=marks,
            width=_WIDTH,
        )

    def _rate_control(self) -> Control:
        return Control(name="rate", label="Rate", options=self._rates)

    def _qs(self, target: str, rate: str, offset: int | None, outage: float) -> list[float]:
        """Quality scores: of each repetition at one offset, or of each offset."""
        if offset is None:
            every = [self._qs(target, rate, one, outage) for one in self._offsets]
            return [float(np.mean(scores)) for scores in every if scores]
        golden = self._golden_osf.get(AffectedKey("", target, rate, offset), 0.0)
        trials = self._cells.get((target, rate, offset, outage), [])
        return [trial.osf / golden for trial in trials] if golden else []

    @staticmethod
    def _line(target: str, scores: Sequence[tuple[float, list[float]]]) -> Series:
        known = [(x, values) for x, values in scores if values]
        return Series(
            target,
            [(x, float(np.mean(values))) for x, values in known],
            [(min(values), max(values)) for _, values in known],
        )


def bought(rows: Sequence[MetricsRow], after: Sequence[MetricsRow], plan: str) -> str:
    """What a reconfiguration buys: Ilq and Rlq of each target, without it and with it."""
    with_plan = {row.target: row for row in after}
    pairs = [(row, with_plan[row.target]) for row in rows if row.target in with_plan]
    ilq = [Group(row.target, [("as it is", row.ilq), (plan, other.ilq)]) for row, other in pairs]
    rlq = [Group(row.target, [("as it is", row.rlq_s), (plan, other.rlq_s)]) for row, other in pairs]
    left = bar_chart(ilq, title="Quality impact (Ilq)", y_label="Ilq", width=_WIDTH, height=300)
    right = bar_chart(rlq, title="Recovery time (Rlq)", y_label="seconds", width=_WIDTH, height=300)
    return f'<div class="pair">{left}{right}</div>'


def _ratio(faulty: Floats, golden: Floats) -> Floats:
    """Local quality scores: 1 where both have no output; no value where only the golden score is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(golden == 0, np.where(faulty == 0, 1.0, np.nan), faulty / golden)
    return np.asarray(found, dtype=np.float64)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points that a line keeps its looks: of each bucket, the one furthest from 1."""
    if len(points) <= _POINTS_MAX:
        return points
    ends = np.linspace(0, len(points), _POINTS_MAX + 1).astype(int)
    buckets = [points[start:end] for start, end in pairwise(ends)]
    return [max(bucket, key=lambda point: abs(point[1] - 1)) for bucket in buckets if bucket]
