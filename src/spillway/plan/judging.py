"""The model as judge of the best few plans: hours of crashes instead of one fault at a time.

Every operator is laid out as the technique of its protection would lay it out (``model.protections.mixture``). Crashes
come at random, to all operators alike, and those that come while something is still behind from the last one are felt,
which no trial of a single fault shows. A plan *holds* if no more of the output than the wish for quality allows is
tainted or lost over all of those hours, the worst of the interval taken. Of the plan chosen and the next ones on the
frontier the cheapest is taken that holds. Plans with replicas have no such net: nothing is said against them.
"""

from dataclasses import replace
from functools import partial

from spillway.errors import ModelError
from spillway.model.faults import Faults
from spillway.model.from_graph import flow_of
from spillway.model.protections import Around, Mixture, technique_of
from spillway.model.simulating import QUICK_RULE, Setting, run_setting
from spillway.parallel.pool import Pool
from spillway.plan.evidence import Evidence
from spillway.plan.planning import Plan, Weighed, with_chosen
from spillway.plan.problem import EVEN, Chosen
from spillway.records.plan import JudgedRow
from spillway.san.intervals import Precision

HORIZON_S = 7200.0
CANDIDATES_MAX = 3
"""The best few plans: the one chosen, and the next ones on the frontier."""


def heeded(
    evidence: Evidence,
    weighed: Weighed,
    plan: Plan,
    *,
    pool: Pool,
    horizon_s: float = HORIZON_S,
    precision: Precision = QUICK_RULE,
) -> tuple[Plan, tuple[JudgedRow, ...]]:
    """The plan with the cheapest of the best few chosen that holds, or as it was if none does; and what was said."""
    judge = partial(judged_by_model, evidence, weighed, pool=pool, horizon_s=horizon_s, precision=precision)
    problem, wishes = weighed.problem, weighed.asked.wishes
    cost = problem.cost(plan.chosen)
    dearer = [point.plan for point in plan.frontier if point.cost > cost + EVEN and problem.meets(point.plan, wishes)]
    refused: list[JudgedRow] = []
    said: list[JudgedRow | None] = []
    for chosen in (plan.chosen, *dearer)[:CANDIDATES_MAX]:
        row = judge("chosen", chosen)
        if row is None or row.holds is not False:
            found = with_chosen(problem, wishes, plan, chosen)
            said = [row]
            break
        refused.append(row)
    else:
        found, said = plan, [refused.pop(0)]
    if plan.frontier[0].cost == 0:
        said.insert(0, judge("unprotected", plan.frontier[0].plan))
    if found.cheaper is not None and not refused and found.cheaper.cost:
        said.insert(-1, judge("cheaper", found.cheaper.plan))
    if found.dearer is not None:
        said.append(judge("dearer", found.dearer.plan))
    rows = [row for row in said if row is not None] + [replace(row, plan="refused") for row in refused]
    return found, tuple(sorted(rows, key=lambda row: row.cost))


def judged_by_model(
    evidence: Evidence,
    weighed: Weighed,
    name: str,
    plan: Chosen,
    *,
    pool: Pool,
    horizon_s: float,
    precision: Precision,
) -> JudgedRow | None:
    """What hours under a plan come to, on average of many runs; nothing of one with replicas."""
    asked = weighed.asked
    flow = flow_of(evidence.checked, evidence.profile(batch_s=asked.batch_s), tuples_per_s=evidence.rate[1])
    around = Around(flow=flow, batch_s=asked.batch_s, takeover_s=asked.takeover_s)
    faults = Faults(
        crash_rate=asked.crash_rate,
        recovery_s=asked.restart_s,
        together=asked.together,
        spared=(*evidence.checked.sources, *evidence.checked.exits),
    )
    options = weighed.options(plan)
    technique = Mixture(parts={each: technique_of(option.protection, around) for each, option in options.items()})
    try:
        technique.layout(flow)
    except ModelError:
        return None  # it runs copies
    setting = Setting(configuration=name, flow=flow, technique=technique, faults=faults, horizon_s=horizon_s)
    measures = run_setting(setting, seed=evidence.campaign.seed, precision=precision, pool=pool).measures
    tainted, lost = measures["tainted_share"], measures["lost"]
    came = evidence.rate[1] * horizon_s
    worst = tainted.mean + tainted.half_width + (lost.mean + lost.half_width) / came
    quality = asked.wishes.quality
    return JudgedRow(
        plan=name,
        cost=weighed.problem.cost(plan),
        availability=measures["availability"].mean,
        availability_half_width=measures["availability"].half_width,
        tainted_share=tainted.mean,
        lost_per_hour=lost.mean * 3600 / horizon_s,
        delayed_per_hour=measures["delayed"].mean * 3600 / horizon_s,
        holds=None if quality is None else worst <= 1 - quality + EVEN,
    )
