"""A plan told in plain words: what each operator gets and why, what it costs, and what more money would buy."""

from collections.abc import Mapping

import numpy as np

from spillway.plan.evidence import Evidence
from spillway.plan.planning import Plan, Weighed, spelled
from spillway.plan.problem import EVEN, Chosen, Option, Wishes
from spillway.records.plan import OperatorRow, PlanRows, PointRow


def rows_of(evidence: Evidence, weighed: Weighed, plan: Plan, *, seconds: float) -> PlanRows:
    """What people are told of a plan."""
    problem, wishes = weighed.problem, weighed.asked.wishes
    quality = problem.quality(plan.chosen, wishes.percentile)
    return PlanRows(
        wishes=_wished(wishes),
        met=problem.meets(plan.chosen, wishes),
        quality=_shown(quality),
        cost=problem.cost(plan.chosen),
        cost_of_losing_nothing=plan.losing_nothing,
        cost_of_everything=plan.everything,
        cost_of_one_for_all=plan.one_for_all,
        written_bytes_per_hour=problem.written_bytes_per_s(plan.chosen) * 3600,
        back_s=problem.back_s(plan.chosen),
        next=_next(weighed, plan, quality),
        operators=tuple(
            _operator(evidence, weighed, name, option) for name, option in weighed.options(plan.chosen).items()
        ),
        frontier=tuple(
            PointRow(
                cost=point.cost,
                quality=_shown(point.quality),
                protected=_protected(weighed, point.plan),
                chosen=abs(point.cost - problem.cost(plan.chosen)) <= EVEN,
            )
            for point in plan.frontier
        ),
        measured=_measured(evidence, weighed),
        assumed=weighed.assumed,
        seconds=seconds,
    )


def _operator(evidence: Evidence, weighed: Weighed, name: str, option: Option) -> OperatorRow:
    terms = weighed.terms[name, option.name]
    like = evidence.stand_ins[name]
    return OperatorRow(
        operator=name,
        protection=option.name,
        written=spelled(option.protection),
        reason=_reason(evidence, weighed, name, option),
        cost=option.cost,
        cores=terms.cost.cores,
        memory_bytes=terms.cost.memory_bytes,
        written_bytes_per_s=terms.cost.written_bytes_per_s,
        latency_s=terms.cost.latency_s,
        lost_s=terms.effect.lost_s,
        forgets=terms.effect.forgets,
        stale_s=terms.effect.stale_s,
        back_s=terms.effect.back_s,
        lossless=terms.effect.lossless,
        quality_restarted=_shown(1 - max(_restart(weighed, name).impairments)),
        quality=_shown(1 - max(option.impairments)),
        like="" if like == name else like,
    )


def _reason(evidence: Evidence, weighed: Weighed, name: str, option: Option) -> str:
    wishes, plain = weighed.asked.wishes, _restart(weighed, name)
    effect = weighed.terms[name, plain.name].effect
    worst, wrong_s = _shown(1 - max(plain.impairments)), weighed.left.wrong_s(name, effect)
    forgot = ", without all it kept" if effect.forgets else ""
    if name not in evidence.reaching:
        trace = f"nothing it puts out reaches {evidence.campaign.sink}"
    elif wrong_s:
        trace = f"the output is wrong for {wrong_s:,.0f} s, and quality {worst:.3f} is left at worst"
    else:
        trace = "no section of the output is clearly wrong"
    if option is not plain:
        return f"After a restart{forgot}, {trace}{_forbidden(weighed, name, plain)}. {_bought(weighed, name, option)}"
    asked = wishes.quality
    low = 0.0 if asked is None else float(np.mean(1 - np.array(plain.impairments) < asked - EVEN))
    if low:
        return (
            f"After a restart{forgot}, {trace}. That is below the wish after {low:.0%} of its faults, and so it may be "
            f"after {1 - wishes.percentile:.0%} of all."
        )
    return f"A restart is enough: {trace}."


def _forbidden(weighed: Weighed, name: str, plain: Option) -> str:
    """Which other wish a restart would not meet."""
    wishes, choices = weighed.asked.wishes, weighed.problem.operators[weighed.problem.place(name)]
    if wishes.lossless is not None and choices.watched and not plain.lossless:
        return f", and nothing may be lost of what reaches {wishes.lossless}"
    if wishes.back_within_s is not None and plain.back_s > wishes.back_within_s + EVEN:
        return f", and it takes {plain.back_s:g} s"
    return ""


def _bought(weighed: Weighed, name: str, option: Option) -> str:
    effect = weighed.terms[name, option.name].effect
    if effect.lossless:
        return f"This way nothing is lost, and it is back in {effect.back_s:,.3g} s."
    if effect.stale_s:
        return (
            f"This way it lacks the last {effect.stale_s:,.3g} s at most of what it keeps and nothing of its input, "
            f"quality {_shown(1 - max(option.impairments)):.3f} is left at worst, and it is back in "
            f"{effect.back_s:,.3g} s."
        )
    return (
        f"This way {effect.lost_s:,.3g} s of its input are lost at most, quality "
        f"{_shown(1 - max(option.impairments)):.3f} is left at worst, and it is back in {effect.back_s:,.3g} s."
    )


def _restart(weighed: Weighed, name: str) -> Option:
    """The option that costs nothing: what an operator is left with when it is not protected."""
    options = weighed.problem.operators[weighed.problem.place(name)].options
    return min(options, key=lambda option: (option.cost, -max(option.impairments)))


def _protected(weighed: Weighed, plan: Chosen) -> Mapping[str, str]:
    return {
        name: option.name for name, option in weighed.options(plan).items() if option is not _restart(weighed, name)
    }


def _next(weighed: Weighed, plan: Plan, quality: float) -> str:
    if plan.dearer is None:
        return "No dearer plan leaves a better quality."
    before, after = weighed.options(plan.chosen), weighed.options(plan.dearer.plan)
    changed = [f"{name} by {after[name].name}" for name in after if after[name].name != before[name].name]
    more = plan.dearer.cost - weighed.problem.cost(plan.chosen)
    return (
        f"For {more:.3g} cores more: {', '.join(changed)}, and the quality left is {_shown(plan.dearer.quality):.4f} "
        f"instead of {_shown(quality):.4f}."
    )


def _measured(evidence: Evidence, weighed: Weighed) -> tuple[str, ...]:
    name, rate = evidence.rate
    campaign, costs = evidence.campaign, evidence.costs
    lengths = sorted({terms.effect.lost_s for terms in weighed.terms.values() if terms.effect.lost_s})
    targets = dict.fromkeys(each for each in evidence.stand_ins.values() if each)
    forgetting = [name for (name, _), found in weighed.terms.items() if found.effect.forgets]
    tried = len(campaign.offsets) * campaign.repetitions
    return (
        f"What operators cost, put out, keep and change, at {rate:,.0f} tuples/s ({name}), a backup every "
        f"{weighed.asked.batch_s:g} s.",
        f"Outages of {', '.join(f'{each:g}' for each in lengths)} s at {', '.join(targets)}, each at "
        f"{len(campaign.offsets)} places {campaign.repetitions} times: {tried * len(lengths) * len(targets):,} trials.",
        *(f"The loss of what {each} keeps: {tried:,} trials." for each in dict.fromkeys(forgetting)),
        *(f"What {each} kept {ages} s ago: {tried:,} trials of each." for each, ages in _ages(weighed).items()),
        f"A durable file: {costs.write_core_s * 1e6:,.0f} µs of a core and {costs.write_s * 1e3:,.1f} ms; a megabyte "
        f"{costs.write_core_s_per_byte * 1e9:,.2f} ms of a core; a process {costs.process_bytes / 1e6:,.0f} MB.",
    )


def _ages(weighed: Weighed) -> Mapping[str, str]:
    """How old state was tried to be, by operator, in words."""
    found: dict[str, set[float]] = {}
    for (name, _), terms in weighed.terms.items():
        if terms.effect.stale_s:
            found.setdefault(name, set()).add(terms.effect.stale_s)
    return {name: ", ".join(f"{age:g}" for age in sorted(ages)) for name, ages in found.items()}


def _wished(wishes: Wishes) -> dict[str, object]:
    asked: dict[str, object] = {
        "quality": wishes.quality,
        "percentile": wishes.percentile,
        "bytes_per_hour": wishes.bytes_per_hour,
        "lossless": wishes.lossless,
        "back_within_s": wishes.back_within_s,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _shown(quality: float) -> float:
    """A quality below zero says no more than zero does."""
    return max(quality, 0.0)
