"""The local runtime: the same answer however input is cut and spread, order where it is wanted, batches run again."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway as sw
from spillway.backup import Step
from spillway.errors import GraphError

SCHEMA = pa.schema(
    [pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string()), pa.field("value", pa.int64())]
)
WORDS = [f"word-{number}" for number in range(23)]
TUPLES = 240


def all_tuples() -> pa.RecordBatch:
    random = np.random.default_rng(5)
    words = [WORDS[number] for number in random.integers(0, len(WORDS), TUPLES)]
    return pa.RecordBatch.from_arrays(
        [pa.array(np.arange(TUPLES)), words, pa.array(random.integers(1, 100, TUPLES))], schema=SCHEMA
    )


def feed(*, pieces: int, pieces_per_batch: int) -> sw.Generator:
    """The same tuples, cut into so many pieces."""
    tuples, size = all_tuples(), TUPLES // pieces
    return sw.Generator(
        make=lambda piece: tuples.slice(piece * size, size),
        schema=SCHEMA,
        pieces=pieces,
        pieces_per_batch=pieces_per_batch,
    )


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("pieces_per_batch", [1, 2, 6])
def test_pieces_and_shards_do_not_change_the_answer(shards: int, pieces_per_batch: int) -> None:
    def answer(pieces: int, pieces_per_batch: int, shards: int) -> list[tuple[object, ...]]:
        graph = sw.Graph("answer", shards=shards)
        source = graph.source("in", feed(pieces=pieces, pieces_per_batch=pieces_per_batch))
        some = graph.add(sw.operators.Where("some", sw.field("value") > 10), source)
        count = graph.add(sw.operators.Count("count", key="word", value="value", protect=sw.Nothing()), some)
        sketch = graph.add(
            sw.operators.CountMin("sketch", key="word", value="value", width=4096, protect=sw.Nothing()), some
        )
        graph.sink("counts", count, sw.Memory())
        graph.sink("estimates", sketch, sw.Memory())
        with sw.LocalRun(graph) as run:
            run.run()
            counts, estimates = (rows(run.result(sink).drop_columns("seq")) for sink in ("counts", "estimates"))
            assert counts == estimates  # the sketch is so wide that no two words collide
            return counts

    # The batches are the same four, each in as many pieces as asked for.
    assert answer(4 * pieces_per_batch, pieces_per_batch, shards) == answer(4, 1, 1)


def test_counts_against_a_plain_model(tmp_path: Path) -> None:
    graph = sw.Graph("model", shards=3)
    source = graph.source("in", feed(pieces=8, pieces_per_batch=2))
    graph.sink("out", graph.add(sw.operators.Count("count", key="word", value="value"), source), sw.Discard())
    tuples = all_tuples()
    expected: Counter[str] = Counter()
    for word, value in zip(tuples["word"].to_pylist(), tuples["value"].to_pylist(), strict=True):
        expected[word] += value
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
        found: dict[str, int] = {}
        for shard in range(3):
            keys, counts = run.shard("count", shard).counts.items()  # type: ignore[attr-defined]
            assert not found.keys() & set(keys.to_pylist())
            found |= dict(zip(keys.to_pylist(), counts.tolist(), strict=True))
        assert found == expected


class Noted(sw.Operator):
    """Notes every call of ``process``."""

    schema = sw.columns(count=pa.int64())
    total = sw.Number(dtype="int64")
    inputs = ("in", "other")

    def __init__(self, name: str, calls: list[tuple[str, list[int]]]) -> None:
        super().__init__(name, protect=sw.Nothing())
        self.calls = calls

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.calls.append((port, batch["seq"].to_pylist()))
        self.total += batch.num_rows
        yield self.out(count=int(self.total))


@given(cuts=st.lists(st.permutations(range(12)), min_size=2, max_size=2), pieces=st.sampled_from([2, 3, 4]))
def test_an_ordered_operator_gets_each_port_sorted_and_once_per_batch(cuts: list[list[int]], pieces: int) -> None:
    def shuffled(batch: pa.RecordBatch) -> pa.RecordBatch:
        order = [place for place in cuts[0] if place < batch.num_rows]
        return batch.take(pa.array(order, pa.int64()))

    calls: list[tuple[str, list[int]]] = []
    graph = sw.Graph("ordered")
    source = graph.source("in", feed(pieces=24, pieces_per_batch=pieces))
    mixed = graph.add(sw.operators.Apply("mixed", shuffled, SCHEMA), source)
    graph.sink("out", graph.add(Noted("noted", calls), mixed, source), sw.Discard())
    with sw.LocalRun(graph) as run:
        run.run()
    size = TUPLES // 24 * pieces
    batches = [list(range(first, first + size)) for first in range(0, TUPLES, size)]
    assert calls == [(port, batch) for batch in batches for port in ("in", "other")]


def build(protection: sw.graph.Protection | None = None, **options: int) -> sw.Graph:
    graph = sw.Graph("resumed", shards=2)
    source = graph.source("in", feed(pieces=6, pieces_per_batch=1))
    graph.sink(
        "out", graph.add(sw.operators.Count("count", key="word", protect=protection), source), sw.Memory(**options)
    )
    return graph


def test_a_new_run_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    places = {"state": tmp_path / "state", "backups": str(tmp_path / "backups")}
    with sw.LocalRun(build(), **places) as whole:  # type: ignore[arg-type]
        whole.run()
        expected = rows(whole.result("out").slice(0))
    again = {"state": tmp_path / "state2", "backups": str(tmp_path / "backups2")}
    found = []
    for batch in range(6):
        with sw.LocalRun(build(), batch=batch, **again) as run:  # type: ignore[arg-type]
            assert run.step()
            found += rows(run.result("out"))
    assert sorted(found) == expected
    assert not whole.step()


def test_a_batch_that_raised_is_the_next_again(tmp_path: Path) -> None:
    told: list[tuple[Step, int]] = []

    def fail_once(step: Step, operator: str, shard: int, batch: int) -> None:
        told.append((step, batch))
        if (step, batch, shard) == (Step.COMMITTED, 2, 1) and told.count((step, batch)) == 2:  # both shards, once
            raise RuntimeError("once")

    with sw.LocalRun(build(), backups=str(tmp_path), observe=fail_once) as run:
        while run.batch < 2:
            run.step()
        with pytest.raises(RuntimeError, match="once"):
            run.step()
        assert run.batch == 2 and len(run.records()) == 4
        run.run()
        failed = rows(run.result("out"))
        assert [shard.rolled_back for shard in run.records()[4:6]] == [True, True]
    with sw.LocalRun(build(), backups=str(tmp_path / "other")) as run:
        run.run()
        assert rows(run.result("out")) == failed


def test_wiping_loses_all_memory_and_exact_backups_bring_it_back(tmp_path: Path) -> None:
    with sw.LocalRun(build(), backups=str(tmp_path / "one")) as calm:
        calm.run()
        expected = rows(calm.result("out"))
    with sw.LocalRun(build(), backups=str(tmp_path / "two")) as run:
        while run.step():
            run.wipe()
        assert rows(run.result("out")) == expected
        assert {shard.failures for shard in run.records() if shard.batch == 5} == {5}


def test_without_protection_wiping_starts_anew() -> None:
    with sw.LocalRun(build(sw.Nothing())) as run:
        run.step()
        run.wipe()
        run.step()
        keys, counts = run.shard("count", 0).counts.items()  # type: ignore[attr-defined]
        tuples = all_tuples().slice(40, 40)
        expected = Counter(tuples["word"].to_pylist())
        assert all(expected[key] == count for key, count in zip(keys.to_pylist(), counts.tolist(), strict=True))


def test_temporary_state_is_removed(tmp_path: Path) -> None:
    run = sw.LocalRun(build(sw.Nothing()))
    run.step()
    assert run.state.exists()
    run.close()
    assert not run.state.exists()
    named = sw.LocalRun(build(sw.Nothing()), state=tmp_path / "named")
    named.step()
    named.close()
    assert (tmp_path / "named").exists()


def test_backups_must_be_named_where_they_are_needed() -> None:
    with pytest.raises(GraphError, match="name a durable folder with backups="):
        sw.LocalRun(build())


class _Column:
    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.dataType = self
        self._kind = kind

    def simpleString(self) -> str:  # noqa: N802
        return self._kind


class _Frame:
    """As much of a streaming DataFrame as drawing a graph looks at."""

    isStreaming = True  # noqa: N815

    class schema:  # noqa: N801
        fields = (_Column("seq", "bigint"), _Column("word", "string"))


def test_a_dataframe_is_left_to_spark() -> None:
    graph = sw.Graph("frame")
    graph.sink("out", graph.source("frame", _Frame()), sw.Memory())
    with pytest.raises(GraphError, match="Source 'frame' is a Spark DataFrame, which only Spark can read"):
        sw.LocalRun(graph)
