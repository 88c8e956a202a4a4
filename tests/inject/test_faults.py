"""Fault models, the operator that strikes, and graphs with faults in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.inject.small import bargain
from tests.operators.running import feed_of, running, tuples

from spillway.errors import GraphError, InputError, SpillwayError
from spillway.graph import Discard, Graph, Memory
from spillway.inject import (
    Duplication,
    Fault,
    Outage,
    Reordering,
    ValueCorruption,
    faults,
    parse_fault,
    place,
    with_fault,
)
from spillway.inject.models import MODELS, fault_model
from spillway.inject.rewriting import entries, redraw
from spillway.operators import Select, Union

COMMON: dict[str, Any] = {"targets": ("second",), "offset": 3, "length": 4}


def after(fault: Fault, *, cut: int = 12, count: int = 12) -> pa.Table:
    """What a chain of two operators puts out with a fault in it."""
    batch = tuples(x=np.arange(count, dtype=np.float64), y=np.arange(count) * 10)
    graph = Graph("chain")
    source = graph.source("source", feed_of([batch.slice(i, cut) for i in range(0, count, cut)]))
    first = graph.add(Select("first", ["x", "y"]), source)
    graph.sink("out", graph.add(Select("second", ["x", "y"]), first), Memory())
    with running(with_fault(graph, fault)) as run:
        run.run()
        found = run.result("out")
    return found.take(pa.array(np.argsort(np.asarray(found["seq"]), kind="stable")))


@pytest.mark.parametrize("cut", [12, 5, 1])
def test_an_outage_takes_a_burst_of_tuples(cut: int) -> None:
    assert after(Outage(**COMMON), cut=cut)["seq"].to_pylist() == [0, 1, 2, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("cut", [12, 5])
def test_duplication_repeats_them(cut: int) -> None:
    found = after(Duplication(**COMMON, copies=3), cut=cut)["seq"].to_pylist()
    assert found == [0, 1, 2, *sorted([3, 4, 5, 6] * 3), 7, 8, 9, 10, 11]


@pytest.mark.parametrize("cut", [12, 4])
def test_reordering_exchanges_tuples_that_are_near(cut: int) -> None:
    found = [after(Reordering(**COMMON, reach=4, seed=seed), cut=cut) for seed in range(6)]
    for table in found:
        values = table["x"].to_pylist()
        assert table["seq"].to_pylist() == list(range(12))
        # Struck are 3, alone in its span, and 4 to 6.
        assert sorted(values) == [*map(float, range(12))] and values[:4] + values[7:] == [0, 1, 2, 3, 7, 8, 9, 10, 11]
        assert [10 * value for value in values] == table["y"].to_pylist()
    assert len({tuple(table["x"].to_pylist()) for table in found}) > 1


@pytest.mark.parametrize("column", ["x", "y"])
def test_corruption_changes_one_column_of_the_tuples_struck(column: str) -> None:
    found, other = after(ValueCorruption(**COMMON, column=column), cut=5), "y" if column == "x" else "x"
    right = [10 * i if column == "y" else float(i) for i in range(12)]
    changed = [i for i, value in enumerate(found[column].to_pylist()) if value != right[i]]
    assert changed == [3, 4, 5, 6]
    assert np.isfinite(np.asarray(found[column])).all()
    assert found[other].to_pylist() == [10 * i if other == "y" else float(i) for i in range(12)]


def test_a_fault_at_a_source_or_an_output() -> None:
    lost = [0, 1, 2, 7, 8, 9, 10, 11]
    assert after(Outage(targets=("source",), offset=3, length=4))["seq"].to_pylist() == lost
    assert after(Outage(targets=("second",), offset=3, length=4, at="output"))["seq"].to_pylist() == lost


@pytest.mark.parametrize("durable", [False, True])
def test_a_graph_drawn_again_has_the_same_streams(durable: bool) -> None:
    graph = Graph("loop")
    both = graph.add(Union("both"), graph.source("source", feed_of([tuples(x=[1.0])])))
    graph.sink("out", both, Discard())
    graph.connect(both, "both", "in1", feedback=True, durable=durable)
    assert redraw(graph).edges == graph.edges
    struck = with_fault(graph, Outage(targets=("both",), offset=0, length=1))
    assert [edge for edge in struck.edges if edge.feedback] == [edge for edge in graph.edges if edge.feedback]


def test_tuples_of_several_inputs_are_counted_together_by_seq() -> None:
    left, right = tuples(x=[1.0] * 4), tuples(2, x=[2.0] * 4)
    graph = Graph("two")
    both = Union("both")
    streams = [graph.source(name, feed_of([batch])) for name, batch in (("left", left), ("right", right))]
    graph.sink("out", graph.add(both, *streams), Memory())
    with running(with_fault(graph, Outage(targets=("both",), offset=3, length=2))) as run:
        run.run()
        found = run.result("out")
    # In order: 0l 1l 2l 2r 3l 3r 4r 5r; the fourth and the fifth are lost.
    kept = sorted(zip(found["seq"].to_pylist(), found["x"].to_pylist(), strict=True))
    assert kept == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]


@pytest.mark.parametrize(
    ("targets", "at", "struck"),
    [
        (("Source",), "input", ["Source->TradeQuote"]),
        (("BargainIndex",), "input", ["VWAP->BargainIndex", "QuoteFilter->BargainIndex"]),
        (("TradeFilter", "Aggregator", "VWAP"), "input", ["TradeQuote->TradeFilter"]),
        (("TradeFilter", "Aggregator", "VWAP"), "output", ["VWAP->BargainIndex"]),
        (("TradeFilter", "QuoteFilter"), "input", ["TradeQuote->TradeFilter", "TradeQuote->QuoteFilter"]),
        (("Source", "TradeQuote"), "input", ["Source->TradeQuote"]),
    ],
)
def test_operators_that_fail_together_are_struck_where_tuples_come_in(
    targets: tuple[str, ...], at: Any, struck: list[str]
) -> None:
    edges = entries(bargain(), Outage(targets=targets, offset=0, length=1, at=at))
    assert [f"{edge.stream.node}->{edge.node}" for edge in edges] == struck


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (Outage(targets=("nothing",), offset=0, length=1), "'nothing' is no source or operator"),
        (Outage(targets=("TradeQuote", "BargainIndex"), offset=0, length=1), "lies between"),
        (ValueCorruption(targets=("VWAP",), offset=0, length=1, column="z"), "no column 'z' to corrupt"),
        (ValueCorruption(targets=("VWAP",), offset=0, length=1, column="symbol"), "is string, not a number"),
    ],
)
def test_a_fault_that_does_not_fit_the_graph_is_refused(fault: Fault, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        with_fault(bargain(), fault).checked()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"targets": ()}, "one target or more"),
        ({"targets": ("a", "a")}, "each once"),
        ({"offset": -1}, "0 or more"),
        ({"length": 0}, "1 or more"),
        ({"at": "inside"}, "the input or the output"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpillwayError, match=sentence):
        Outage(**{**COMMON, **changes})


def test_a_fault_in_one_line() -> None:
    wanted = Duplication(targets=("a", "b"), offset=10, length=2000, copies=3, at="output")
    assert parse_fault("duplication:a+b,offset=10,length=2e3,copies=3,at=output") == wanted
    assert parse_fault("corruption:a,offset=0,length=1,column=price") == ValueCorruption(
        targets=("a",), offset=0, length=1, column="price"
    )


@pytest.mark.parametrize(
    "text", ["outage", "fire:a,offset=1,length=1", "outage:a,offset=1", "outage:a,offset=1,length=1,colour=red",
             "outage:a,offset=1,length=0", "outage:a,offset"],
)  # fmt: skip
def test_a_line_that_names_no_fault_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="Fault '"):
        parse_fault(text)


def test_a_model_is_found_where_it_is_declared() -> None:
    files = {path.stem for path in Path(faults.__file__).parent.glob("*.py")} - {"__init__", "fault"}
    assert {kind.__module__.rpartition(".")[2] for kind in MODELS.values()} == files
    for name, kind in MODELS.items():
        assert (kind.model, fault_model(name)) == (name, kind)
        assert kind.in_words


def test_a_model_nobody_declared_is_refused() -> None:
    with pytest.raises(InputError, match="There is no fault model 'fire'; there are "):
        fault_model("fire")
    with pytest.raises(InputError, match="There is no fault model 'fire'"):
        place(bargain().checked(), sink="Sink", model="fire")


def test_a_fault_strikes_tuples_or_state() -> None:
    with pytest.raises(GraphError, match="Fault strikes neither tuples nor state; derive it from"):
        Fault(targets=("a",), offset=0, length=1)
