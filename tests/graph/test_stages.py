"""How graphs are cut into stages, and how much one tuple can become on its way to a sink."""

import itertools

import pytest
from tests.graph.declared import Step, chain, source

from spillway.graph import Decaying, Graph, Hopping, Memory, Sliding, Windowing
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Stream
from spillway.graph.stages import Stage, stage_of, stages


def kept(name: str, **options: object) -> Step:
    return Step(name=name, stateful=True, key=("k",), **options)  # type: ignore[arg-type]


def story(graph: Graph) -> list[str]:
    """Each stage as one line: operators | tasks | arriving | leaving."""

    def tell(stage: Stage) -> str:
        arriving = " ".join(f"{edge.stream}>{edge.node}" for edge in stage.arriving)
        leaving = " ".join(f"{edge.stream}>{edge.node}" for edge in stage.leaving)
        return f"{' '.join(stage.operators)} | {stage.partitions} | {arriving} | {leaving}"

    return [tell(stage) for stage in stages(graph.checked())]


def test_a_graph_without_operators_is_one_stage() -> None:
    assert story(chain()) == [" | 0 |  | s.out>out"]


def test_stateless_operators_run_in_one_call() -> None:
    assert story(chain(Step(name="a"), Step(name="b"))) == ["a b | 0 |  | b.out>out"]


def test_every_operator_with_state_begins_a_stage() -> None:
    graph = chain(Step(name="a"), kept("b"), Step(name="c"), kept("d", shards=5), Step(name="e"))
    assert story(graph) == [
        "a | 0 |  | a.out>b",
        "b c | 2 | a.out>b | c.out>d",
        "d e | 5 | c.out>d | e.out>out",
    ]


def test_operators_side_by_side_share_a_stage_as_wide_as_the_widest() -> None:
    graph = Graph("g")
    stream = source(graph)
    for name, shards in (("narrow", 1), ("wide", 7)):
        graph.sink(f"out-{name}", graph.add(kept(name, shards=shards), stream), Memory())
    assert story(graph) == [
        " | 0 |  | s.out>narrow s.out>wide",
        "narrow wide | 7 | s.out>narrow s.out>wide | narrow.out>out-narrow wide.out>out-wide",
    ]


def test_a_diamond_waits_for_its_longer_side() -> None:
    graph = Graph("g")
    stream = source(graph)
    long, short = graph.add(kept("long"), stream), graph.add(Step(name="short"), stream)
    joined = graph.add(Step(name="union", inputs=("a", "b")), long, short)
    graph.sink("out", joined, Memory())
    assert stage_of(graph.checked()) == {"long": 1, "short": 0, "union": 1}
    assert story(graph) == [
        "short | 0 |  | s.out>long short.out>union",
        "long union | 2 | s.out>long short.out>union | union.out>out",
    ]


def test_streams_that_only_pass_by_go_through_every_stage() -> None:
    graph = Graph("g")
    first, second = source(graph, "s1"), source(graph, "s2")
    late = graph.add(kept("b"), graph.add(kept("a"), first))
    both = graph.add(kept("join", inputs=("left", "right")), late, second)
    graph.sink("out", both, Memory())
    graph.sink("raw", second, Memory())
    assert story(graph) == [
        " | 0 |  | s1.out>a s2.out>join s2.out>raw",
        "a | 2 | s1.out>a s2.out>join s2.out>raw | a.out>b s2.out>join s2.out>raw",
        "b | 2 | a.out>b s2.out>join s2.out>raw | b.out>join s2.out>join s2.out>raw",
        "join | 2 | b.out>join s2.out>join s2.out>raw | join.out>out s2.out>raw",
    ]


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_what_leaves_a_stage_arrives_at_the_next(depth: int) -> None:
    graph = chain(*(kept(f"k{i}") for i in range(depth)))
    cut = stages(graph.checked())
    assert [stage.index for stage in cut] == list(range(depth + 1))
    for before, after in itertools.pairwise(cut):
        assert before.leaving == after.arriving
    assert cut[0].arriving == ()


def test_an_operator_without_a_key_has_one_shard() -> None:
    graph = chain(Step(name="a", stateful=True), shards=4)
    assert [stage.partitions for stage in stages(graph.checked())] == [0, 1]


def test_feedback_crosses_no_stage() -> None:
    graph = chain(Step(name="a", stateful=True, feedback_inputs=("back",)), kept("b"))
    graph.connect(Stream("b", "out"), "a", "back", feedback=True)
    checked = graph.checked()
    assert not any(edge.feedback for stage in stages(checked) for edge in (*stage.arriving, *stage.leaving))
    assert [str(edge.stream) for edge in checked.feedback_into("a")] == ["b.out"]
    assert checked.feedback_out_of("b") == checked.feedback_into("a")


def test_punctuation_travels_with_the_tuples_of_hopping_windows() -> None:
    graph = chain(kept("a"), Step(name="b", stateful=True, shards=3, windowing=Hopping(count=10)))
    first, second, third = stages(graph.checked())
    marks = [edge for edge in second.leaving if edge.marks]
    assert [(edge.node, str(edge.stream)) for edge in marks] == [("b", "a.out")]
    assert not any(edge.marks for edge in (*first.leaving, *third.leaving))
    assert second.leaving == third.arriving
    assert third.partitions == 3


@pytest.mark.parametrize("windowing", [None, Sliding(count=10), Decaying()])
def test_other_windows_need_no_punctuation(windowing: Windowing | None) -> None:
    graph = chain(Step(name="a", stateful=True, windowing=windowing))
    assert not any(edge.marks for stage in stages(graph.checked()) for edge in stage.leaving)


def diamonds(count: int, **options: float) -> CheckedGraph:
    """So many diamonds in a row, each of which can make two tuples of one."""
    graph = Graph("g")
    stream = graph.add(Step(name="first"), source(graph))
    for i in range(count):
        sides = [graph.add(Step(name=f"side{i}-{j}", **options), stream) for j in range(2)]  # type: ignore[arg-type]
        stream = graph.add(Step(name=f"union{i}", inputs=("a", "b")), *sides)
    graph.sink("out", stream, Memory())
    return graph.checked()


class TestDownstreamOutputs:
    """β^(m-i) of a pipeline, and the same thought on other graphs."""

    def test_factors_multiply_along_a_chain(self) -> None:
        graph = chain(*(Step(name=name, outputs_per_tuple_max=beta) for name, beta in [("a", 2), ("b", 3), ("c", 5)]))
        checked = graph.checked()
        assert [checked.downstream_outputs_max(name) for name in "abc"] == [15.0, 5.0, 1.0]

    def test_an_operator_that_drops_does_not_make_up_for_anything(self) -> None:
        graph = chain(Step(name="a"), Step(name="b", outputs_per_tuple_max=0.5))
        assert graph.checked().downstream_outputs_max("a") == 1.0

    def test_paths_that_meet_again_add_up(self) -> None:
        assert diamonds(1).downstream_outputs_max("first") == 2.0
        assert diamonds(1, outputs_per_tuple_max=3.0).downstream_outputs_max("first") == 6.0

    def test_many_diamonds_are_counted_at_once(self) -> None:
        assert diamonds(60).downstream_outputs_max("first") == 2.0**60

    def test_sinks_are_counted_each_for_itself(self) -> None:
        graph = Graph("g")
        stream = graph.add(Step(name="a"), source(graph))
        for name, beta in (("b", 3.0), ("c", 4.0)):
            graph.sink(f"out-{name}", graph.add(Step(name=name, outputs_per_tuple_max=beta), stream), Memory())
        assert graph.checked().downstream_outputs_max("a") == 4.0

    def test_a_tuple_leaves_by_one_port(self) -> None:
        graph = Graph("g")
        split = Step(name="split", outputs=("low", "high"))
        low = graph.add(split, source(graph))
        graph.sink("out", graph.add(Step(name="union", inputs=("a", "b")), low, graph.output(split, "high")), Memory())
        assert graph.checked().downstream_outputs_max("split") == 1.0
