"""Put the nodes of a directed graph into columns so that most edges run from left to right.

The usual four steps (Sugiyama, Tagawa and Toda, 1981): turn round the edges that close a cycle; give every node the
column after the last of those before it; cut edges that span several columns into pieces with a bend in each; order
every column by the mean position of neighbours, to and fro, a few times.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything is: column and row of each node, and the bends of each edge from its source to its target."""

    at: dict[str, tuple[int, float]]
    bends: list[list[tuple[int, float]]]  # beside the edges given
    columns: int
    rows: float


def lay_out(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Columns and rows for a graph; cycles are allowed."""
    forward = _without_cycles(nodes, edges)
    column = _columns(nodes, forward)
    members: list[list[str]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for node in nodes:
        members[column[node]].append(node)
    near: dict[str, list[tuple[str, str]]] = {}
    chains: list[list[str]] = []
    for number, (source, target) in enumerate(forward):
        bends = [f"\0{number}.{i}" for i in range(column[source] + 1, column[target])]
        for i, bend in enumerate(bends):
            members[column[source] + 1 + i].append(bend)
        chains.append(bends)
        path = [source, *bends, target]
        for left, right in pairwise(path):
            near.setdefault(left, []).append(("right", right))
            near.setdefault(right, []).append(("left", left))
    rows = _ordered(members, near)
    tallest = max((rows[member] for column_members in members for member in column_members), default=0.0)
    where = {member: (i, rows[member]) for i, column_members in enumerate(members) for member in column_members}
    bends_at = [[where[bend] for bend in chain] for chain in chains]
    turned = [edge != given for edge, given in zip(forward, edges, strict=True)]
    return Layout(
        at={node: where[node] for node in nodes},
        bends=[points[::-1] if back else points for points, back in zip(bends_at, turned, strict=True)],
        columns=len(members),
        rows=tallest,
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


def _columns(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest way to each node."""
    before: dict[str, int] = dict.fromkeys(nodes, 0)
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in edges:
        before[target] += 1
        after[source].append(target)
    column = dict.fromkeys(nodes, 0)
    ready = [node for node in nodes if not before[node]]
    while ready:
        node = ready.pop()
        for target in after[node]:
            column[target] = max(column[target], column[node] + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    # What begins nothing else may as well stand right before what it leads to.
    for node in nodes:
        if column[node] == 0 and after[node]:
            column[node] = max(0, min(column[target] for target in after[node]) - 1)
    return column


def _ordered(members: list[list[str]], near: dict[str, list[tuple[str, str]]]) -> dict[str, float]:
    """Rows for all members: near their neighbours, one apart at least."""
    rows = {member: float(i) for column in members for i, member in enumerate(column)}
    for sweep in range(SWEEPS):
        side = "left" if sweep % 2 == 0 else "right"
        for column in members if side == "left" else reversed(members):
            wanted = {}
            for member in column:
                neighbours = [rows[other] for where, other in near.get(member, []) if where == side]
                wanted[member] = sum(neighbours) / len(neighbours) if neighbours else rows[member]
            column.sort(key=lambda member: wanted[member])
            _spread(column, wanted, rows)
    lowest = min(rows.values(), default=0.0)
    return {member: row - lowest for member, row in rows.items()}


def _spread(column: list[str], wanted: dict[str, float], rows: dict[str, float]) -> None:
    """As close to the wanted rows as members one apart can be: pushed down, then moved back up together."""
    last = None
    for member in column:
        rows[member] = wanted[member] if last is None else max(wanted[member], last + 1.0)
        last = rows[member]
    if column:
        shift = sum(rows[member] - wanted[member] for member in column) / len(column)
        for member in column:
            rows[member] -= shift
