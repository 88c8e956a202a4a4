"""A campaign made definite before anything is written: targets chosen, rates measured, what cannot be tried refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from spillway.errors import InputError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.inject.campaign import AppInput, Campaign
from spillway.inject.models import fault_model
from spillway.inject.placement import Choice, depends, place
from spillway.inject.rewriting import entries
from spillway.inject.trial_maker import tuples_and_rates
from spillway.operators.operator import Operator
from spillway.records.campaign_rows import (
    AffectedKey,
    CampaignDeclaration,
    CampaignGraph,
    GraphEdge,
    GraphNode,
    Reconfiguration,
    TrialKey,
)
from spillway.score.osf import name as score_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A campaign made definite: targets chosen, rates measured."""

    campaign: Campaign
    choices: tuple[Choice, ...]
    declaration: CampaignDeclaration
    graph: CampaignGraph

    def places(self) -> list[AffectedKey]:
        """Every target, rate and offset; those of a protection only where it protects."""
        declared = self.declaration
        plans: list[tuple[str, tuple[str, ...]]] = [("", declared.targets)]
        for assumed in self.campaign.assumed:
            plans.append((assumed.name, tuple(t for t in declared.targets if self._protects(assumed.operators, t))))
        return [
            AffectedKey(plan, target, rate, offset)
            for plan, targets in plans for target in targets for rate in declared.rates
            for offset in declared.offsets_seq
        ]  # fmt: skip

    def trials(self, where: AffectedKey, outages_s: Sequence[float]) -> tuple[TrialKey, ...]:
        repetitions = range(self.declaration.repetitions)
        return tuple(TrialKey(*where, outage, repetition) for outage in outages_s for repetition in repetitions)

    def _protects(self, operators: tuple[str, ...], target: str) -> bool:
        return set(self.campaign.operators_of(target)) <= set(operators)


def plan(campaign: Campaign) -> Planned:
    """Choose targets, measure rates, and refuse what cannot be tried."""
    graph = campaign.input()
    checked = graph.checked()
    choices = place(checked, sink=campaign.sink, model=campaign.model)
    chosen = tuple(choice.operator for choice in choices if choice.chosen)
    targets = tuple(dict.fromkeys([*(chosen if campaign.targets is None else campaign.targets), *campaign.groups]))
    _check_targets(campaign, graph, checked, targets)
    tuples, measured = tuples_and_rates(checked)
    beyond = [offset for offset in campaign.offsets if offset >= tuples]
    if beyond:
        raise InputError(
            f"Campaign {campaign.name!r}: offset {beyond[0]:,} lies beyond the input, which has {tuples:,} tuples."
        )
    rates = measured if campaign.rates is None else dict(campaign.rates)
    if not rates:
        raise InputError(
            f"Campaign {campaign.name!r}: the source has no timestamp column 'time' to measure rates by. Say "
            f"rates = {{ average = ..., peak = ... }}, in tuples per second."
        )
    declaration = CampaignDeclaration(
        name=campaign.name,
        sink=campaign.sink,
        score=score_name(campaign.score),
        fault=_model(campaign),
        targets=targets,
        groups=dict(campaign.groups),
        offsets_seq=campaign.offsets,
        outages_s=campaign.outages_s,
        rates=rates,
        repetitions=campaign.repetitions,
        golden_repetitions=campaign.golden_repetitions,
        section_tuples=campaign.section_tuples,
        threshold=campaign.threshold,
        percentile=campaign.percentile,
        alpha=campaign.alpha,
        seed=campaign.seed,
        input={
            **(campaign.input.describe() if isinstance(campaign.input, AppInput) else {"tuples": tuples}),
            "delay_max": campaign.delay_max,
            "settled_every": campaign.settled_every,
        },
        reconfigurations=tuple(
            Reconfiguration(
                name=assumed.name, operators=assumed.operators, protection=assumed.describe(), outage_s=assumed.lost_s
            )
            for assumed in campaign.assumed
        ),
    )
    return Planned(
        campaign=campaign,
        choices=choices,
        declaration=declaration,
        graph=_recorded(checked, choices, targets, campaign),
    )


def _check_targets(campaign: Campaign, graph: Graph, checked: CheckedGraph, targets: Sequence[str]) -> None:
    reaching = depends(checked, campaign.sink)
    for target in targets:
        operators = campaign.operators_of(target)
        entries(graph, campaign.fault(targets=operators, offset=0, length=1))
        if not set(operators) & reaching:
            raise InputError(f"Target {target!r}: nothing it puts out reaches {campaign.sink!r}, so no score can tell.")
    for assumed in campaign.assumed:
        entries(graph, campaign.fault(targets=assumed.operators, offset=0, length=1))


def _model(campaign: Campaign) -> str:
    options = ", ".join(f"{name} {value}" for name, value in campaign.model_options.items())
    return fault_model(campaign.model).in_words + (f" ({options})" if options else "")


def _recorded(
    graph: CheckedGraph, choices: Sequence[Choice], targets: Sequence[str], campaign: Campaign
) -> CampaignGraph:
    """The graph as records keep it."""
    struck = {operator for target in targets for operator in campaign.operators_of(target)}
    nodes = []
    for choice in choices:
        operator = graph.operators.get(choice.operator)
        reason = choice.reason
        if (choice.operator in struck) != choice.chosen:
            reason = "The campaign names it." if choice.operator in struck else "The campaign names other targets."
        nodes.append(
            GraphNode(
                name=choice.operator,
                kind="operator" if operator is not None else "source",
                type=type(operator).__name__ if operator is not None else "source",
                stateful=operator is not None and operator.stateful,
                state=operator.describe_state() if isinstance(operator, Operator) else "",
                protection=operator.protect.describe() if operator is not None and operator.stateful else "",
                chosen=choice.operator in struck,
                reason=reason,
                same_as="" if choice.operator in struck else choice.same_as,
            )
        )
    for name, leaving in graph.exits.items():
        scored = "It is where the output is scored." if name == campaign.sink else "Its output is not scored."
        nodes.append(GraphNode(name=name, kind="sink", type=type(leaving.sink).__name__, chosen=False, reason=scored))
    edges = tuple(
        GraphEdge(source=edge.stream.node, target=edge.node, port=edge.port, feedback=edge.feedback)
        for edge in graph.edges
    )
    return CampaignGraph(nodes=tuple(nodes), edges=edges)
