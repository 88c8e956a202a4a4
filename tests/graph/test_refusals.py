"""Everything that a graph refuses, and the sentence it says it with."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.graph.declared import SCHEMA, Step, chain, feed, source

from spillway.errors import GraphError
from spillway.graph import Console, Discard, ForEachBatch, Graph, Hopping, Memory, Parquet, Sliding
from spillway.graph.nodes import Stream

INT32_SEQ = pa.schema([("seq", pa.int32())])
TWICE = pa.schema([("seq", pa.int64()), ("v", pa.int64()), ("v", pa.string())])


def no_source() -> Graph:
    graph = Graph("g")
    graph.sink("out", Stream("s", "out"), Memory())
    return graph


def no_sink() -> Graph:
    graph = Graph("g")
    source(graph)
    return graph


def reads_nothing_written() -> Graph:
    graph = chain()
    graph.add(Step(name="a"), Stream("ghost", "out"))
    return graph


def port_not_there() -> Graph:
    graph = chain(Step(name="a"))
    graph.connect(Stream("s", "out"), "a", "left")
    return graph


def node_not_there() -> Graph:
    graph = chain()
    graph.connect(Stream("s", "out"), "ghost", "in")
    return graph


def back(*steps: Step, feedback: bool = True) -> Graph:
    """A chain whose last output leads back to the first step."""
    graph = chain(*steps)
    graph.connect(Stream(steps[-1].name, "out"), steps[0].name, "back", feedback=feedback)
    return graph


def input_without_stream() -> Graph:
    graph = chain()
    graph.sink("more", graph.add(Step(name="join", inputs=("left", "right")), Stream("s", "out")), Memory())
    return graph


def input_with_two_streams() -> Graph:
    graph = chain(Step(name="a"))
    graph.connect(Stream("s", "out"), "a", "in")
    return graph


def sink_with_two_streams() -> Graph:
    graph = chain(Step(name="a"))
    graph.connect(Stream("s", "out"), "out", "in")
    return graph


def output_read_by_nothing() -> Graph:
    return chain(Step(name="a", outputs=("out", "errors")))


def source_read_by_nothing() -> Graph:
    graph = chain(Step(name="a"))
    source(graph, "unread")
    return graph


def cycle() -> Graph:
    graph = chain(Step(name="a", inputs=("in", "back")), Step(name="b"), Step(name="after"))
    graph.connect(Stream("b", "out"), "a", "back")
    return graph


def cycle_of_one() -> Graph:
    graph = chain(Step(name="a", inputs=("in", "back")))
    graph.connect(Stream("a", "out"), "a", "back")
    return graph


CHECKED: dict[str, tuple[Callable[[], Graph], str]] = {
    "no source": (no_source, "Graph 'g' has no source."),
    "no sink": (no_sink, "Graph 'g' has no sink."),
    "a stream that nothing writes": (
        reads_nothing_written,
        "Operator 'a' reads ghost.out, which nothing in the graph writes.",
    ),
    "a port that is not there": (port_not_there, "Stream s.out leads to port 'left' of 'a', which has ports in."),
    "a node that is not there": (
        node_not_there,
        "Stream s.out leads to port 'in' of 'ghost', which has no input ports or is not in the graph.",
    ),
    "an input without a stream": (
        input_without_stream,
        "Operator 'join': input port 'right' wants exactly one stream; got 0.",
    ),
    "an input with two streams": (
        input_with_two_streams,
        "Operator 'a': input port 'in' wants exactly one stream; got 2.",
    ),
    "a sink with two streams": (
        sink_with_two_streams,
        "Operator 'out': input port 'in' wants exactly one stream; got 2.",
    ),
    "an output that nothing reads": (
        output_read_by_nothing,
        "Operator 'a': output port 'errors' is read by nothing. Lead it to a sink.",
    ),
    "a source that nothing reads": (
        source_read_by_nothing,
        "Operator 'unread': output port 'out' is read by nothing. Lead it to a sink.",
    ),
    "a cycle": (
        cycle,
        "Operators a, b form a cycle. A stream that goes upstream must be connected with feedback=True.",
    ),
    "a cycle of one": (
        cycle_of_one,
        "Operators a form a cycle. A stream that goes upstream must be connected with feedback=True.",
    ),
    "an output without seq": (
        lambda: chain(Step(name="a", schema=pa.schema([("v", pa.int64())]))),
        "Operator 'a': output 'out' must keep the column 'seq' of int64; it has v int64.",
    ),
    "an output with another seq": (
        lambda: chain(Step(name="a", schema=INT32_SEQ)),
        "Operator 'a': output 'out' must keep the column 'seq' of int64; it has seq int32.",
    ),
    "two columns of one name": (
        lambda: chain(Step(name="a", schema=TWICE)),
        "Operator 'a': output 'out' has 2 columns named 'v'; name them apart.",
    ),
    "no schema for a port": (
        lambda: chain(Step(name="a", schemas={})),
        "Operator 'a' has output ports out; it gives schemas for none.",
    ),
    "a schema for no port": (
        lambda: chain(Step(name="a", schemas={"out": SCHEMA, "more": SCHEMA})),
        "Operator 'a' has output ports out; it gives schemas for out, more.",
    ),
    "no shards": (
        lambda: chain(Step(name="a", stateful=True, key=("k",), shards=0)),
        "Operator 'a': shards must be a whole number, 1 or more; got 0.",
    ),
    "shards that are true": (
        lambda: chain(Step(name="a", stateful=True, key=("k",), shards=True)),
        "Operator 'a': shards must be a whole number, 1 or more; got True.",
    ),
    "shards without state": (
        lambda: chain(Step(name="a", shards=2)),
        "Operator 'a' keeps no state, so 2 shards have no meaning for it.",
    ),
    "a window without state": (
        lambda: chain(Step(name="a", windowing=Hopping(count=5))),
        "Operator 'a' keeps no state, so a window has no meaning for it.",
    ),
    "a window of a column that is not there": (
        lambda: chain(Step(name="a", stateful=True, windowing=Sliding(time="at", length=5))),
        "Operator 'a', port 'in': windows want a column 'at'; there are seq, k, v.",
    ),
    "a window of a column that is no time": (
        lambda: chain(Step(name="a", stateful=True, windowing=Hopping(time="k", length=5))),
        "Operator 'a', port 'in': windows want an integer column and a whole length, or a timestamp and a timedelta; "
        "'k' is string and the length 5.",
    ),
    "a punctuation that is not boolean": (
        lambda: chain(Step(name="a", stateful=True, windowing=Hopping(punctuation="v"))),
        "Operator 'a', port 'in': windows want a boolean column 'v'; there are seq, k, v.",
    ),
    "feedback to an ordinary port": (
        lambda: back(Step(name="a", inputs=("in", "back"), stateful=True)),
        "Operator 'a': port 'back' takes no feedback; a.out leads to it.",
    ),
    "a stream to a port for feedback": (
        lambda: back(Step(name="a", stateful=True, feedback_inputs=("back",)), feedback=False),
        "Operator 'a': port 'back' takes feedback only: connect it with feedback=True; a.out leads to it.",
    ),
    "feedback to an operator that keeps nothing": (
        lambda: back(Step(name="a", feedback_inputs=("back",))),
        "Operator 'a' keeps no state, so feedback on 'back' has no effect.",
    ),
    "feedback from an operator that keeps nothing": (
        lambda: back(Step(name="a", stateful=True, feedback_inputs=("back",)), Step(name="b")),
        "Operator 'a': feedback comes from an operator that keeps state; b.out does not.",
    ),
    "a key without state": (
        lambda: chain(Step(name="a", key=("k",))),
        "Operator 'a' keeps no state, so a key has no meaning for it.",
    ),
    "fewer outputs than none": (
        lambda: chain(Step(name="a", outputs_per_tuple_max=-1.0)),
        "Operator 'a': outputs_per_tuple_max must be a number, 0 or more; got -1.0.",
    ),
    "outputs that are no number": (
        lambda: chain(Step(name="a", outputs_per_tuple_max=float("nan"))),
        "Operator 'a': outputs_per_tuple_max must be a number, 0 or more; got nan.",
    ),
    "a key that is not there": (
        lambda: chain(Step(name="a", stateful=True, key=("k", "ip"))),
        "Operator 'a': key column 'ip' is wanted on port 'in'; s.out has seq, k, v.",
    ),
    "a key that cannot be hashed": (
        lambda: chain(
            Step(name="a", schema=SCHEMA.append(pa.field("f", pa.uint64()))),
            Step(name="b", stateful=True, key=("f",)),
        ),
        "Operator 'b': key column 'f' must be an integer, a string, a boolean, a date, a timestamp, a decimal, bytes "
        "or a floating-point number; it is uint64.",
    ),
}


@pytest.mark.parametrize("case", CHECKED)
def test_a_malformed_graph_is_refused(case: str) -> None:
    make, message = CHECKED[case]
    graph = make()
    nodes, edges = dict(graph.nodes), graph.edges
    with pytest.raises(GraphError) as refused:
        graph.checked()
    assert str(refused.value) == message
    assert (dict(graph.nodes), graph.edges) == (nodes, edges)


DRAWN: dict[str, tuple[Callable[[Graph], object], str]] = {
    "a source that is neither feed nor frame": (
        lambda g: g.source("more", [1, 2]),
        "Source 'more': a trace, a generator or a streaming DataFrame is wanted; got list.",
    ),
    "a source without the column that numbers": (
        lambda g: g.source("more", feed(), seq="id"),
        "Source 'more': a column 'id' of int64 is wanted to number tuples; got seq int64, k string, v int64.",
    ),
    "a source numbered by something else than int64": (
        lambda g: g.source("more", feed(), seq="k"),
        "Source 'more': a column 'k' of int64 is wanted to number tuples; got seq int64, k string, v int64.",
    ),
    "a source with two numberings": (
        lambda g: g.source("more", feed(), seq="v"),
        "Source 'more': tuples are numbered by 'v', which will be called 'seq', but there is a column 'seq' already. "
        "Drop or rename it before the source.",
    ),
    "a name taken by a source": (
        lambda g: g.source("s", feed()),
        "Graph 'g': there are two nodes named 's'; names must be unique.",
    ),
    "a name taken by an operator": (
        lambda g: g.add(Step(name="a"), Stream("s", "out")),
        "Graph 'g': there are two nodes named 'a'; names must be unique.",
    ),
    "a name taken by a sink": (
        lambda g: g.sink("out", Stream("a", "out"), Memory()),
        "Graph 'g': there are two nodes named 'out'; names must be unique.",
    ),
    "more streams than ports": (
        lambda g: g.add(Step(name="b"), Stream("s", "out"), Stream("a", "out")),
        "Operator 'b' has input ports in; got 2 streams.",
    ),
    "a port by a wrong name": (
        lambda g: g.add(Step(name="b"), left=Stream("s", "out")),
        "Operator 'b' has input ports in; got 0 streams and port 'left'.",
    ),
    "an operator instead of a stream": (
        lambda g: g.add(Step(name="b"), Step(name="a")),  # type: ignore[arg-type]
        "'b' wants to read a stream, as source() and add() return them; got Step.",
    ),
    "a name instead of a stream": (
        lambda g: g.connect("s", "a", "in"),  # type: ignore[arg-type]
        "'a' wants to read a stream, as source() and add() return them; got str.",
    ),
    "an operator without outputs": (
        lambda g: g.add(Step(name="b", outputs=()), Stream("s", "out")),
        "Operator 'b' has no output port; it wants at least one, if only to a sink.",
    ),
    "an output that is not there": (
        lambda g: g.output(Step(name="a", outputs=("out", "late")), "early"),
        "Operator 'a' has no output port 'early'; it has out, late.",
    ),
    "a sink of no stream": (
        lambda g: g.sink("more", "a", Memory()),  # type: ignore[arg-type]
        "'more' wants to read a stream, as source() and add() return them; got str.",
    ),
    "a folder instead of a sink": (
        lambda g: g.sink("more", Stream("a", "out"), "out/"),  # type: ignore[arg-type]
        "Sink 'more': a sink such as Parquet(folder) is wanted; got str.",
    ),
    "a style that does not exist": (
        lambda g: g.draw(style="dot"),
        "draw: style must be one of text, mermaid, svg; got 'dot'.",
    ),
}


@pytest.mark.parametrize("case", DRAWN)
def test_a_refused_call_leaves_the_graph_as_it_was(case: str) -> None:
    call, message = DRAWN[case]
    graph = chain(Step(name="a"))
    before = dict(graph.nodes), graph.edges
    with pytest.raises(GraphError) as refused:
        call(graph)
    assert str(refused.value) == message
    assert (dict(graph.nodes), graph.edges) == before
    graph.checked()


NAMES = ["", "a b", "a/b", "ä", "a.b", "..", "a\n", "x" * 101, 7, None]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_safe_everywhere(name: str) -> None:
    for call, what in (
        (lambda: Graph(name), "graph"),
        (lambda: chain(Step(name=name)), "node"),
        (lambda: Graph("g").source(name, feed()), "node"),
        (lambda: chain().sink(name, Stream("s", "out"), Memory()), "node"),
    ):
        with pytest.raises(GraphError) as refused:
            call()
        assert str(refused.value) == (
            f"A {what} is named with letters, digits, '-' and '_', at most 100; got {name!r}."
        )


def test_a_good_name_is_taken() -> None:
    chain(Step(name="x" * 100), name="Some-graph_7").checked()


@pytest.mark.parametrize("shards", [0, -1, True, 1.0, "2", None])
def test_a_graph_has_a_whole_number_of_shards(shards: int) -> None:
    with pytest.raises(GraphError, match="Graph 'g': shards must be a whole number, 1 or more; got"):
        Graph("g", shards=shards)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parquet(""), "Parquet: the path of a folder is wanted, as text; got ''."),
        (lambda: Parquet(7), "Parquet: the path of a folder is wanted, as text; got 7."),  # type: ignore[arg-type]
        (lambda: Console(-1), "Console: rows must be a whole number, 0 or more; got -1."),
        (lambda: Memory(rows_max=True), "Memory: rows_max must be a whole number, 0 or more; got True."),
        (
            lambda: ForEachBatch("print"),  # type: ignore[arg-type]
            "ForEachBatch: a function of a batch and its number is wanted; got 'print'.",
        ),
    ],
)
def test_a_sink_is_checked(make: Callable[[], object], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        make()
    assert str(refused.value) == message


def test_what_is_well_formed_passes() -> None:
    """Two sources, a diamond, a direct way from source to sink, several ports, feedback."""
    graph = Graph("g", shards=3)
    first, second = source(graph, "s1"), source(graph, "s2")
    split = Step(name="split", outputs=("low", "high"))
    low = graph.add(split, first)
    joined = graph.add(
        Step(name="join", inputs=("left", "right"), feedback_inputs=("back",), stateful=True, key=("k",)),
        right=graph.output(split, "high"),
        left=low,
    )
    graph.connect(joined, "join", "back", feedback=True)
    graph.sink("out", joined, Discard())
    graph.sink("raw", second, Discard())
    checked = graph.checked()
    assert checked.order == ("split", "join")
    assert checked.shards_of("join") == 3
    assert [str(edge.stream) for edge in checked.into("join")] == ["split.high", "split.low"]
    assert set(checked.output_schemas("split")) == {"low", "high"}
    with pytest.raises(TypeError):
        checked.operators["more"] = split  # type: ignore[index]


class NumberedById:
    """A feed of one's own, whose tuples are numbered by a column of another name."""

    schema = pa.schema([("x", pa.string()), ("id", pa.int64())])
    pieces = 0
    pieces_per_batch = 1

    def read(self, piece: int) -> pa.RecordBatch:
        raise AssertionError("there are no pieces")


def test_the_column_that_numbers_is_called_seq_in_the_graph() -> None:
    graph = Graph("g")
    graph.sink("out", graph.source("s", NumberedById(), seq="id"), Memory())
    seen = graph.checked().schemas[Stream("s", "out")]
    assert seen == pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("x", pa.string())])
