"""A run whose stages leave out or double an operator or a stream is refused before it begins."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.graph.declared import Step, source

from spillway.errors import GraphError
from spillway.graph import Graph, Hopping, Memory
from spillway.graph.activation import check_activated
from spillway.graph.checked import CheckedGraph
from spillway.graph.stages import Stage, stages
from spillway.local import LocalRun
from spillway.local import run as local_run
from spillway.operators import Count, Where
from spillway.operators.stateless import field


def kept(name: str, **options: object) -> Step:
    return Step(name=name, stateful=True, key=("k",), **options)  # type: ignore[arg-type]


def graph() -> CheckedGraph:
    """Two stages with state, a stream that passes by, windows, feedback."""
    drawn = Graph("g")
    stream = source(drawn)
    first = drawn.add(Step(name="pick"), stream)
    counted = drawn.add(kept("count", windowing=Hopping(count=5), feedback_inputs=("back",)), first)
    joined = drawn.add(kept("join", inputs=("left", "right"), shards=3), counted, first)
    drawn.connect(joined, "count", "back", feedback=True)
    drawn.sink("out", joined, Memory())
    drawn.sink("seen", first, Memory())
    return drawn.checked()


def without_operator(found: list[Stage]) -> list[Stage]:
    return [found[0], replace(found[1], operators=()), *found[2:]]


def with_operator_twice(found: list[Stage]) -> list[Stage]:
    return [found[0], found[1], replace(found[2], operators=(*found[2].operators, "count"))]


def with_fewer_tasks(found: list[Stage]) -> list[Stage]:
    return [*found[:2], replace(found[2], partitions=2)]


def turned_round(found: list[Stage]) -> list[Stage]:
    return [found[0], found[2], found[1]]


def without_stream(found: list[Stage]) -> list[Stage]:
    return [*found[:2], replace(found[2], arriving=found[2].arriving[1:])]


def with_stream_twice(found: list[Stage]) -> list[Stage]:
    return [replace(found[0], leaving=(*found[0].leaving, found[0].leaving[0])), *found[1:]]


def with_stream_too_far(found: list[Stage]) -> list[Stage]:
    into_count = next(edge for edge in found[1].arriving if edge.node == "count" and not edge.marks)
    return [found[0], replace(found[1], leaving=(*found[1].leaving, into_count)), found[2]]


def without_punctuation(found: list[Stage]) -> list[Stage]:
    return [found[0], replace(found[1], arriving=tuple(e for e in found[1].arriving if not e.marks)), found[2]]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (without_operator, "operator 'count' has 0 running instances"),
        (with_operator_twice, "operator 'count' has 2 running instances"),
        (with_fewer_tasks, "stage 2 has 2 tasks for 3 shards"),
        (turned_round, "stage 2 stands at place 1"),
        (without_stream, "arrives at stage 2 not at all, once is wanted"),
        (with_stream_twice, "leaves stage 0 2 times, once is wanted"),
        (with_stream_too_far, "stream pick.out to 'count' leaves stage 1 once, it should not"),
        (without_punctuation, "punctuation of stream pick.out to 'count' arrives at stage 1 not at all"),
    ],
)
def test_what_does_not_run_as_drawn_is_refused(broken: Callable[[list[Stage]], list[Stage]], said: str) -> None:
    drawn = graph()
    found = stages(drawn)
    check_activated(drawn, found)
    with pytest.raises(GraphError, match="would not run as it was drawn") as refused:
        check_activated(drawn, broken(found))
    assert said in str(refused.value)


def test_every_sink_is_fed_once() -> None:
    drawn = graph()
    found = stages(drawn)
    edges = [edge for edge in drawn.edges if edge.node in drawn.exits]
    check_activated(drawn, found, to_sinks=edges)
    with pytest.raises(GraphError, match="sink 'out' is fed by 2 streams"):
        check_activated(drawn, found, to_sinks=[*edges, edges[0]])
    with pytest.raises(GraphError, match="sink 'seen' is fed by 0 streams"):
        check_activated(drawn, found, to_sinks=edges[:1])


def test_a_run_asks_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Graph("g")
    stream = drawn.add(Where("pick", field("v") > 0), source(drawn))
    drawn.sink("out", drawn.add(Count("count", key="k"), stream), Memory())
    monkeypatch.setattr(local_run, "stages", lambda graph: without_operator(stages(graph)))
    with pytest.raises(GraphError, match="operator 'count' has 0 running instances"):
        LocalRun(drawn, backups="nowhere")
