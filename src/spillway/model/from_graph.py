"""A flow from a graph and its profile: the way from what a user drew to what can be modelled.

**Thin streams.** Some graphs boil millions of tuples down to a few, and state behind such a thin stream settles after
so many arrivals that simulating them is out of the question. There one token stands for several tuples on the thick
streams, as many as make the thinnest stream before a port with state carry one token in twenty arrivals or more
(seed 001, 5.8, suggests to scale rates for the same reason). Means keep their value; what happens within one token, and
how much numbers vary from run to run, is lost. `Port.weight` says how many tuples a token is; 1 everywhere if no stream
is thin.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spillway.errors import ModelError
from spillway.graph.checked import CheckedGraph
from spillway.model.faults import NO_FAULTS, Faults
from spillway.model.flow import PUTS_MAX, Flow, FlowOperator, Port, Settling
from spillway.model.kinds import several, sink, source
from spillway.model.profile import OperatorProfile, PortProfile, Profile
from spillway.model.protections import Technique
from spillway.model.stream_net import StreamNet, build

THIN = 0.02  # tuples on a stream per tuple from outside
TOKENS_PER_ARRIVAL = 0.05  # on the thinnest stream before a port with state
END_COST_S = 1e-7  # of a source or a sink per tuple: reading and storing are not operators of a graph


def flow_of(
    graph: CheckedGraph,
    profile: Profile,
    *,
    tuples_per_s: float | None = None,
    settling: Mapping[str, Settling] | None = None,
) -> Flow:
    """The flow of a graph: its sources, operators and sinks with the costs and selectivities of the profile.

    `tuples_per_s` replaces the rates of the profile, shared among the sources as there. `settling` says for operators
    by name how much of their state a loss upsets; others are as `Settling` says. Shards of an operator are one operator
    here, which fails as a whole. Streams that go upstream are left out, and with them how a fault spreads that way.
    """
    _check_names(graph, profile)
    known = settling or {}
    operators = [_operator(graph, name, profile.operators[name], known.get(name, Settling())) for name in graph.order]
    flow = Flow(
        name=graph.name,
        operators=(
            *(source(name, cost_s=END_COST_S) for name in graph.sources),
            *operators,
            *(sink(name, cost_s=END_COST_S) for name in graph.exits),
        ),
        streams=tuple(
            (edge.stream.node, edge.stream.port, edge.node, edge.port) for edge in graph.edges if not edge.feedback
        ),
        rates={name: profile.sources[name].tuples_per_s for name in graph.sources},
    )
    flow = flow if tuples_per_s is None else flow.at_rate(tuples_per_s)
    _check_load(graph, flow)
    return coarse(_reached(flow))


def _reached(flow: Flow) -> Flow:
    """Without state that no tuple reaches: it could neither be upset by losing any nor settle."""
    operators = tuple(
        replace(
            operator,
            ports=tuple(
                port if reach > 0 else replace(port, state_tuples=0)
                for port, reach in zip(operator.ports, reaches, strict=True)
            ),
        )
        for operator, reaches in zip(flow.operators, flow.per_arrival, strict=True)
    )
    return replace(flow, operators=operators)


def coarse(flow: Flow) -> Flow:
    """The same flow in tokens of several tuples, if a port with state gets fewer than one arrival in fifty."""
    reached = [
        reach
        for operator, reaches in zip(flow.operators, flow.per_arrival, strict=True)
        for port, reach in zip(operator.ports, reaches, strict=True)
        if port.stateful and reach > 0
    ]
    if not reached or min(reached) >= THIN:
        return flow
    arrival = math.ceil(TOKENS_PER_ARRIVAL / min(reached))
    # By operator: how many tuples a token is on each input port, and on each output port.
    inputs = [[_weight(arrival, reach) for reach in reaches] for reaches in flow.per_arrival]
    outputs = [[1] * len(operator.outputs) for operator in flow.operators]
    for link in flow.links:
        outputs[link.source][link.output] = inputs[link.target][link.port] = _weight(
            arrival, _carried(flow, link.source, link.output)
        )
    operators = tuple(
        replace(
            operator,
            ports=tuple(
                replace(
                    port,
                    weight=weight,
                    cost_s=port.cost_s * weight,
                    state_tuples=math.ceil(port.state_tuples / weight),
                    cases=several([port.mean_puts(at) * weight / out for at, out in enumerate(outputs[index])]),
                )
                for port, weight in zip(operator.ports, inputs[index], strict=True)
            ),
        )
        for index, operator in enumerate(flow.operators)
    )
    rates = {name: rate / inputs[flow.index(name)][0] for name, rate in flow.rates.items()}
    return replace(flow, operators=operators, rates=rates)


def _carried(flow: Flow, operator: int, output: int) -> float:
    """Tuples on a stream per tuple from outside."""
    ports = zip(flow.per_arrival[operator], flow.operators[operator].ports, strict=True)
    return sum(reach * port.mean_puts(output) for reach, port in ports)


def _weight(arrival: int, reach: float) -> int:
    """Tuples in a token of a stream, so that it carries about one token for each that arrives, if it can."""
    return max(1, math.floor(arrival * min(1.0, reach)))


def net_of(
    graph: CheckedGraph, profile: Profile, protection: Technique, faults: Faults = NO_FAULTS, **options: Any
) -> StreamNet:
    """The net of a graph under a protection; `options` are those of `flow_of`."""
    return build(flow_of(graph, profile, **options), protection, faults)


def _operator(graph: CheckedGraph, name: str, profile: OperatorProfile, settling: Settling) -> FlowOperator:
    declared = graph.operators[name]
    ports = []
    for port in declared.inputs:
        if port not in profile.ports:
            raise ModelError(f"Profile of {graph.name!r}: operator {name!r} lacks port {port!r}. Measure it again.")
        ports.append(_port(name, port, profile.ports[port], declared.outputs, settling))
    kind = type(declared).__name__.lower()
    shards = graph.shards_of(name)
    return FlowOperator(name=name, kind=kind, ports=tuple(ports), outputs=tuple(declared.outputs), shards=shards)


def _port(operator: str, name: str, profile: PortProfile, outputs: tuple[str, ...], settling: Settling) -> Port:
    unknown = set(profile.selectivity) - set(outputs)
    if unknown:
        raise ModelError(f"Operator {operator!r} has no output port {unknown.pop()!r}, which its profile names.")
    selectivities = [profile.selectivity.get(output, 0.0) for output in outputs]
    if any(math.ceil(each) > PUTS_MAX for each in selectivities):
        raise ModelError(f"Operator {operator!r}: at most {PUTS_MAX:,} tuples out for one in can be modelled.")
    return Port(
        name=name,
        cost_s=profile.cost_s,
        cases=several(selectivities),
        state_tuples=profile.state_tuples,
        settling=settling,
    )


def _check_load(graph: CheckedGraph, flow: Flow) -> None:
    """Refuse a rate that an operator cannot bear, its shards together: what follows from it is no matter of faults."""
    for operator, reach in zip(flow.operators, flow.per_arrival, strict=True):
        shards = graph.shards_of(operator.name) if operator.name in graph.operators else 1
        used = sum(per * port.cost_s for per, port in zip(reach, operator.ports, strict=True)) * flow.rate / shards
        if used >= 1:
            raise ModelError(
                f"Operator {operator.name!r} would need {used:.2f} processors per shard at {flow.rate:,.0f} tuples/s. "
                f"Give it fewer tuples or more shards."
            )


def _check_names(graph: CheckedGraph, profile: Profile) -> None:
    if profile.graph != graph.name:
        raise ModelError(f"The profile is of graph {profile.graph!r}, not of {graph.name!r}.")
    for what, wanted, got in (
        ("source", set(graph.sources), set(profile.sources)),
        ("operator", set(graph.operators), set(profile.operators)),
    ):
        if wanted - got:
            raise ModelError(f"Profile of {graph.name!r} lacks {what} {min(wanted - got)!r}. Measure it again.")
        if got - wanted:
            raise ModelError(f"Profile of {graph.name!r} has {what} {min(got - wanted)!r}, which the graph has not.")
