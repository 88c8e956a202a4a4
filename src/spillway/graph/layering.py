"""Put the nodes of a directed graph into layers so that most edges lead from one layer to a later one.

The usual four steps (Sugiyama, Tagawa and Toda, 1981): turn round the edges that close a cycle; give every node the
layer after the last of those before it; cut edges that span several layers into pieces with a bend in each; order
every layer by the mean place of neighbours, to and fro, a few times. Whether layers are drawn as columns from left to
right or as rows from top to bottom is for the drawing to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything is.

    A place is a layer and how far along it the middle of the node or bend stands. A node takes a length of 1 of its
    layer; no two things in a layer overlap, and the first begins at 0.
    """

    at: dict[str, tuple[int, float]]
    bends: list[list[tuple[int, float]]]  # beside the edges given: where each passes, from its source to its target
    layers: int
    length: float  # of the longest layer, from 0 to where its last node or bend ends


def lay_out(nodes: Sequence[str], edges: Sequence[tuple[str, str]], *, bend_length: float = 1.0) -> Layout:
    """Layers and places for a graph; cycles and edges from a node to itself are allowed.

    >>> layout = lay_out(["source", "left", "right"], [("source", "left"), ("source", "right")])
    >>> layout.at["source"], layout.at["left"], layout.at["right"]
    ((0, 1.0), (1, 0.5), (1, 1.5))
    """
    onward = _without_cycles(nodes, edges)
    layer = _layers(nodes, onward)
    members: list[list[str]] = [[] for _ in range(max(layer.values(), default=0) + 1)]
    for node in nodes:
        members[layer[node]].append(node)
    lengths = dict.fromkeys(nodes, 1.0)
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    chains: list[list[str]] = []
    for number, (source, target) in enumerate(onward):
        passed = range(layer[source] + 1, layer[target])
        bends = [f"\0{number}.{each}" for each in passed]  # No node's name: names are text that people read.
        for each, bend in zip(passed, bends, strict=True):
            members[each].append(bend)
            lengths[bend] = bend_length
        chains.append(bends)
        for first, second in pairwise([source, *bends, target]):
            after.setdefault(first, []).append(second)
            before.setdefault(second, []).append(first)
    place = _placed(members, before, after, lengths)
    where = {member: (i, place[member]) for i, each in enumerate(members) for member in each}
    turned = [edge != given for edge, given in zip(onward, edges, strict=True)]
    return Layout(
        at={node: where[node] for node in nodes},
        bends=[
            [where[bend] for bend in (reversed(chain) if back else chain)]
            for chain, back in zip(chains, turned, strict=True)
        ],
        layers=len(members),
        length=max((place[member] + lengths[member] / 2 for member in place), default=0.0),
    )


def _without_cycles(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges, those that lead back to where a walk came from turned round."""
    after: dict[str, list[int]] = {node: [] for node in nodes}
    for i, (source, _) in enumerate(edges):
        after[source].append(i)
    state = dict.fromkeys(nodes, 0)  # 0 not seen, 1 on the way, 2 done
    turned: set[int] = set()
    for start in nodes:
        if state[start]:
            continue
        state[start] = 1
        walk = [(start, iter(after[start]))]
        while walk:
            node, rest = walk[-1]
            edge = next(rest, None)
            if edge is None:
                state[node] = 2
                walk.pop()
                continue
            target = edges[edge][1]
            if state[target] == 1:
                turned.add(edge)
            elif state[target] == 0:
                state[target] = 1
                walk.append((target, iter(after[target])))
    return [(target, source) if i in turned else (source, target) for i, (source, target) in enumerate(edges)]


def _layers(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way to each node."""
    before: dict[str, int] = dict.fromkeys(nodes, 0)
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        if source != target:
            before[target] += 1
            after[source].append(target)
    layer = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not before[node]]
    while ready:
        node = ready.pop()
        for target in after[node]:
            layer[target] = max(layer[target], layer[node] + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    # What begins nothing else may as well stand right before what it leads to.
    for node in nodes:
        if layer[node] == 0 and after[node]:
            layer[node] = max(0, min(layer[target] for target in after[node]) - 1)
    return layer


def _placed(
    members: list[list[str]], before: dict[str, list[str]], after: dict[str, list[str]], lengths: dict[str, float]
) -> dict[str, float]:
    """Places for all members along their layers: near their neighbours, without overlap."""
    place: dict[str, float] = {}
    for layer in members:
        _spread(layer, {member: float(i) for i, member in enumerate(layer)}, lengths, place)
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for layer in members if near is before else reversed(members):
            wanted = {}
            for member in layer:
                neighbours = [place[other] for other in near.get(member, ())]
                wanted[member] = sum(neighbours) / len(neighbours) if neighbours else place[member]
            layer.sort(key=lambda member: wanted[member])
            _spread(layer, wanted, lengths, place)
    first = min((place[member] - lengths[member] / 2 for member in place), default=0.0)
    return {member: each - first for member, each in place.items()}


def _spread(layer: list[str], wanted: dict[str, float], lengths: dict[str, float], place: dict[str, float]) -> None:
    """As close to the wanted places as members without overlap can be: pushed apart, then moved back together."""
    for i, member in enumerate(layer):
        place[member] = wanted[member]
        if i:
            apart = (lengths[layer[i - 1]] + lengths[member]) / 2
            place[member] = max(wanted[member], place[layer[i - 1]] + apart)
    if layer:
        shift = sum(place[member] - wanted[member] for member in layer) / len(layer)
        for member in layer:
            place[member] -= shift
