"""Which task of the next stage a tuple goes to."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway as sw
from spillway.engine import exchange as exchanging
from spillway.engine.exchange import Gathered, Placing, exchange, placing
from spillway.engine.payload import unpack
from spillway.graph.nodes import Edge
from spillway.graph.stages import stages
from spillway.operators import Count, Where

WORDS = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])


def words(first: int = 0, *, rows: int = 3000) -> pa.RecordBatch:
    seqs = np.arange(first, first + rows)
    return pa.RecordBatch.from_arrays([pa.array(seqs), [f"key {seq}" for seq in seqs]], schema=WORDS)


def test_keys_are_shared_out_evenly() -> None:
    counts = np.bincount(Placing(key=("word",), tasks=4).places(words()), minlength=4)
    assert np.abs(counts - 750).max() < 5 * np.sqrt(750)


def test_without_a_key_tuples_are_shared_out_by_seq() -> None:
    batch = pa.record_batch({"seq": pa.array([0, 1, 2, 3, 10, 11, -1], pa.int64())})
    assert Placing(key=(), tasks=4).places(batch).tolist() == [0, 1, 2, 3, 2, 3, 3]


@pytest.mark.parametrize("key", [(), ("word",)])
def test_one_task_takes_all(key: tuple[str, ...]) -> None:
    assert set(Placing(key=key, tasks=1).places(words()).tolist()) == {0}


def build() -> sw.Graph:
    """Two operators with state side by side, of 2 and 3 shards, and a stream that passes both by."""
    graph = sw.Graph("placing")
    source = graph.source("in", sw.Generator(make=words, schema=WORDS, pieces=1))
    keyed = graph.add(Count("keyed", key="word", shards=3, window=sw.Hopping(time="seq", length=10)), source)
    graph.sink("few-out", graph.add(Count("few", key="word", shards=2), source), sw.Discard())
    graph.sink("keyed-out", keyed, sw.Discard())
    graph.sink("past", graph.add(Where("odd", sw.field("seq") > 3), source), sw.Discard())
    return graph


def test_tuples_go_to_their_shard_and_all_else_anywhere() -> None:
    graph = build().checked()
    stage = stages(graph)[1]
    found = {f"{'marks to ' if edge.marks else ''}{edge.node}": placing(graph, stage, edge) for edge in stage.arriving}
    assert found == {
        "keyed": Placing(key=("word",), tasks=3),
        "marks to keyed": Placing(key=(), tasks=3),
        "few": Placing(key=("word",), tasks=2),
        "past": Placing(key=(), tasks=3),
    }


def test_every_tuple_arrives_once() -> None:
    graph = build().checked()
    stage = stages(graph)[1]
    few = next(edge for edge in stage.arriving if edge.node == "few")
    arriving = exchange(graph, stage, [(few, words(0)), (few, words(5000))])
    assert len(arriving) == 3 and not arriving[2]
    seqs = np.sort(np.concatenate([batch["seq"] for task in arriving for _, batch in task]))
    assert seqs.tolist() == [*range(3000), *range(5000, 8000)]
    assert {edge for task in arriving for edge, _ in task} == {few} and isinstance(few, Edge)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60), st.integers(1, 9), st.booleans())
def test_dividing_is_choosing_the_tuples_of_each_place_in_their_order(seqs: list[int], tasks: int, keyed: bool) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(seqs, pa.int64()), [f"k{seq % 7}" for seq in seqs]], schema=WORDS)
    rule = Placing(key=("word",) if keyed else (), tasks=tasks)
    places = rule.places(batch)
    chosen = {place: batch.filter(pa.array(places == place)) for place in sorted(set(places.tolist()))}
    assert dict(rule.divide(batch)) == chosen


@pytest.mark.parametrize("rows", [0, 1, 10, 4000])
def test_what_is_gathered_arrives_whole_and_in_payloads_of_bounded_size(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanging, "PAYLOAD_BYTES", 1000)
    monkeypatch.setattr(exchanging, "GATHERED_BYTES_MAX", 3000)
    gathered = Gathered()
    payloads: list[tuple[int, pa.Buffer]] = []
    for number in range(20):
        for place, part in Placing(key=("word",), tasks=7).divide(words(number * rows, rows=rows)):
            payloads += gathered.add(place, number % 2, part)
            assert sum(gathered._bytes.values()) <= 3000
    payloads += gathered.rest()
    assert all(payload.size < 4000 for _, payload in payloads)
    found = [(place, channel, seq) for place, payload in payloads for channel, part in unpack(payload, [WORDS, WORDS])
             for seq in part["seq"].to_pylist()]  # fmt: skip
    everything = words(0, rows=20 * rows)
    places = Placing(key=("word",), tasks=7).places(everything).tolist()
    wanted = [(places[seq], seq // rows % 2, seq) for seq in range(20 * rows)]
    assert sorted(found) == sorted(wanted)
    of_place = [seq for place, channel, seq in found if (place, channel) == (3, 1)]
    assert of_place == sorted(of_place)


def test_few_tuples_make_one_payload_a_place() -> None:
    gathered = Gathered()
    for number in range(50):
        for place, part in Placing(key=("word",), tasks=3).divide(words(number * 10, rows=10)):
            assert not list(gathered.add(place, 0, part))
    assert [place for place, _ in gathered.rest()] == [0, 1, 2]
    assert not list(gathered.rest())
