"""What to do about each operator, in plain words, from its metrics.

The rules, in order; the first that fits decides. *Down* is the longest outage tried, rounded up to whole sections,
and one section more for the one in which the fault starts. *Worst* is the largest Ilq of all targets at this rate.

    no section is wrong                                             nothing needed      level 0
    wrong no longer than the operator is down                       restart is enough   level 1
    Ilq less than a twentieth of the worst                          restart is enough   level 1
    Ilq at least half of the worst                                  protect first       level 4
    the effect is much the same wherever the fault strikes          recover fast        level 2
    otherwise                                                       protect next        level 3

*Much the same*: the analysis of variance accepts one mean for all offsets, or they differ by so little that it does not
matter (σ at most a tenth of the golden score): repetitions that vary hardly at all let it reject any difference.

*Restart is enough*: what is lost is lost while it is down, and little has to heal after it. *Recover fast*: the output
is wrong for longer than that, but alike wherever the fault strikes, so a bound on the outage bounds the effect.
*Protect next*: less than half as bad as the worst, but what a fault does cannot be foretold. These put sections 5.2 and
6.4 of 000_220a5ca218124795 into rules; applied to its table 2 they choose what its authors chose, replicas for
TradeFilter and VWAP, and a plain restart for QuoteFilter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spillway.records.campaign_rows import CampaignDeclaration, MetricsRow

WORST_SHARE = 0.5
SMALL_SHARE = 0.05
SIGMA_SMALL = 0.1

LEVELS = ("nothing needed", "restart is enough", "recover fast", "protect next", "protect first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do about one target, and why."""

    target: str
    level: int  # into LEVELS; higher is more urgent
    why: str

    @property
    def words(self) -> str:
        return LEVELS[self.level]


def verdicts(rows: Sequence[MetricsRow], declaration: CampaignDeclaration) -> list[Verdict]:
    """One verdict for each row, in their order; the rows are of one rate and one plan."""
    worst = max((row.ilq for row in rows), default=0.0)
    return [_verdict(row, worst, declaration) for row in rows]


def _verdict(row: MetricsRow, worst: float, declaration: CampaignDeclaration) -> Verdict:
    level = _level(row, worst, down=1 + math.ceil(row.outage_s / declaration.section_s(row.rate)))
    return Verdict(target=row.target, level=level, why=_why(row, level, worst, declaration))


def _level(row: MetricsRow, worst: float, *, down: int) -> int:
    if row.rlq_sections == 0:
        return 0
    if row.rlq_sections <= down or row.ilq < SMALL_SHARE * worst:
        return 1
    if row.ilq >= WORST_SHARE * worst:
        return 4
    return 2 if _same_everywhere(row) else 3


def _same_everywhere(row: MetricsRow) -> bool:
    return row.anova_accepted is True or (row.sigma is not None and row.sigma <= SIGMA_SMALL)


def _why(row: MetricsRow, level: int, worst: float, declaration: CampaignDeclaration) -> str:
    down = f"a {row.outage_s:g} s outage"
    if level == 0:
        why = f"After {down} no section of the output is off by more than {declaration.threshold:.0%}."
        if row.ks_sections and not row.ks_rejected:
            why += " The score does not feel its faults at all: make sure that it is the right score."
        return why
    if level == 1 and row.ilq < SMALL_SHARE * worst:
        why = f"The output is hardly wrong after {down}: {row.ilq / worst:.1%} of the worst Ilq."
    elif level == 1:
        why = f"The output is wrong only while it is down ({row.rlq_s:,.0f} s for {down})."
    elif row.ilq == worst:
        why = f"The output stays wrong for {row.rlq_s:,.0f} s after {down}, and further off than for any other target."
    else:
        why = f"The output stays wrong for {row.rlq_s:,.0f} s after {down}; {row.ilq / worst:.0%} of the worst Ilq."
    why += f" It is {_direction(row.qs)} there."
    if row.coq is not None and abs(row.coq) >= 0.9:
        why += " The longer the outage, the worse: each second saved helps." if level > 1 else ""
    if row.sigma is not None and not _same_everywhere(row):
        why += f" How bad it is depends on the data hit (σ {row.sigma:.2f}), so it cannot be foretold."
    return why


def _direction(qs: float) -> str:
    if abs(qs - 1) < 0.005:
        return "right on the whole, too high here and too low there,"
    return f"{abs(qs - 1):.0%} too {'high' if qs > 1 else 'low'}"
