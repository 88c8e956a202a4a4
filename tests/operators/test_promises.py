"""What a graph promises, in data and in words."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.operators.running import feed_of, graph_of, tuples

import spillway as sw
from spillway.operators.promises import OperatorPromise, Promises, promises

A = sw.Approximate(theta=100)
WORDS = [tuples(0, word=["w"], other=["v"], n=[1])]


def of(graph: sw.Graph) -> Promises:
    return promises(graph.checked())


def one(found: Promises, name: str) -> OperatorPromise:
    (promise,) = [promise for promise in found.operators if promise.operator == name]
    return promise


def count(name: str, **options: object) -> sw.operators.Count:
    return sw.operators.Count(name, **{"key": "word", "protect": A, **options})  # type: ignore[arg-type]


def factor(*operators: sw.Operator, of_last: str) -> float | None:
    found = one(of(graph_of(*operators, batches=WORDS)), of_last)
    return found.carried[0].factor if found.carried else 0.0


# -- the example of the documents ------------------------------------------------------------------------------


def chained(value: str | None) -> sw.Graph:
    batches = [tuples(10 * i, word=["w"] * 10) for i in range(60)]
    return graph_of(count("a"), count("b", value=value, count_as="sum"), batches=batches, shards=1)


def counted(graph: sw.Graph, folder: Path, *, lost_before: int | None) -> list[int]:
    """What a and b have in the end, with the memory of a lost once."""
    with sw.LocalRun(graph, backups=str(folder)) as run:
        while True:
            if run.batch == lost_before:
                shutil.rmtree(run.state / "g" / "a")
            if not run.step():
                return [int(run.shard(name, 0).counts.items()[1].sum()) for name in ("a", "b")]  # type: ignore[attr-defined]


def test_a_sum_of_counts_that_are_off_goes_on_growing_and_nothing_is_promised_of_it(tmp_path: Path) -> None:
    ideal = counted(chained("count"), tmp_path / "ideal", lost_before=None)
    found = counted(chained("count"), tmp_path / "lost", lost_before=5)
    assert [there - here for there, here in zip(ideal, found, strict=True)] == [50, 2750]
    promise = one(of(chained("count")), "b")
    assert promise.total_max == math.inf
    assert promise.sentences() == [
        "'b' is protected by Approximate(theta 100): each number of its state stays within 100 of a run that gets the "
        "same input.",
        "It is fed what 'a' loses (at most 100). Nothing bounds what that makes of its state, which may grow with the "
        "run: nothing is promised of 'b' compared with a run without failures.",
    ]


def test_a_count_of_the_same_tuples_is_not_moved(tmp_path: Path) -> None:
    ideal = counted(chained(None), tmp_path / "ideal", lost_before=None)
    found = counted(chained(None), tmp_path / "lost", lost_before=5)
    assert [there - here for there, here in zip(ideal, found, strict=True)] == [50, 0]
    promise = one(of(chained(None)), "b")
    assert promise.total_max == 100
    assert promise.sentences()[1] == "Its divergence does not grow by what 'a' loses (at most 100)."


# -- factors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protect", [A, sw.Checkpoint(every=10), sw.Nothing()], ids=lambda p: p.describe())
def test_whatever_the_counts_are_the_tuples_are_the_same(protect: sw.Protection) -> None:
    found = one(of(graph_of(count("a", protect=protect), count("b"), batches=WORDS)), "b")
    assert (found.carried[0].factor, found.total_max) == (0.0, 100.0)


@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=5)], ids=lambda p: p.describe())
def test_what_loses_nothing_carries_nothing(protect: sw.Protection) -> None:
    found = of(graph_of(count("a", protect=protect), count("b", value="count"), batches=WORDS))
    assert not found.carried
    assert one(found, "b").total_max == 100
    assert one(found, "a").sentences() == [f"'a' is protected by {protect.describe()}: it loses nothing itself."]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (sw.operators.Select("s", ["word"]), 0.0),
        (sw.operators.Where("s", sw.field("word") != "x"), 0.0),
        (sw.operators.Where("s", sw.field("count") > 3), None),
        (sw.operators.Where("s", sw.field(2) > 3), None),
        (sw.operators.Match("s", "w", column="word"), 0.0),
        (
            sw.operators.Apply("s", lambda batch: batch, pa.schema([sw.columns().field("seq"), ("word", pa.string())])),
            None,
        ),
    ],
    ids=["select", "where another", "where it", "where by place", "match", "apply"],
)
def test_what_lies_between_two_counts_matters(between: sw.Operator, expected: float | None) -> None:
    assert factor(count("a"), between, count("b"), of_last="b") == expected


def test_a_key_or_a_window_that_is_off_takes_the_promise() -> None:
    by_count = sw.operators.Count("b", key="count", count_as="times", protect=A)
    assert factor(count("a"), by_count, of_last="b") is None
    by_time = count("b", window=sw.Hopping(time="count", length=10))
    assert factor(count("a"), by_time, of_last="b") is None
    by_seq = count("b", window=sw.Hopping(count=10))
    assert factor(count("a"), by_seq, of_last="b") == 0.0


def test_a_refusal_is_handed_on_and_a_count_of_tuples_still_does_not_care() -> None:
    graph = graph_of(count("a"), count("b", value="count"), count("c"), count("d", value="count"), batches=WORDS)
    found = of(graph)
    assert [(c.origin.name, c.factor) for c in one(found, "c").carried] == [("a", 0.0), ("b", 0.0)]
    assert [(c.origin.name, c.factor) for c in one(found, "d").carried] == [("c", None)]


def joined(*, protect: sw.Protection, values: sw.Operator, then: bool = False) -> sw.Graph:
    graph = sw.Graph("g", shards=2)
    source = graph.source("source", feed_of(WORDS))
    options = {"then": lambda batch: batch, "schema": WORDS[0].schema} if then else {}
    latest = sw.operators.LatestJoin("latest", key="word", value="n", value_as="now", protect=protect, **options)  # type: ignore[arg-type]
    graph.sink("out", graph.add(latest, graph.add(values, source), source), sw.Memory())
    return graph


def test_what_is_set_and_not_added_up_is_off_by_as_much() -> None:
    sketch = sw.operators.CountMin("sketch", key="word", value="n", protect=A)
    found = of(joined(protect=sw.Approximate(theta=7), values=sketch))
    promise = one(found, "latest")
    assert (promise.carried[0].factor, promise.total_max) == (1.0, 107.0)
    assert promise.sentences()[1:] == [
        "On top comes, once, what 'sketch' loses (at most 100).",
        "In all it stays within 107 of a run without failures.",
    ]


def test_sinks_say_what_can_be_off_in_what_leaves() -> None:
    sketch = sw.operators.CountMin("sketch", key="word", value="n", protect=A)
    (sink,) = of(joined(protect=sw.Exact(), values=sketch)).sinks
    assert sink.sentences() == [
        "What leaves at 'out' depends on what 'sketch' loses (at most 100): all tuples are there; off can be 'now' by "
        "at most 100."
    ]
    (sink,) = of(joined(protect=sw.Exact(), values=sketch, then=True)).sinks
    assert sink.sentences()[0].endswith("tuples may be missing, or there that should not be, with any values.")
    (sink,) = of(graph_of(count("a"), sw.operators.Where("heavy", sw.field("count") > 5), batches=WORDS)).sinks
    assert sink.sentences()[0].endswith(
        "tuples may be missing, or there that should not be; off in the others can be 'count' by at most 100."
    )
    (sink,) = of(graph_of(count("a", protect=sw.Nothing()), batches=WORDS)).sinks
    assert sink.sentences()[0].endswith("off can be 'count', and nothing bounds by how much.")


class Total(sw.Operator):
    schema = sw.columns(total=pa.float64())
    total = sw.Number()

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += batch.num_rows
        yield self.out(total=self.total)


class Looped(Total):
    feedback_inputs = ("back",)


def test_of_an_operator_of_ones_own_nothing_is_claimed_unless_it_claims_it() -> None:
    class Careful(Total):
        def reads(self, port: str) -> frozenset[str]:
            return frozenset(["word"])

    assert factor(count("a"), Total("own", protect=A), of_last="own") is None
    assert factor(count("a"), Careful("own", protect=A), of_last="own") == 0.0


@pytest.mark.parametrize(
    ("protect", "durable", "fed"),
    [
        (sw.Exact(), True, []),
        (sw.Exact(), False, ["the feedback of 'second', which is lost with memory"]),
        (A, True, ["back what it loses itself"]),
    ],
    ids=["exact and durable", "feedback is lost", "what it loses comes back"],
)
def test_feedback_is_followed(protect: sw.Protection, durable: bool, fed: list[str]) -> None:
    graph = sw.Graph("g")
    first = graph.add(Looped("first", protect=protect), graph.source("source", feed_of(WORDS)))
    second = graph.add(Total("second", protect=sw.Exact()), first)
    graph.connect(second, "first", "back", feedback=True, durable=durable)
    graph.sink("out", second, sw.Memory())
    promise = one(of(graph), "first")
    assert [carry.factor for carry in promise.carried] == [None] * len(fed)
    assert all(f"It is fed {name}." in " ".join(promise.sentences()) for name in fed)


def test_items_lost_before_they_arrive_are_named() -> None:
    protect = sw.Approximate(theta=100, items=10, unacked=5)
    found = of(graph_of(count("a", protect=protect), count("b"), batches=WORDS))
    assert "stays within 100, plus what up to 15 lost items move, of a run" in one(found, "a").sentences()[0]
    assert "what 'a' loses (at most 100, and what up to 15 lost items move)" in one(found, "b").sentences()[1]


def test_the_data_can_be_written_as_json() -> None:
    told = json.loads(json.dumps(of(chained("count")).as_json(), allow_nan=False))
    b = told["operators"][1]
    assert (b["operator"], b["own_max"], b["total_max"]) == ("b", 100, None)
    assert b["carried"] == [{"from": "a", "factor": None, "most": None}]
    assert told["sinks"][0]["sink"] == "out"


def test_an_operator_that_measures_itself_is_taken_at_its_word() -> None:
    class Own(Total):
        def divergence(self) -> float:
            return self.total

    (promise,) = of(graph_of(Own("own", protect=A), batches=WORDS)).operators
    assert promise.metrics == ("own",)
    assert "its divergence stays within 100 of a run" in promise.sentences()[0]
