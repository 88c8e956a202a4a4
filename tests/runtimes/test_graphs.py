"""The same graph on both runtimes: each must give exactly what plain Python gives."""

import os
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.conftest import RunGraph, in_order

import spillway as sw
from spillway.errors import InputError
from spillway.seeds import generator
from spillway.spark.running import Run

BATCHES, PIECES, ROWS = 4, 2, 500
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("user", pa.string()),
        pa.field("item", pa.int64()),
        pa.field("price", pa.int64()),
    ]
)


def make_sales(piece: int) -> pa.RecordBatch:
    random = generator(7, "sales", piece)
    columns = [
        pa.array(np.arange(piece * ROWS, (piece + 1) * ROWS)),
        pa.array([f"u{user}" for user in random.integers(0, 60, ROWS)]),
        pa.array(random.integers(-40, 40, ROWS)),
        pa.array(random.integers(1, 100, ROWS)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def sales() -> sw.Generator:
    return sw.Generator(make=make_sales, schema=SCHEMA, pieces=BATCHES * PIECES, pieces_per_batch=PIECES)


def rows() -> list[dict[str, int | str]]:
    return [row for piece in range(BATCHES * PIECES) for row in make_sales(piece).to_pylist()]


def test_stateless_operators_keep_what_they_should(run_graph: RunGraph) -> None:
    graph = sw.Graph("cheap")
    cheap = graph.add(sw.operators.Where("cheap", sw.field("price") < 10), graph.source("sales", sales()))
    graph.sink("out", graph.add(sw.operators.Select("some", ["user"]), cheap), sw.Memory())
    expected = [(row["seq"], row["user"]) for row in rows() if int(row["price"]) < 10]
    out = run_graph(graph)["out"]
    assert list(zip(*out.to_pydict().values(), strict=True)) == expected


@pytest.mark.parametrize("protect", [sw.Nothing(), sw.Exact(), sw.Approximate(theta=50), sw.Checkpoint(every=300)])
@pytest.mark.parametrize("key", ["user", "item"])
def test_counts_are_exact_without_failures(run_graph: RunGraph, key: str, protect: sw.Protection) -> None:
    graph = sw.Graph("counts", shards=3)
    count = sw.operators.Count("count", key=key, protect=protect)
    graph.sink("out", graph.add(count, graph.source("sales", sales())), sw.Memory())
    out = run_graph(graph)["out"].to_pylist()
    newest = {row[key]: row["count"] for row in sorted(out, key=lambda row: row["seq"])}
    assert newest == Counter(row[key] for row in rows())


@pytest.mark.spark
def test_both_runtimes_tell_the_same_of_every_shard_and_batch(spark: Any, tmp_path: Path) -> None:
    def build() -> sw.Graph:
        graph = sw.Graph("told", shards=3)
        count = sw.operators.Count("count", key="user", protect=sw.Approximate(theta=50))
        graph.sink("out", graph.add(count, graph.source("sales", sales())), sw.Discard())
        return graph

    def told(run: Run | sw.LocalRun) -> tuple[list[Any], list[Any]]:
        told_of = attrgetter("shard", "batch", "tuples", "divergence", "threshold", "failures", "backup")
        summed_up = attrgetter("operator", "shards", "batch", "tuples", "backups", "divergence_of_threshold")
        return sorted(map(told_of, run.records())), list(map(summed_up, run.progress()))

    with sw.LocalRun(build(), backups=str(tmp_path / "local")) as run:
        run.run()
        locally = told(run)
    with sw.run(build(), spark, backups=tmp_path / "spark") as running:
        running.wait()
        assert told(running) == locally
    assert len(locally[0]) == 3 * BATCHES and len(locally[1]) == 1


def test_two_stages_two_sinks_and_a_stream_that_passes_by(run_graph: RunGraph) -> None:
    graph = sw.Graph("stages")
    source = graph.source("sales", sales())
    spent = graph.add(
        sw.operators.Count("spent", key="user", value="price", count_as="spent", protect=sw.Exact()), source
    )
    rich = graph.add(sw.operators.Where("rich", sw.field("spent") > 500), spent)
    times = graph.add(sw.operators.Count("times", key="user", count_as="times", protect=sw.Nothing()), rich)
    graph.sink("spent_out", spent, sw.Memory())
    graph.sink("times_out", times, sw.Memory())
    graph.sink("raw", source, sw.Memory())
    results = run_graph(graph)
    totals: Counter[str] = Counter()
    reports: Counter[str] = Counter()
    for batch in range(BATCHES):
        sold = rows()[batch * PIECES * ROWS : (batch + 1) * PIECES * ROWS]
        for row in sold:
            totals[str(row["user"])] += int(row["price"])
        reports.update(user for user in {str(row["user"]) for row in sold} if totals[user] > 500)
    newest = {row["user"]: row["spent"] for row in results["spent_out"].sort_by("seq").to_pylist()}
    assert newest == totals
    newest = {row["user"]: row["times"] for row in results["times_out"].sort_by("seq").to_pylist()}
    assert newest == reports
    assert results["raw"].to_pylist() == rows()


def test_two_sources_meet_in_a_union(run_graph: RunGraph) -> None:
    graph = sw.Graph("union")
    left, right = graph.source("left", sales()), graph.source("right", sales())
    both = graph.add(sw.operators.Union("both"), left, right)
    graph.sink("out", graph.add(sw.operators.Count("count", key="user", protect=sw.Nothing()), both), sw.Memory())
    newest = {row["user"]: row["count"] for row in run_graph(graph)["out"].sort_by("seq").to_pylist()}
    assert newest == {user: 2 * count for user, count in Counter(row["user"] for row in rows()).items()}


class RunningMean(sw.Operator):
    """Order matters to it: it also puts out the last price."""

    schema = sw.columns(mean=pa.float64(), last=pa.int64())
    total = sw.Number(metric="l1")
    count = sw.Number(metric="l1", dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += pc.sum(batch["price"]).as_py()
        self.count += batch.num_rows
        yield self.out(mean=self.total / self.count, last=batch["price"][-1].as_py())


def test_an_operator_of_ones_own_sees_a_batch_once_and_in_order(run_graph: RunGraph) -> None:
    graph = sw.Graph("mean")
    mean = graph.add(RunningMean("mean", protect=sw.Exact()), graph.source("sales", sales()))
    graph.sink("out", mean, sw.Memory())
    out = run_graph(graph)["out"].to_pydict()
    prices = np.array([int(row["price"]) for row in rows()])
    ends = np.arange(1, BATCHES + 1) * PIECES * ROWS
    assert out["mean"] == [prices[:end].sum() / end for end in ends]
    assert out["last"] == [prices[end - 1] for end in ends]


def test_sketch_estimates_agree_and_are_never_low(run_graph: RunGraph) -> None:
    graph = sw.Graph("sketch")
    sketch = sw.operators.CountMin("sketch", key=["user", "item"], value="price", rows=3, width=64, protect=sw.Exact())
    graph.sink("out", graph.add(sketch, graph.source("sales", sales())), sw.Memory())
    totals: Counter[tuple[str, int]] = Counter()
    for row in rows():
        totals[str(row["user"]), int(row["item"])] += int(row["price"])
    out = run_graph(graph)["out"]
    with sw.LocalRun(graph, backups=f"memory://{id(out)}") as reference:
        reference.run()
    # Row by row the same estimates: a single tuple in another shard, or hashed to another cell, would show.
    assert out == in_order(reference.result("out"))
    estimates: Counter[tuple[str, int]] = Counter()
    for row in out.to_pylist():
        estimates[row["user"], row["item"]] = max(row["price"], estimates[row["user"], row["item"]])
    assert estimates.keys() == totals.keys()
    assert all(estimates[key] >= totals[key] for key in totals)


def test_a_null_key_is_refused_by_name(run_graph: RunGraph) -> None:
    def make(piece: int) -> pa.RecordBatch:
        batch = make_sales(piece)
        users = pa.array([None if i == 3 else user for i, user in enumerate(batch["user"].to_pylist())])
        return batch.set_column(1, SCHEMA.field(1), users)

    graph = sw.Graph("nulls")
    feed = sw.Generator(make=make, schema=SCHEMA, pieces=1)
    graph.sink("out", graph.add(sw.operators.Count("count", key="user"), graph.source("sales", feed)), sw.Memory())
    with pytest.raises(InputError, match=r"Operator 'count': key column 'user' must not be null.*seq 3"):
        run_graph(graph)


@pytest.mark.spark
def test_a_dataframe_gives_what_a_trace_of_the_same_files_gives(spark, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from spillway.spark import run

    (tmp_path / "in").mkdir()
    for piece in range(4):
        path = tmp_path / "in" / f"{piece}.parquet"
        pq.write_table(pa.Table.from_batches([make_sales(piece)]), path)
        os.utime(path, (piece, piece))  # Spark takes files by age, and these may be of one millisecond

    def counted(graph: sw.Graph, data: object) -> sw.Graph:
        source = graph.source("sales", data)
        graph.sink("out", graph.add(sw.operators.Count("count", key="user"), source), sw.Memory())
        return graph

    frame = spark.readStream.schema("seq bigint, user string, item bigint, price bigint")
    frame = frame.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    trigger = {"availableNow": True}
    with run(counted(sw.Graph("frame"), frame), spark, backups=tmp_path / "a", trigger=trigger) as first:
        first.wait()
    with sw.LocalRun(counted(sw.Graph("trace"), sw.Trace(tmp_path / "in")), backups=str(tmp_path / "b")) as second:
        second.run()
    assert in_order(first.result("out")) == in_order(second.result("out"))
