"""Layers of a directed graph: whatever the edges, nothing overlaps and most edges lead on."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.graph.layering import lay_out

NODES = [f"n{i}" for i in range(9)]
EDGES = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25)


@given(edges=EDGES, bend_length=st.sampled_from([0.2, 1.0]))
def test_nothing_overlaps(edges: list[tuple[str, str]], bend_length: float) -> None:
    layout = lay_out(NODES, edges, bend_length=bend_length)
    taken: dict[int, list[tuple[float, float]]] = {}
    for layer, middle in layout.at.values():
        taken.setdefault(layer, []).append((middle - 0.5, middle + 0.5))
    for layer, middle in (bend for bends in layout.bends for bend in bends):
        taken.setdefault(layer, []).append((middle - bend_length / 2, middle + bend_length / 2))
    assert set(taken) == set(range(layout.layers))
    for stretches in taken.values():
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(sorted(stretches)))
    ends = [end for stretches in taken.values() for end in stretches]
    assert min(start for start, _ in ends) == pytest.approx(0)
    assert max(end for _, end in ends) == pytest.approx(layout.length)


@given(edges=EDGES)
def test_an_edge_passes_every_layer_between_its_ends_once(edges: list[tuple[str, str]]) -> None:
    layout = lay_out(NODES, edges)
    for (source, target), bends in zip(edges, layout.bends, strict=True):
        start, end = layout.at[source][0], layout.at[target][0]
        step = 1 if start < end else -1
        assert [layer for layer, _ in bends] == list(range(start + step, end, step))


@given(edges=EDGES)
def test_without_cycles_every_edge_leads_on(edges: list[tuple[str, str]]) -> None:
    onward = [(source, target) for source, target in edges if source < target]
    layout = lay_out(NODES, onward)
    assert all(layout.at[source][0] < layout.at[target][0] for source, target in onward)


def test_a_node_that_feeds_itself_holds_nothing_up() -> None:
    layout = lay_out(["a", "b", "c"], [("a", "b"), ("b", "b"), ("b", "c")])
    assert [layout.at[node][0] for node in "abc"] == [0, 1, 2]


def test_what_begins_late_stands_right_before_what_it_leads_to() -> None:
    layout = lay_out(["a", "b", "c", "late"], [("a", "b"), ("b", "c"), ("late", "c")])
    assert layout.at["late"][0] == 1


def test_a_graph_of_nothing() -> None:
    layout = lay_out([], [])
    assert (layout.at, layout.bends, layout.length) == ({}, [], 0.0)
