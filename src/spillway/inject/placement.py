"""Which operators are worth a fault (seed 000, section 4.2; seed 001, section 4.3.2).

A fault at an operator that has one input, which nothing else reads and which comes from a stateless operator, does what
a fault at that one does. So faults are put into all sources, and into operators of which one of these holds:

1. what it reads is also read by another operator: the two can fail apart;
2. it reads more than one stream: a fault at either sender is another than a fault at itself;
3. what it reads comes from an operator with state: that state stays up to date while this one fails.

Only what reaches the scored sink counts, for readers of a stream too. Tuples that come in another order are no fault
to an operator with a single input and no state; corrupted state is one to operators that keep some, and to no others.
"""

from collections import deque
from dataclasses import dataclass

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge
from spillway.inject.faults.fault import StateFault, TupleFault
from spillway.inject.faults.outage import Outage
from spillway.inject.models import fault_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Whether an operator is a target, and why."""

    operator: str
    chosen: bool
    reason: str
    same_as: str = ""  # if it was not chosen: the target that behaves alike


def place(graph: CheckedGraph, *, sink: str, model: str = Outage.model) -> tuple[Choice, ...]:
    """What to do with each source and operator, upstream first."""
    if sink not in graph.exits:
        raise GraphError(f"Graph {graph.name!r} has no sink {sink!r}; it has {', '.join(graph.exits)}.")
    kind = fault_model(model)
    counting = depends(graph, sink)
    choices: dict[str, Choice] = {}
    for name in _breadth_first(graph):
        if name not in counting:
            reason = f"Nothing it puts out reaches {sink}."
            choices[name] = Choice(operator=name, chosen=False, reason=reason)
        elif issubclass(kind, StateFault):
            choices[name] = _choose_state(graph, name)
        elif name in graph.sources:
            reason = "It is a source: a fault here is one of the feed itself."
            choices[name] = Choice(operator=name, chosen=True, reason=reason)
        else:
            assert issubclass(kind, TupleFault)
            choices[name] = _choose(graph, name, counting, choices, kind)
    return tuple(choices.values())


def depends(graph: CheckedGraph, sink: str) -> frozenset[str]:
    """The sources and operators from which tuples can reach the sink, feedback included."""
    found: set[str] = set()
    waiting = [sink]
    while waiting:
        node = waiting.pop()
        for edge in graph.edges:
            if edge.node == node and edge.stream.node not in found:
                found.add(edge.stream.node)
                waiting.append(edge.stream.node)
    return frozenset(found)


def _choose(
    graph: CheckedGraph, name: str, counting: frozenset[str], choices: dict[str, Choice], kind: type[TupleFault]
) -> Choice:
    edges = graph.into(name)
    unfelt = kind.unfelt(inputs=len(edges), stateful=graph.operators[name].stateful)
    if unfelt:
        return Choice(operator=name, chosen=False, reason=unfelt, same_as=_alike(choices, edges[0].stream.node))
    for edge in edges:
        others = _other_readers(graph, edge, counting)
        if others:
            reason = f"It shares the output of {edge.stream.node} with {', '.join(others)}, which can go on without it."
            return Choice(operator=name, chosen=True, reason=reason)
    if len(edges) > 1:
        senders = " and ".join(edge.stream.node for edge in edges)
        reason = f"It reads {len(edges)} streams, from {senders}: it can miss both at once."
        return Choice(operator=name, chosen=True, reason=reason)
    sender = edges[0].stream.node
    if sender in graph.operators and graph.operators[sender].stateful:
        reason = f"It reads from {sender}, whose state stays up to date while this one fails."
        return Choice(operator=name, chosen=True, reason=reason)
    reason = f"It alone reads {sender}, which keeps no state: it fails as that does."
    return Choice(operator=name, chosen=False, reason=reason, same_as=_alike(choices, sender))


def _choose_state(graph: CheckedGraph, name: str) -> Choice:
    stateful = name in graph.operators and graph.operators[name].stateful
    reason = "It keeps state, which can be corrupted." if stateful else "It keeps no state."
    return Choice(operator=name, chosen=stateful, reason=reason)


def _other_readers(graph: CheckedGraph, edge: Edge, counting: frozenset[str]) -> list[str]:
    readers = {other.node for other in graph.out_of(edge.stream.node) if other.node in counting}
    return sorted(readers - {edge.node})


def _alike(choices: dict[str, Choice], sender: str) -> str:
    choice = choices[sender]
    return sender if choice.chosen else choice.same_as


def _breadth_first(graph: CheckedGraph) -> list[str]:
    """Sources, then operators level by level, none before what it reads."""
    order = {name: place for place, name in enumerate(graph.order)}
    found = list(graph.sources)
    waiting = deque(found)
    while waiting:
        node = waiting.popleft()
        readers = [edge.node for edge in graph.out_of(node) if edge.node in order]
        for reader in sorted(set(readers), key=order.__getitem__):
            if reader not in found and all(edge.stream.node in found for edge in graph.into(reader)):
                found.append(reader)
                waiting.append(reader)
    return found
