"""Windows and feedback on both runtimes: each must give exactly what plain Python gives."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.conftest import RunGraph, in_order
from tests.runtimes.test_graphs import BATCHES, PIECES, ROWS, make_sales, rows, sales

import spillway as sw

COUNT = 700  # windows that end in mid-batch, and batches that end two


class Totals(sw.Operator):
    """Sums per window, told when the window has ended."""

    schema = sw.columns(window=pa.int64(), tuples=pa.int64(), total=pa.int64())
    tuples = sw.Number(dtype="int64")
    total = sw.Number(dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.tuples += batch.num_rows
        self.total += pc.sum(batch["price"]).as_py()
        return iter(())

    def end_window(self, window: int) -> Iterator[sw.Out]:
        yield self.out(window=window, tuples=self.tuples, total=self.total)


@pytest.mark.parametrize("protect", [sw.Nothing(), sw.Exact(items=True), sw.Approximate(theta=1e6)])
def test_shards_end_every_window_once(run_graph: RunGraph, protect: sw.Protection) -> None:
    graph = sw.Graph("totals")
    totals = Totals("totals", shards=3, window=sw.Hopping(count=COUNT), protect=protect)
    graph.sink("out", graph.add(totals, graph.source("sales", sales())), sw.Memory())
    expected: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    last = (BATCHES * PIECES * ROWS - 1) // COUNT
    for row in rows():
        if int(row["seq"]) // COUNT < last:
            window = expected[int(row["seq"]) // COUNT]
            window[0] += 1
            window[1] += int(row["price"])
    for ended in run_graph(graph)["out"].to_pylist():
        window = expected[ended["window"]]
        window[0] -= ended["tuples"]
        window[1] -= ended["total"]
        window[2] += 1
    assert dict(expected) == {window: [0, 0, 3] for window in range(last)}


def test_counts_begin_anew_in_every_window(run_graph: RunGraph) -> None:
    graph = sw.Graph("counts", shards=3)
    count = sw.operators.Count("count", key="user", window=sw.Hopping(count=COUNT), protect=sw.Approximate(theta=100))
    graph.sink("out", graph.add(count, graph.source("sales", sales())), sw.Memory())
    expected, counts, window = set[tuple[object, int]](), Counter[object](), 0
    for batch in range(BATCHES):
        touched = set[object]()
        for row in rows()[batch * PIECES * ROWS : (batch + 1) * PIECES * ROWS]:
            if int(row["seq"]) // COUNT != window:
                expected |= {(user, counts[user]) for user in touched}
                counts, touched, window = Counter(), set(), int(row["seq"]) // COUNT
            counts[row["user"]] += 1
            touched.add(row["user"])
        expected |= {(user, counts[user]) for user in touched}
    out = run_graph(graph)["out"]
    assert set(zip(out["user"].to_pylist(), out["count"].to_pylist(), strict=True)) == expected


class Echo(sw.Operator):
    """Adds what it was fed back to every tuple of the batch."""

    feedback_inputs = ("back",)
    schema = sw.columns(offset=pa.int64())
    offset = sw.Number(dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        if port == "back":
            self.offset = pc.sum(batch["total"]).as_py()
        else:
            yield self.out(seq=batch["seq"], offset=np.full(batch.num_rows, self.offset))


class Sums(sw.Operator):
    """The number of tuples so far and the highest offset they came with."""

    schema = sw.columns(total=pa.int64(), offset=pa.int64())
    total = sw.Number(dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += batch.num_rows
        yield self.out(total=self.total, offset=pc.max(batch["offset"]))


def looped(protect: sw.Protection, *, durable: bool) -> sw.Graph:
    graph = sw.Graph("looped")
    echoed = graph.add(Echo("echo", shards=2, protect=protect), graph.source("sales", sales()))
    summed = graph.add(Sums("sums", shards=2, protect=protect), echoed)
    graph.connect(summed, "echo", "back", feedback=True, durable=durable)
    graph.sink("out", summed, sw.Memory())
    return graph


@pytest.mark.parametrize("durable", [False, True])
def test_feedback_reaches_every_shard_in_the_next_batch(run_graph: RunGraph, durable: bool) -> None:
    out = run_graph(looped(sw.Exact(), durable=durable))["out"]
    each = PIECES * ROWS  # tuples of a batch, half of them in each shard
    expected = {(each * (batch + 1) // 2, each * batch) for batch in range(BATCHES)}
    assert set(zip(out["total"].to_pylist(), out["offset"].to_pylist(), strict=True)) == expected


def test_sales_cross_windows_in_mid_batch() -> None:
    """What the tests above rely on."""
    seqs = make_sales(0)["seq"].to_pylist()
    assert len(seqs) == ROWS and COUNT % (PIECES * ROWS) and COUNT < PIECES * ROWS


@pytest.mark.spark
@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=300)], ids=lambda protect: protect.describe())
def test_windows_and_feedback_survive_the_loss_of_memory_on_spark(
    spark: Any, tmp_path: Path, protect: sw.Protection
) -> None:
    """All memory is lost twice between batches; what is put out is what an undisturbed run puts out."""
    from spillway.spark import run
    from spillway.state.folders import wipe

    def graph(*, lose: bool) -> sw.Graph:
        graph = looped(protect, durable=True)
        totals = Totals("totals", shards=3, window=sw.Hopping(count=COUNT), protect=protect)
        ended = graph.add(totals, sw.Stream("sales", "out"))
        graph.sink("windows", ended, sw.Memory())
        if lose:
            graph.sink("lose", ended, sw.ForEachBatch(lambda frame, batch: wipe(state) if batch in (0, 2) else None))
        return graph

    state = tmp_path / "state"
    with run(graph(lose=True), spark, backups=tmp_path / "backups", state=state) as disturbed:
        disturbed.wait()
    with sw.LocalRun(graph(lose=False), backups=str(tmp_path / "quiet")) as quiet:
        quiet.run()
    assert sum(row.recovered for row in disturbed.records()) == 2 * 7  # shards of three operators
    for sink in ("out", "windows"):
        assert in_order(disturbed.result(sink)) == in_order(quiet.result(sink))
