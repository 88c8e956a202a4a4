"""Graphs cut into jobs: who belongs where, what is refused, and what each part is."""

from typing import Any

import pytest
from tests.graph.declared import SCHEMA, Step, feed

from spillway.errors import GraphError
from spillway.graph import Coordinated, Discard, Exact, Graph, Nothing, Protection, Uncoordinated
from spillway.graph.growing import Files
from spillway.graph.jobs import check_repeatable, job_of_nodes
from spillway.graph.nodes import Edge, Exit, Source, Stream
from spillway.graph.stream_logs import LogInput, LogOutput
from spillway.operators import Count


def line(*names: str) -> Graph:
    """A source, operators one after the other, and a sink."""
    graph = Graph("line")
    stream = graph.source("in", feed())
    for name in names:
        stream = graph.add(Step(name=name), stream)
    graph.sink("out", stream, Discard())
    return graph


def test_what_is_in_no_job_is_that_of_the_graphs_own_name_and_ends_go_with_operators() -> None:
    graph = line("a", "b", "c")
    graph.job("tail", ["c"])
    assert job_of_nodes(graph) == {"in": "line", "a": "line", "b": "line", "c": "tail", "out": "tail"}
    assert list(graph.divided()) == ["line", "tail"]


def test_a_graph_without_jobs_is_one() -> None:
    graph = line("a")
    assert graph.divided() == {"line": graph}


def test_a_stream_between_jobs_has_one_log_with_both_ends() -> None:
    graph = line("a", "b", "c")
    middle = graph.add(Step(name="d"), Stream("b", "out"))
    graph.sink("also", middle, Discard())
    graph.job("tail", ["c"], drops=[Stream("b", "out")])
    graph.job("side", ["d"])
    parts = {job: part.checked() for job, part in graph.divided().items()}
    written = parts["line"].exits["b.out"].sink
    assert isinstance(written, LogOutput)
    assert [(reader.job, reader.drops) for reader in written.readers] == [("tail", True), ("side", False)]
    assert dict(written.most) == {"out": 1.0, "also": 1.0}
    for job, drops in (("tail", True), ("side", False)):
        log = parts[job].sources["b.out"].log
        assert log is not None and (log.producer, log.reader, log.drops, log.in_step) == ("line", job, drops, True)
        assert log.schema == parts["line"].schemas[Stream("b", "out")]
    assert list(parts["line"].operators) == ["a", "b"]


def test_a_source_of_two_jobs_goes_with_the_first_and_may_be_put_elsewhere() -> None:
    graph = line("a", "b")
    graph.sink("raw", graph.add(Step(name="c"), Stream("in", "out")), Discard())
    graph.job("two", ["b", "c"])
    assert job_of_nodes(graph)["in"] == "line"
    assert isinstance(graph.divided()["line"].checked().exits["in.out"].sink, LogOutput)
    graph.job("reading", ["in"])
    assert list(graph.divided()) == ["reading", "line", "two"]


def test_what_one_tuple_can_become_is_counted_beyond_the_log() -> None:
    graph = Graph("many")
    a = graph.add(Step(name="a"), graph.source("in", feed()))
    double = Step(name="b", outputs_per_tuple_max=2.0)
    graph.sink("out", graph.add(double, a), Discard())
    whole = graph.checked().downstream_outputs_max("a")
    graph.job("tail", ["b"])
    assert graph.divided()["many"].checked().downstream_outputs_max("a") == whole == 2.0


def circle(*, feedback: bool) -> Graph:
    graph = Graph("circle")
    first = Step(name="first", stateful=True, feedback_inputs=("back",)) if feedback else Step(name="first")
    second = Step(name="second", stateful=True)
    stream = graph.add(second, graph.add(first, graph.source("in", feed())))
    if feedback:
        graph.connect(stream, "first", "back", feedback=True)
    graph.sink("out", graph.add(Step(name="third"), stream), Discard())
    return graph


def test_feedback_between_jobs_is_a_log_and_a_circle_without_is_refused() -> None:
    graph = circle(feedback=True)
    graph.job("two", ["second", "third"])
    one = graph.divided()["circle"].checked()
    assert one.feedback_into("first") == [Edge(Stream("second.out", "out"), "first", "back", True)]
    assert one.senders_of(one.feedback_into("first")[0]) == 1
    graph = circle(feedback=False)
    graph.job("outer", ["first", "third"])
    with pytest.raises(GraphError, match=r"jobs outer, circle wait for each other, by first\.out to 'second' and sec"):
        graph.checked()


@pytest.mark.parametrize(
    ("jobs", "sentence"),
    [
        ([("x", ["a", "nobody"])], "job 'x' names 'nobody', which is not in the graph"),
        ([("x", ["a"]), ("y", ["a"])], "'a' is in job 'x' and in job 'y'; it must be in one"),
        ([("line", ["a"])], "a job has the graph's own name, which is that of whatever is in no job: b, c"),
    ],
)
def test_jobs_that_cannot_be_are_refused(jobs: list[tuple[str, list[str]]], sentence: str) -> None:
    graph = line("a", "b", "c")
    for name, operators in jobs:
        graph.job(name, operators)
    with pytest.raises(GraphError, match=sentence):
        graph.checked()


def test_what_is_no_job_is_refused_at_once() -> None:
    graph = line("a")
    graph.job("x", [Step(name="a")])
    for name, operators, sentence in (
        ("x", ["a"], "there are two jobs named 'x'"),
        ("y", [], "a list of operators is wanted"),
        ("y", "a", "a list of operators is wanted"),
        ("y", [3], "operators, or their names, are wanted; got int"),
        ("a b", ["a"], "A job is named with letters"),
    ):
        with pytest.raises(GraphError, match=sentence):
            graph.job(name, operators)  # type: ignore[arg-type]
    graph.job("z", ["out"], drops=[Stream("in", "out")])
    with pytest.raises(GraphError, match=r"job 'z' drops in\.out while it is down, but does not read it"):
        graph.checked()


def test_jobs_are_in_step_where_batches_come_one_for_one() -> None:
    graph = Graph("clocks")
    a = graph.add(Step(name="a"), graph.source("one", Files(folder="/dev/null", stored=SCHEMA)))
    b = graph.add(Step(name="b"), a)
    c = graph.add(Step(name="c", inputs=("left", "right")), a, b)
    d = graph.add(Step(name="d", inputs=("left", "right")), c, graph.add(Step(name="e"), graph.source("two", feed())))
    graph.sink("out", d, Discard())
    for name in "abcde":
        graph.job(name, [name])
    steps = {
        job: {name: node.log.in_step for name, node in part.nodes.items() if isinstance(node, Source) and node.log}
        for job, part in graph.divided().items()
    }
    # c gets what a alone counts, by two ways; d gets files as they come and a feed that counts by itself.
    assert steps["c"] == {"a.out": True, "b.out": True}
    assert steps["d"] == {"c.out": False, "e.out": False}


def test_a_job_that_goes_back_must_read_the_same_batches_again() -> None:
    frame = Source("frame", object(), SCHEMA, "seq")
    log = LogOutput(graph="g", stream="a.out", producer="p", readers=(), most=())
    graph = line("a")
    graph._nodes |= {"in": Source("in", frame.data, frame.schema, "seq"), "out": Exit("out", log)}
    with pytest.raises(GraphError, match="Source 'in' is a streaming DataFrame, which Spark divides into other batch"):
        check_repeatable(graph.checked())
    check_repeatable(line("a").checked())


def test_drawing_shows_jobs() -> None:
    graph = line("a", "b")
    graph.job("tail", ["b"])
    assert graph.draw().splitlines()[3:] == ["    -> b  Step  (job tail)", "      -> out  sink Discard  (job tail)"]
    drawn = graph.draw(style="mermaid")
    assert 'subgraph j0["line"]\n  n0(' in drawn and 'subgraph j1["tail"]\n  n2[' in drawn
    part = graph.divided()["tail"]
    assert part.draw().splitlines()[:2] == ["line-tail", "a.out  source stream log of line"]
    assert isinstance(part.nodes["a.out"].data, LogInput)  # type: ignore[union-attr]


def whole(protect: Protection | None, of_job: Protection | None = None, **options: Any) -> Graph:
    graph = Graph("line", protect=protect)
    stream = graph.source("in", feed())
    for name in ("a", "b"):
        stream = graph.add(Step(name=name, stateful=True), stream)
    graph.sink("out", stream, Discard())
    graph.job("tail", ["b"], protect=of_job, **options)
    return graph


def test_a_job_is_protected_by_what_was_said_of_it_or_of_the_graph() -> None:
    often, seldom = Coordinated(batches=3), Uncoordinated(batches=30)
    parts = whole(often, seldom).divided()
    assert [parts[job].protect for job in ("line", "tail")] == [often, seldom]
    assert [parts[job].checked().operators[name].protect for job, name in (("line", "a"), ("tail", "b"))] == [
        often,
        seldom,
    ]
    early = Graph("line", protect=often)
    early.job("tail", ["b"], protect=seldom)  # before there is such an operator
    stream = early.add(Step(name="a", stateful=True), early.source("in", feed()))
    early.sink("out", early.add(Step(name="b", stateful=True), stream), Discard())
    assert early.checked().operators["b"].protect == seldom


@pytest.mark.parametrize("protect", [None, Exact()])
def test_jobs_of_which_some_go_back_and_some_do_not_are_refused(protect: Protection | None) -> None:
    said = r"job 'tail' is protected by Coordinated\(every 3 batches\), under which it goes back .* and line is not"
    with pytest.raises(GraphError, match=said):
        whole(protect, Coordinated(batches=3)).divided()


def test_an_operator_with_a_protection_of_its_own_in_a_job_that_goes_back_is_refused() -> None:
    graph = Graph("line", protect=Coordinated(batches=3))
    stream = graph.add(Count("a", key="k", protect=None), graph.source("in", feed()))
    graph.sink("out", graph.add(Count("b", key="k", count_as="times", protect=Nothing()), stream), Discard())
    graph.job("tail", ["b"])
    with pytest.raises(GraphError, match=r"job 'tail' is protected by Coordinated.* operator 'b' names Nothing"):
        graph.divided()


def test_what_is_dropped_cannot_be_lossless() -> None:
    with pytest.raises(GraphError, match=r"job 'tail' drops a\.out while it is down, and is protected by Coordinated"):
        whole(Coordinated(batches=3), drops=[Stream("a", "out")]).divided()
