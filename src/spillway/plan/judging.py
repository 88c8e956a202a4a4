"""What the model says of a plan and its neighbours: hours of crashes instead of one fault at a time.

Every operator is laid out as the technique of its protection would lay it out (``model.protections.mixture``). Crashes
come at random, to all operators alike, and those that come while something is still behind from the last one are felt,
which no trial of a single fault shows. Plans with replicas have no such net, and are left out.
"""

from collections.abc import Mapping

from spillway.errors import ModelError
from spillway.model.faults import Faults
from spillway.model.from_graph import flow_of
from spillway.model.protections import Around, Mixture, technique_of
from spillway.model.simulating import QUICK_RULE, Setting, run_setting
from spillway.parallel.pool import Pool
from spillway.plan.evidence import Evidence
from spillway.plan.planning import Weighed
from spillway.plan.problem import Chosen
from spillway.records.plan import JudgedRow
from spillway.san.intervals import Precision

HORIZON_S = 7200.0


def judge(
    evidence: Evidence,
    weighed: Weighed,
    plans: Mapping[str, Chosen],
    *,
    pool: Pool,
    horizon_s: float = HORIZON_S,
    precision: Precision = QUICK_RULE,
) -> tuple[JudgedRow, ...]:
    """What hours under each plan come to, on average of many runs; nothing of plans with replicas."""
    asked = weighed.asked
    flow = flow_of(evidence.checked, evidence.profile(batch_s=asked.batch_s), tuples_per_s=evidence.rate[1])
    around = Around(flow=flow, batch_s=asked.batch_s, takeover_s=asked.takeover_s)
    faults = Faults(
        crash_rate=asked.crash_rate,
        recovery_s=asked.restart_s,
        together=asked.together,
        spared=(*evidence.checked.sources, *evidence.checked.exits),
    )
    found = []
    for name, plan in plans.items():
        options = weighed.options(plan)
        technique = Mixture(parts={each: technique_of(option.protection, around) for each, option in options.items()})
        try:
            technique.layout(flow)
        except ModelError:
            continue  # it runs copies
        setting = Setting(configuration=name, flow=flow, technique=technique, faults=faults, horizon_s=horizon_s)
        point = run_setting(setting, seed=evidence.campaign.seed, precision=precision, pool=pool)
        measures = point.measures
        found.append(
            JudgedRow(
                plan=name,
                cost=weighed.problem.cost(plan),
                availability=measures["availability"].mean,
                availability_half_width=measures["availability"].half_width,
                tainted_share=measures["tainted_share"].mean,
                lost_per_hour=measures["lost"].mean * 3600 / horizon_s,
                delayed_per_hour=measures["delayed"].mean * 3600 / horizon_s,
            )
        )
    return tuple(found)
