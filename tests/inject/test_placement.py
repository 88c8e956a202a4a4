"""Where faults are worth putting: the rules one by one, and the paper's application."""

import pyarrow as pa
import pytest
from tests.inject.small import bargain
from tests.operators.running import feed_of, tuples

from spillway.errors import GraphError
from spillway.graph import Discard, Graph, Stream
from spillway.inject import place
from spillway.operators import Count, Select, Union


def choices(graph: Graph, *, sink: str = "out", model: str = "outage") -> dict[str, bool]:
    return {choice.operator: choice.chosen for choice in place(graph.checked(), sink=sink, model=model)}


def source(graph: Graph, name: str = "source") -> Stream:
    return graph.source(name, feed_of([tuples(word=pa.array(["a"]), x=[1.0])]))


def test_bargain_discovery_has_the_targets_of_the_paper() -> None:
    found = place(bargain().checked(), sink="Sink")
    assert [choice.operator for choice in found if choice.chosen] == [
        "Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex",
    ]  # fmt: skip
    skipped = {choice.operator: choice.same_as for choice in found if not choice.chosen}
    assert skipped == {"TradeQuote": "Source", "Aggregator": "TradeFilter"}
    assert all(choice.reason.endswith(".") for choice in found)


def test_a_chain_without_state_fails_as_its_source_does() -> None:
    graph = Graph("chain")
    stream = graph.add(Select("b", ["x"]), graph.add(Select("a", ["x"]), source(graph)))
    graph.sink("out", stream, Discard())
    assert choices(graph) == {"source": True, "a": False, "b": False}
    assert {choice.same_as for choice in place(graph.checked(), sink="out") if not choice.chosen} == {"source"}


def test_what_comes_after_state_is_a_target() -> None:
    graph = Graph("state")
    counts = graph.add(Count("counts", key="word"), source(graph))
    graph.sink("out", graph.add(Select("after", ["count"]), counts), Discard())
    assert choices(graph) == {"source": True, "counts": False, "after": True}


def test_what_merges_streams_is_a_target() -> None:
    graph = Graph("merge")
    both = graph.add(Union("both"), source(graph, "one"), source(graph, "two"))
    graph.sink("out", both, Discard())
    assert choices(graph) == {"one": True, "two": True, "both": True}


def test_only_what_reaches_the_scored_sink_counts() -> None:
    graph = Graph("two-sinks")
    stream = source(graph)
    graph.sink("out", graph.add(Select("scored", ["x"]), stream), Discard())
    graph.sink("other", graph.add(Select("aside", ["x"]), stream), Discard())
    # The other reader does not count, so the two do not share the source.
    assert choices(graph) == {"source": True, "scored": False, "aside": False}
    assert choices(graph, sink="other") == {"source": True, "scored": False, "aside": False}


def test_models_have_targets_of_their_own() -> None:
    graph = bargain()
    state = choices(graph, sink="Sink", model="state")
    assert [name for name, chosen in state.items() if chosen] == ["Aggregator", "BargainIndex"]
    order = choices(graph, sink="Sink", model="reordering")
    assert [name for name, chosen in order.items() if chosen] == ["Source", "BargainIndex"]


def test_a_sink_that_is_not_there_is_refused() -> None:
    with pytest.raises(GraphError, match="has no sink 'out'; it has Sink"):
        place(bargain().checked(), sink="out")
