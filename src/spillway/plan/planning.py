"""From wishes to a plan: options from terms and evidence, the search, and the reasons in plain words.

**Quality** of a fault is one less the mean squared relative error of the output's sections in the time after it, that
is 1 - Ilq / n over n sections (seed 000, 5.2, has Ilq). A section that is missing or doubled counts as one, one that is
a tenth off as a hundredth. So an operator that is down leaves 1 - down / time, if all is right again when it is back.

What a protection leaves is measured with outages of the very length that its terms name, with the loss of all state
where it is lost, and with state as old as it may be where it is stale (``left``).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from spillway.backup.written import Written, WrittenJob
from spillway.errors import GraphError, ModelError, RunError
from spillway.graph.checked import CheckedGraph
from spillway.graph.contracts import Contract
from spillway.graph.graph import Graph
from spillway.graph.keeping import obstacles
from spillway.graph.protections import JobProtection, Nothing
from spillway.graph.replicas import Group
from spillway.graph.spelling import Spelling
from spillway.inject.placement import depends
from spillway.model.terms import Circumstances, Measured, Terms, proposals, terms_of
from spillway.plan.evidence import Evidence
from spillway.plan.left import Left, tried
from spillway.plan.prices import Prices
from spillway.plan.problem import EVEN, Choices, Chosen, Option, Problem, Together, Wishes
from spillway.plan.search import Point, cheapest, frontier, in_the_way

WINDOW_S = 600.0
RESTART_S = 16.0  # the longest outage that seed 000 tries
CRASH_RATE = 1.85e-4  # every 90 minutes, the least of seed 001 (5.6.4)
TAKEOVER_S = 1.0  # with a second until it is noticed the failover of seed 000, figure 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is wanted, what can fail, and what things are worth."""

    wishes: Wishes
    restart_s: float = RESTART_S
    takeover_s: float = TAKEOVER_S
    batch_s: float = 1.0
    window_s: float = WINDOW_S
    crash_rate: float = CRASH_RATE  # of every operator, in a second, for what the model says
    rates: Mapping[str, float] = field(default_factory=dict)  # faults of an operator, where they are not as many as 1
    rewinds: bool = False  # whether all may go back together, even where nothing is wished to be lossless
    together: tuple[tuple[str, ...], ...] = ()  # operators of a host, which also fail as one, as often as one does
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        if not 0 < self.window_s < math.inf:
            raise ModelError(f"Asked: quality is told over some time, above 0 s; got {self.window_s!r}.")

    @property
    def going_back(self) -> bool:
        """Whether protections are weighed under which all of a graph goes back, and takes back what it put out.

        What comes out in the end is cheap to get right that way; who reads it at once sees it withdrawn.
        """
        return self.rewinds or self.wishes.lossless is not None


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """All options of a graph with what they cost and leave."""

    asked: Asked
    problem: Problem
    terms: Mapping[tuple[str, str], Terms]  # by operator and option
    measured: Mapping[str, Measured]
    left: Left
    assumed: tuple[str, ...]

    def options(self, plan: Chosen) -> dict[str, Option]:
        return dict(zip((each.operator for each in self.problem.operators), self.problem.chosen(plan), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cheapest plan that is as wished, and what is around it."""

    chosen: Chosen
    frontier: tuple[Point, ...]
    cheaper: Point | None
    dearer: Point | None
    losing_nothing: float | None  # what the cheapest plan costs that leaves no trace of any fault
    everything: float  # what it costs to give every operator the best there is
    one_for_all: float | None  # and what the cheapest protection does that loses nothing, the same for all


def weigh(evidence: Evidence, asked: Asked) -> Weighed:
    """The options of every operator, from their terms; what is missing of the evidence is measured."""
    known = set(evidence.checked.operators)
    for name in (*asked.rates, *(name for group in asked.together for name in group)):
        if name not in known:
            raise RunError(
                f"Graph {evidence.graph.name!r} has no operator {name!r}; it has {', '.join(sorted(known))}."
            )
    costs = evidence.costs
    around = Circumstances(
        restart_s=asked.restart_s, takeover_s=asked.takeover_s, batch_s=asked.batch_s, **asdict(costs)
    )
    measured = evidence.measured(batch_s=asked.batch_s)
    watched = _upstream_of(evidence, asked.wishes.lossless)
    declared: dict[str, list[Any]] = {}
    terms = {}
    for name, of in measured.items():
        for protection in proposals(of):
            found = terms_of(protection, of, around)
            # State that must not be stale can be in no plan, so what it would do is not tried.
            if found.everywhere and not (asked.going_back and may_be_everywhere(evidence.graph, protection)):
                continue
            if not found.effect.stale_s or name not in watched:
                terms[name, described(protection)] = found
                declared.setdefault(name, []).append(protection)
    effects = [(name, found.effect) for (name, _), found in terms.items()]
    left = Left(evidence, tried(evidence, effects), window_s=asked.window_s)
    operators = tuple(
        Choices(
            operator=name,
            rate=asked.rates.get(name, 1.0),
            watched=name in watched,
            options=tuple(
                _option(name, protection, terms[name, described(protection)], left, asked.prices)
                for protection in declared[name]
            ),
        )
        for name in evidence.checked.order
    )
    together = tuple(Together(name="+".join(group), operators=group, rate=1.0) for group in asked.together)
    return Weighed(
        asked=asked,
        problem=Problem(operators=operators, together=together),
        terms=terms,
        measured=measured,
        left=left,
        assumed=_assumed(asked),
    )


def _option(operator: str, protection: Any, terms: Terms, left: Left, prices: Prices) -> Option:
    return Option(
        name=described(protection),
        cost=prices.of(terms.cost),
        impairments=left.of(operator, terms.effect),
        written_bytes_per_s=terms.cost.written_bytes_per_s,
        back_s=terms.effect.back_s,
        lossless=terms.effect.lossless,
        everywhere=described(protection) if terms.everywhere else "",
        protection=protection,
    )


def choose(weighed: Weighed) -> Plan:
    """The cheapest plan as wished, or an error that says which wish stands in the way."""
    problem, wishes = weighed.problem, weighed.asked.wishes
    chosen = cheapest(problem, wishes)
    if chosen is None:
        raise RunError(_no_plan(problem, wishes))
    points = frontier(problem, wishes)
    # Of plans that cost the same the one on the frontier leaves the better quality.
    same = [point for point in points if abs(point.cost - problem.cost(chosen)) <= EVEN]
    if same and problem.meets(same[0].plan, wishes):
        chosen = same[0].plan
    nothing_lost = cheapest(problem, replace(wishes, quality=1.0, percentile=1.0))
    found = Plan(
        chosen=chosen,
        frontier=points,
        cheaper=None,
        dearer=None,
        losing_nothing=None if nothing_lost is None else problem.cost(nothing_lost),
        everything=sum(_best(choices).cost for choices in problem.operators),
        one_for_all=_one_for_all(problem),
    )
    return with_chosen(problem, wishes, found, chosen)


def with_chosen(problem: Problem, wishes: Wishes, plan: Plan, chosen: Chosen) -> Plan:
    """The plan with another one chosen, and its neighbours."""
    cost, quality = problem.cost(chosen), problem.quality(chosen, wishes.percentile)
    cheaper = [point for point in plan.frontier if point.cost < cost - EVEN]
    dearer = [point for point in plan.frontier if point.cost > cost + EVEN and point.quality > quality + EVEN]
    return replace(plan, chosen=chosen, cheaper=cheaper[-1] if cheaper else None, dearer=dearer[0] if dearer else None)


def _best(choices: Choices) -> Option:
    """The option that leaves least of a fault and, of those, is back first: a replica, mostly."""
    alone = [option for option in choices.options if not option.everywhere]
    return min(alone, key=lambda option: (max(option.impairments), option.back_s, option.cost))


def _one_for_all(problem: Problem) -> float | None:
    """What the cheapest protection costs that every operator can have and under which none loses anything."""
    offered = [
        {option.name: option for option in choices.options if option.lossless and not option.everywhere}
        for choices in problem.operators
    ]
    common = set(offered[0]).intersection(*offered)
    return min((sum(of[name].cost for of in offered) for name in common), default=None)


def candidates(plan: Plan) -> dict[str, Chosen]:
    """The plan and its neighbours, by what they are, cheapest first."""
    cheaper = {} if plan.cheaper is None else {"cheaper": plan.cheaper.plan}
    dearer = {} if plan.dearer is None else {"dearer": plan.dearer.plan}
    return {**cheaper, "chosen": plan.chosen, **dearer}


def described(protection: Any) -> str:
    """A protection in words, with all of its settings."""
    found: str = protection.describe()
    return found


def spelled(protection: Any) -> str:
    """A protection as it is written on a command line."""
    spelling = type(protection).spelling
    assert isinstance(spelling, Spelling), protection
    return spelling.write(protection)


def may_be_everywhere(graph: Graph, protection: Any) -> bool:
    """Whether a graph may run with each operator a job by itself, all of them under this protection."""
    jobs = tuple(WrittenJob(name=name, operators=(name,), protect=protection) for name in graph.checked().operators)
    try:
        Written(graph=graph.name, jobs=jobs).applied(graph).divided()
    except GraphError:
        return False
    return True


def written(evidence: Evidence, weighed: Weighed, plan: Chosen) -> Written:
    """A plan as a file of protections; refused if it may not run."""
    found = as_jobs(evidence.checked, weighed, plan)
    applied = found.applied(evidence.graph).checked()  # what may not run is refused here, and not by whoever runs it
    sink = weighed.asked.wishes.lossless
    refused = [] if sink is None else list(obstacles(applied, sink, Contract(lossless=True), {}))
    if refused:
        raise RunError(
            f"Sink {sink!r} cannot have a lossless contract: {refused[0].operator} ({refused[0].protection}): "
            f"{refused[0].why}."
        )
    return found


def as_jobs(checked: CheckedGraph, weighed: Weighed, plan: Chosen, *, sources_apart: bool = False) -> Written:
    """The protections of a plan: every operator a job by itself, which comes back as its protection has it.

    Streams to one whose protection keeps nothing of them are dropped while it is down, as was assumed. Operators in a
    group keep no backups: what one replica lost the other one has. With ``sources_apart`` sources are in a job of their
    own, and what they send is dropped like the rest.
    """
    jobs, own = [], {}
    for name, option in weighed.options(plan).items():
        effect = weighed.terms[name, option.name].effect
        protect = option.protection
        if isinstance(protect, Group) and checked.operators[name].stateful:
            own[name] = Nothing()
        streams = [edge.stream for edge in checked.into(name)]
        senders = [stream for stream in streams if sources_apart or stream.node in checked.operators]
        drops = () if effect.keeps_input or isinstance(protect, Group) else tuple(dict.fromkeys(map(str, senders)))
        of_job = isinstance(protect, Group | JobProtection)
        jobs.append(WrittenJob(name=name, operators=(name,), protect=protect if of_job else None, drops=drops))
        if not of_job and checked.operators[name].stateful:
            own[name] = protect
    return Written(graph=checked.name, operators=own, jobs=tuple(jobs))


def _upstream_of(evidence: Evidence, sink: str | None) -> frozenset[str]:
    if sink is None:
        return frozenset()
    if sink not in evidence.checked.exits:
        raise RunError(
            f"Graph {evidence.graph.name!r} has no sink {sink!r} that could lose nothing; it has "
            f"{', '.join(evidence.checked.exits)}."
        )
    return depends(evidence.checked, sink)


def _no_plan(problem: Problem, wishes: Wishes) -> str:
    told = wishes.said()
    ways = in_the_way(problem, wishes)
    asked = "; ".join(told.values())
    if len(told) == 1:
        (name,) = told
        return f"No plan gives {asked}{_most(problem, wishes, name)}."
    if not ways:
        return f"No plan gives all of this: {asked}. Giving up any one of these is not enough."
    which = " or of ".join(f"'{told[name]}'{_most(problem, wishes, name)}" for name in ways)
    return f"No plan gives all of this: {asked}. It takes less of {which}."


def _most(problem: Problem, wishes: Wishes, name: str) -> str:
    """How much of a wish can be had, the others as they are."""
    best: Iterable[Point] = ()
    if name == "quality":
        best = frontier(problem, replace(wishes, quality=None))[-1:]
        return "".join(f" (at most {point.quality:.4f})" for point in best)
    if name == "back_within_s":
        within = sorted({option.back_s for choices in problem.operators for option in choices.options})
        possible = [each for each in within if cheapest(problem, replace(wishes, back_within_s=each)) is not None]
        return f" ({possible[0]:.3g} s at the soonest)" if possible else ""
    return ""


def _assumed(asked: Asked) -> tuple[str, ...]:
    together = [f"{', '.join(group)} also fail as one, as often as one of them." for group in asked.together]
    return (
        f"A restart takes {asked.restart_s:g} s; a replica speaks {asked.takeover_s:g} s after a failure was noticed.",
        "Every operator fails alone, as in a job of its own, and all of them "
        + ("equally often" if not asked.rates else "as often as was said")
        + ". What is sent to one that is down is lost, unless its protection keeps it.",
        *together,
        "What an outage and the loss of state do was tried apart, and added up.",
        "Under Approximate a fault is the first one, at the moment when its backup is oldest; later ones cost less.",
        f"For the model every operator crashes {asked.crash_rate * 3600:.3g} times an hour, and state that was upset "
        "settles as the aggregate of seed 001 does.",
        *([] if asked.going_back else ["Output is not taken back: what all of a graph goes back under was left out."]),
        "A checkpoint is as old as it may be when its operator fails; tuples it lacks count as lost.",
        "A replica that takes over misses as much as an outage of that length at its input would.",
        f"A gigabyte of memory is worth {asked.prices.memory_gb:g} cores, and a megabyte written in a second "
        f"{asked.prices.written_mb_per_s:g}.",
    )
