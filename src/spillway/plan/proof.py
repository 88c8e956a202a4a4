"""A plan put to the test by faults that it was not made from: other input, other places in it.

The chosen plan and its neighbours are tried, one cheaper and one dearer, each operator by the faults that its
protection leaves; where nothing is left there is nothing to try. Places are drawn again, with all faults that struck
there, ten thousand times (a bootstrap over places: trials at one place resemble each other), and the quality at the
percentile is told of each draw. A plan *stands* if 95 % of them, the worst fortieth and the best left out, lie at the
wish or above.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from spillway.errors import RunError
from spillway.inject.campaign import AppInput, Campaign
from spillway.inject.running import Observer
from spillway.parallel.pool import Pool
from spillway.plan.evidence import Evidence
from spillway.plan.left import Left, tried
from spillway.plan.planning import Plan, Weighed, candidates
from spillway.plan.problem import EVEN, Choices, Chosen, Option, Problem
from spillway.records.plan import ProofRow
from spillway.seeds import generator

PLACES = 10
DRAWS = 10_000


def proof_campaign(campaign: Campaign) -> Campaign:
    """The campaign of a proof: the input of another seed, if it is made, and places between the first and the last."""
    source, first, last = campaign.input, min(campaign.offsets), max(campaign.offsets)
    if first == last:
        raise RunError(f"Campaign {campaign.name!r} has one offset; a proof wants places between two.")
    if isinstance(source, AppInput) and not source.path:
        source = replace(source, seed=source.seed + 1)
    offsets = tuple(round(first + (last - first) * (place + 0.5) / PLACES) for place in range(PLACES))
    return replace(campaign, name=f"{campaign.name}-proof", input=source, offsets=offsets, seed=campaign.seed + 1)


def prove(
    evidence: Evidence,
    weighed: Weighed,
    plan: Plan,
    *,
    pool: Pool,
    told: Callable[[str], None],
    observe: Observer,
) -> tuple[ProofRow, ...]:
    """What faults do under a plan and its neighbours."""
    campaign = proof_campaign(replace(evidence.campaign, rates=dict([evidence.rate])))
    trial = Evidence(evidence.directory / "proof", campaign, pool=pool, told=told, observe=observe)
    plans = candidates(plan)
    effects = {
        (name, weighed.terms[name, option.name].effect)
        for chosen in plans.values()
        for name, option in weighed.options(chosen).items()
    }
    left = Left(trial, tried(trial, effects), window_s=weighed.asked.window_s)
    return tuple(_row(name, chosen, weighed, left, campaign) for name, chosen in plans.items())


def _row(name: str, plan: Chosen, weighed: Weighed, left: Left, campaign: Campaign) -> ProofRow:
    wishes, problem = weighed.asked.wishes, weighed.problem
    tried = of_chosen(weighed, plan, lambda name, option: left.of(name, weighed.terms[name, option.name].effect))
    measured = tried.quality(_only(tried), wishes.percentile)
    low, high = interval(tried, places=len(campaign.offsets), percentile=wishes.percentile, seed=campaign.seed)
    return ProofRow(
        plan=name,
        cost=problem.cost(plan),
        foretold=max(problem.quality(plan, wishes.percentile), 0.0),
        measured=max(measured, 0.0),
        low=max(low, 0.0),
        high=max(high, 0.0),
        faults=tried.left(_only(tried))[0].size,
        stands=wishes.quality is None or low >= wishes.quality - EVEN,
    )


def interval(problem: Problem, *, places: int, percentile: float, seed: int) -> tuple[float, float]:
    """The 95 % interval of the quality that the first options leave, places drawn again with all that struck there."""
    random = generator(seed, "proof of a plan")
    left, weights = problem.left(_only(problem))
    kinds = left.reshape(-1, places, problem.operators[0].samples // places)  # (operators and hosts, places, trials)
    weighed = weights.reshape(kinds.shape)
    found = np.empty(DRAWS)
    for draw in range(DRAWS):
        drawn = random.integers(places, size=places)
        values, shares = kinds[:, drawn].ravel(), weighed[:, drawn].ravel()
        order = np.argsort(values)
        at = int(np.searchsorted(np.cumsum(shares[order]), percentile - EVEN))
        found[draw] = 1.0 - values[order][min(at, values.size - 1)]
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)


def of_chosen(weighed: Weighed, plan: Chosen, left: Callable[[str, Option], tuple[float, ...]]) -> Problem:
    """The problem of a plan that is chosen already, with what a proof found to be left under each option."""
    operators = tuple(
        Choices(
            operator=choices.operator,
            rate=choices.rate,
            options=(Option(name=option.name, cost=option.cost, impairments=left(choices.operator, option)),),
        )
        for choices, option in zip(weighed.problem.operators, weighed.problem.chosen(plan), strict=True)
    )
    return Problem(operators=operators, together=weighed.problem.together)


def _only(problem: Problem) -> Chosen:
    return (0,) * len(problem.operators)
