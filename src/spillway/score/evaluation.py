"""The metrics of a whole campaign, from its records alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spillway.errors import InputError
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import AffectedKey, AffectedRow, MetricsRow, TrialRow
from spillway.score.local import LocalImpact, local_errors, local_impact
from spillway.score.quality import outage_impact, quality_score
from spillway.score.significance import Sensitivity, data_dependency, sensitivity

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCurve:
    """Mean local scores of one fault and of the golden runs, from the section in which the fault started to the end."""

    section_first: int
    faulty: Floats
    golden: Floats
    until: int  # sections from the first one to where all repetitions had rejoined
    impact: LocalImpact


def evaluate(records: CampaignRecords) -> tuple[MetricsRow, ...]:
    """One row for each plan, target and rate whose trials are all there; by plan, then target as declared, then rate.

    Coq is over all outages, Doq, Rlq and Ilq are at the longest, as section 6.3 of 000_220a5ca218124795 tells them.
    The sensitivity test covers the sections up to where a trial rejoined its golden run: those after are equal.
    """
    declared = records.declaration
    golden = golden_matrix(records)
    affected = {row.key: row for row in records.affected}
    cells: dict[tuple[str, str, str], dict[tuple[int, float], list[TrialRow]]] = {}
    for trial in records.trials:
        cell = cells.setdefault((trial.plan, trial.target, trial.rate), {})
        cell.setdefault((trial.offset_seq, trial.outage_s), []).append(trial)
    place = {target: i for i, target in enumerate(declared.targets)}
    return tuple(
        _metrics(records, by_cell, golden, affected, plan=plan, target=target, rate=rate)
        for (plan, target, rate), by_cell in sorted(
            cells.items(), key=lambda item: (item[0][0], place.get(item[0][1], len(place)), item[0][2])
        )
        if _complete(records, by_cell, plan)
    )


def golden_matrix(records: CampaignRecords) -> Floats:
    """Local scores of the golden runs, one row for each, by number."""
    lengths = {len(row.local_osf) for row in records.golden}
    if len(lengths) > 1:
        raise InputError(f"Golden runs of one campaign have equally many sections; these have {sorted(lengths)}.")
    return np.array([row.local_osf for row in records.golden], dtype=np.float64)  # (golden runs, sections)


def local_curve(
    trials: Sequence[TrialRow], golden: Floats, golden_numbers: Sequence[int], *, threshold: float, percentile: float
) -> LocalCurve:
    """The repetitions of one fault, averaged section by section, beside the average of all golden runs."""
    runs, until = trial_matrix(trials, golden, golden_numbers)
    first = trials[0].section_first
    faulty, right = runs.mean(axis=0), golden[:, first:].mean(axis=0)
    impact = local_impact(local_errors(faulty, right), threshold=threshold, percentile=percentile)
    return LocalCurve(section_first=first, faulty=faulty, golden=right, until=until, impact=impact)


def trial_matrix(trials: Sequence[TrialRow], golden: Floats, golden_numbers: Sequence[int]) -> tuple[Floats, int]:
    """Local scores of repetitions, one row for each, from the fault to the end, and how many sections they differ in.

    After the section in which a trial rejoined, its scores are those of its golden run.
    """
    first = trials[0].section_first
    place = {number: row for row, number in enumerate(golden_numbers)}
    rows = []
    for trial in trials:
        if trial.section_first != first or trial.golden not in place:
            raise InputError(
                f"Trial {tuple(trial.key)} starts in another section than the others, or has no golden run."
            )
        if first + len(trial.local_osf) > golden.shape[1]:
            raise InputError(f"Trial {tuple(trial.key)} has more sections than the golden runs ({golden.shape[1]}).")
        row = golden[place[trial.golden], first:].copy()
        row[: len(trial.local_osf)] = trial.local_osf
        rows.append(row)
    return np.array(rows), max(len(trial.local_osf) for trial in trials)


def _complete(records: CampaignRecords, cells: dict[tuple[int, float], list[TrialRow]], plan: str) -> bool:
    """Whether every trial that was declared is there; under a plan, the longest outage is enough."""
    declared = records.declaration
    outages = (declared.outage_max_s,) if plan else declared.outages_s
    return len(records.golden) == declared.golden_repetitions and all(
        len(cells.get((offset, outage), ())) == declared.repetitions
        for offset in declared.offsets_seq
        for outage in outages
    )


def _metrics(
    records: CampaignRecords,
    cells: dict[tuple[int, float], list[TrialRow]],
    golden: Floats,
    affected: dict[AffectedKey, AffectedRow],
    *,
    plan: str,
    target: str,
    rate: str,
) -> MetricsRow:
    declared = records.declaration
    longest = declared.outage_max_s
    offsets = sorted(declared.offsets_seq)
    outages = sorted({outage for _, outage in cells if all((offset, outage) in cells for offset in offsets)})
    golden_osf = {offset: _golden_osf(affected, AffectedKey(plan, target, rate, offset)) for offset in offsets}

    def scores(offset: int, outage: float) -> list[float]:
        return [trial.osf for trial in cells[offset, outage]]

    def score_of(offset: int, outage: float) -> float:
        return quality_score(
            scores(offset, outage), golden_osf[offset], of=f"the section that {target!r} affects at offset {offset:,}"
        )

    qs = np.array([[score_of(offset, outage) for outage in outages] for offset in offsets])  # (offsets, outages)
    at_longest = qs[:, outages.index(longest)]
    groups = [[osf / float(np.mean(golden_osf[offset])) for osf in scores(offset, longest)] for offset in offsets]
    dependency = data_dependency(groups, alpha=declared.alpha) if len(offsets) > 1 else None
    numbers = [row.repetition for row in records.golden]
    impacts = [
        local_curve(
            cells[offset, longest], golden, numbers, threshold=declared.threshold, percentile=declared.percentile
        ).impact
        for offset in offsets
    ]
    felt = _felt([cells[offset, longest] for offset in offsets], golden, numbers, alpha=declared.alpha)
    rlq = max(impact.rlq for impact in impacts)
    return MetricsRow(
        plan=plan,
        target=target,
        rate=rate,
        outage_s=longest,
        qs=float(at_longest.mean()),
        coq=outage_impact(outages, qs).coq if len(outages) > 1 else None,
        sigma=dependency.sigma if dependency else None,
        anova_p=dependency.anova_p if dependency else None,
        anova_accepted=dependency.accepted if dependency else None,
        rlq_sections=rlq,
        rlq_s=rlq * declared.section_s(rate),
        ilq=max(impact.ilq for impact in impacts),
        ks_sections=sum(found.sections for found in felt),
        ks_rejected=sum(found.rejected for found in felt),
    )


def _golden_osf(affected: dict[AffectedKey, AffectedRow], key: AffectedKey) -> tuple[float, ...]:
    if key not in affected:
        raise InputError(f"The records hold trials of {tuple(key)} without their affected section.")
    return affected[key].golden_osf


def _felt(
    by_offset: Sequence[list[TrialRow]], golden: Floats, numbers: Sequence[int], *, alpha: float
) -> list[Sensitivity]:
    """The sensitivity test of each offset at which there is anything to test."""
    found = []
    for trials in by_offset:
        runs, until = trial_matrix(trials, golden, numbers)
        if until and len(golden) > 1 and len(trials) > 1:
            first = trials[0].section_first
            found.append(sensitivity(golden[:, first : first + until], runs[:, :until], alpha=alpha))
    return found
