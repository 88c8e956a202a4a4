"""A plan put to the test by real kills: its jobs run as processes, which are killed with their memory and come back.

The graph is run by the clock at the plan's own rate, every operator a job in a process of its own, as the plan protects
it (``model.validation``, which does the same for the model). In every *round* each operator's process is killed once,
one kill after the other, so far apart that a restart and what follows from it fit in between; it is started again after
the time that a restart takes. What the sink wrote is held against what it is given undisturbed, section by section, and
the errors from one kill to the next are that kill's: what an earlier one left for good counts against the later ones,
too. Rounds are to kills what places are to faults that are tried (``proof.interval``).
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.errors import RunError
from spillway.graph.graph import Graph
from spillway.inject.campaign import AppInput, Campaign
from spillway.model.validation.judging import Batches, read, undisturbed
from spillway.model.validation.ways import READING, WRITING, writing
from spillway.model.validation.world import Terms, World
from spillway.plan.evidence import Evidence
from spillway.plan.planning import Plan, Weighed, as_jobs
from spillway.plan.problem import EVEN, Chosen
from spillway.plan.proof import interval, of_chosen
from spillway.records.plan import ProofRow
from spillway.score import local_errors, local_impact, local_scores
from spillway.seeds import generator
from spillway.state.folders import make_temporary

SETTLED_S = 20.0  # before the first kill: processes begin, windows fill
AFTER_S = 20.0  # from a restart until the next kill
_MARGIN_S = 60.0  # of input behind the last kill: the clock does not stop while all catch up


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """How often, and how far apart."""

    rounds: int  # in each of which every operator is killed once
    settled_s: float = SETTLED_S
    after_s: float = AFTER_S

    def every_s(self, restart_s: float) -> float:
        return restart_s + self.after_s


def prove_by_kills(
    evidence: Evidence, weighed: Weighed, plan: Plan, kills: Kills, *, told: Callable[[str], None]
) -> ProofRow:
    """What is left of the answer when the processes of the chosen plan are killed."""
    asked, campaign = weighed.asked, evidence.campaign
    operators = [name for name in evidence.checked.order if name in evidence.reaching]
    every_s = kills.every_s(asked.restart_s)
    random = generator(campaign.seed, "kills of a plan")
    order = [operators[at] for _ in range(kills.rounds) for at in random.permutation(len(operators))]
    moments = [(kills.settled_s + number * every_s, name) for number, name in enumerate(order)]
    terms = Terms(
        interval_s=asked.batch_s,
        settle_s=kills.settled_s,
        horizon_s=len(order) * every_s,
        crash_rate=0.0,
        recovery_s=asked.restart_s,
        seed=campaign.seed,
    )
    graph = _input(campaign, evidence.rate[1], terms)()
    told(f"Killing {', '.join(operators)} {kills.rounds} times each, {every_s:g} s apart: {terms.horizon_s:,.0f} s.")
    folder = make_temporary("kills-", graph=graph.name)
    try:
        with World(in_jobs(graph, weighed, plan.chosen, out=folder / "killed"), terms, kills=moments) as world:
            lived = world.live(told)
        came = read(folder / "killed", [campaign.sink])[campaign.sink]
        wanted = undisturbed(graph, terms.batches, out=folder / "right", backups=str(folder / "backups"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if len(lived.ordered) < len(order):
        raise RunError(
            f"Graph {graph.name!r}: {len(lived.ordered)} of {len(order)} kills could be done, since processes were not "
            f"back before the next one. Let a restart take less (--restart), or ask for fewer."
        )
    impairments = _impairments(evidence, weighed, lived.ordered, came, wanted[campaign.sink], terms)
    return _row(weighed, plan.chosen, impairments, rounds=kills.rounds, seed=campaign.seed)


def in_jobs(graph: Graph, weighed: Weighed, plan: Chosen, *, out: Path) -> Graph:
    """The graph as planned, sources and sinks in jobs of their own, which are not killed."""
    checked = graph.checked()
    made = as_jobs(checked, weighed, plan, sources_apart=True).applied(writing(graph, out=out))
    # What all operators go back under the jobs around them must have, too.
    everywhere = next((option.protection for option in weighed.problem.chosen(plan) if option.everywhere), None)
    made.job(READING, list(checked.sources), protect=everywhere)
    made.job(WRITING, list(checked.exits), protect=everywhere)
    return made


def _input(campaign: Campaign, rate: float, terms: Terms) -> AppInput:
    """Input of another seed, as long as the run and as fast as it is to be."""
    source = campaign.input
    if not isinstance(source, AppInput) or source.path:
        raise RunError(
            f"Campaign {campaign.name!r}: kills want input that an application makes, for as long as they take."
        )
    per_batch = max(1, round(rate * terms.interval_s))
    batches = terms.batches + round(_MARGIN_S / terms.interval_s)
    return replace(source, seed=source.seed + 2, tuples=batches * per_batch, tuples_per_batch=per_batch)


def _impairments(
    evidence: Evidence,
    weighed: Weighed,
    killed: Sequence[tuple[float, str]],
    came: Batches,
    wanted: Batches,
    terms: Terms,
) -> dict[str, tuple[float, ...]]:
    """What each kill left, by operator: the squared errors of the sections from there to the next kill."""
    campaign, rate = evidence.campaign, evidence.rate[1]
    width = campaign.section_tuples
    count = round(terms.batches * terms.interval_s * rate) // width  # whole sections
    faulty, right = (
        local_scores(campaign.score, _table(of, terms.batches), section_tuples=width, first=0, count=count)
        for of in (came, wanted)
    )
    errors = local_errors(faulty, right)
    # A kill may cost tuples that arrived in the batch before it and had not been done.
    first = [int((now_s - terms.interval_s) * rate) // width for now_s, _ in killed]
    sections = max(weighed.asked.window_s * rate / width, 1.0)
    found: dict[str, list[float]] = {}
    for (_, name), begin, end in zip(killed, first, [*first[1:], count], strict=True):
        part = errors[begin : max(end, begin + 1)]
        impact = local_impact(part, threshold=campaign.threshold, percentile=campaign.percentile)
        found.setdefault(name, []).append(impact.ilq / sections)
    return {name: tuple(each) for name, each in found.items()}


def _table(batches: Batches, end: int) -> pa.Table:
    return pa.concat_tables(table for batch, table in sorted(batches.items()) if batch < end)


def _row(
    weighed: Weighed, plan: Chosen, impairments: dict[str, tuple[float, ...]], *, rounds: int, seed: int
) -> ProofRow:
    wishes, problem = weighed.asked.wishes, weighed.problem
    tried = of_chosen(weighed, plan, lambda name, _: impairments.get(name, (0.0,) * rounds))
    only = (0,) * len(tried.operators)
    low, high = interval(tried, places=rounds, percentile=wishes.percentile, seed=seed)
    return ProofRow(
        plan="chosen",
        cost=problem.cost(plan),
        foretold=max(problem.quality(plan, wishes.percentile), 0.0),
        measured=max(tried.quality(only, wishes.percentile), 0.0),
        low=max(low, 0.0),
        high=max(high, 0.0),
        faults=int(np.sum([len(each) for each in impairments.values()])),
        stands=wishes.quality is None or low >= wishes.quality - EVEN,
    )
