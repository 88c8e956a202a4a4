"""Hopping windows and replayed items through losses of memory: what no shard may forget."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import spillway as sw
from spillway.engine.epochs import shard_folder
from spillway.graph.graph import Graph

SCHEMA = pa.schema(
    [pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.string()), pa.field("value", pa.int64())]
)


def feed(*batches: list[tuple[int, str, int]]) -> sw.Generator:
    def make(piece: int) -> pa.RecordBatch:
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in batches[piece]]
        return pa.RecordBatch.from_pylist(rows, SCHEMA)

    return sw.Generator(make=make, schema=SCHEMA, pieces=len(batches))


def hitters(source: sw.Generator, protect: sw.Protection, *, shards: int = 2, count: int = 10) -> Graph:
    graph = sw.Graph("hitters")
    local = sw.operators.hitters.LocalSketch(
        "local", key="key", value="value", phi=100, shards=shards, window=sw.Hopping(count=count), width=64,
        protect=protect,
    )  # fmt: skip
    graph.add(local, graph.source("in", source))
    merge = sw.operators.hitters.MergeSketches("merge", key="key", value="value", phi=100, width=64)
    merged = graph.add(merge, sketch=graph.output(local, "sketch"), candidates=graph.output(local, "candidates"))
    graph.sink("out", merged, sw.Memory())
    return graph


def lose(run: sw.LocalRun, graph: str, operator: str, shard: int) -> None:
    folder = shard_folder(run.state, graph, operator, shard)
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("protect", [sw.Approximate(theta=80), sw.Exact()], ids=["approximate", "exact"])
def test_the_first_window_is_not_forgotten(tmp_path: Path, protect: sw.Protection, shard: int) -> None:
    source = feed([(0, "x", 85), (1, "x", 18)], [(10, "y", 1)])
    with sw.LocalRun(hitters(source, protect), backups=str(tmp_path)) as run:
        run.step()
        lose(run, "hitters", "local", shard)
        run.step()
        ((window, key),) = zip(*(run.result("out")[name].to_pylist() for name in ("window", "key")), strict=True)
        assert (window, key) == (0, "x")
        assert run.result("out")["value"].to_pylist()[0] >= 103


class Ends(sw.Operator):
    """Says at a window's end how many tuples it had, also if there were none."""

    schema = sw.columns(window=pa.int64(), count=pa.float64())
    count = sw.Number(metric="l1")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.count += batch.num_rows
        return iter(())

    def end_window(self, window: int) -> Iterator[sw.Out]:
        yield self.out(window=window, count=self.count)


def ends(source: sw.Generator, protect: sw.Protection, *, window: sw.Windowing, key: str = "key") -> Graph:
    graph = sw.Graph("ends")
    graph.sink(
        "out",
        graph.add(Ends("ends", key=key, shards=2, window=window, protect=protect), graph.source("in", source)),
        sw.Memory(),
    )
    return graph


EXACT = [sw.Exact(), sw.Exact(items=True), sw.UpstreamBackup(every=1000)]


@pytest.mark.parametrize("protect", EXACT, ids=lambda protect: protect.describe())
def test_a_shard_without_tuples_ends_its_windows_whenever_memory_is_lost(
    tmp_path: Path, protect: sw.Protection
) -> None:
    source = feed([(0, "a", 1)], [(3, "a", 1)], [(10, "a", 1)], [(20, "a", 1)])
    results = []
    for lost in (None, 0, 1, 2):
        graph = ends(source, protect, window=sw.Hopping(count=10))
        with sw.LocalRun(graph, backups=str(tmp_path / f"{lost}")) as run:
            for batch in range(4):
                run.step()
                if batch == lost:
                    run.wipe()
            results.append(sorted(map(tuple, (row.values() for row in run.result("out").to_pylist()))))
    assert results[0] == [(3, 0, 0.0), (3, 0, 2.0), (10, 1, 0.0), (10, 1, 1.0)]
    assert results.count(results[0]) == len(results)


@pytest.mark.parametrize("window", [sw.Hopping(count=10), sw.Hopping(time="value", length=10)], ids=["seq", "time"])
def test_windows_of_negative_numbers_end(tmp_path: Path, window: sw.Hopping) -> None:
    source = feed(
        [(-40, "a", -40), (-35, "a", -35)], [(-30, "a", -30)], [(-1, "a", -1)], [(0, "a", 0)], [(10, "a", 10)]
    )
    with sw.LocalRun(ends(source, sw.Exact(), window=window), backups=str(tmp_path)) as run:
        run.run()
        rows = {(row["window"], row["count"]) for row in run.result("out").to_pylist() if row["count"]}
    assert rows == {(-4, 2.0), (-3, 1.0), (-1, 1.0), (0, 1.0)}


def test_a_window_before_zero_survives_a_loss(tmp_path: Path) -> None:
    source = feed([(-15, "a", 1)], [(-12, "a", 1)], [(-2, "a", 1)], [(1, "a", 1)])
    with sw.LocalRun(ends(source, sw.Exact(), window=sw.Hopping(count=10)), backups=str(tmp_path)) as run:
        for _ in range(4):
            run.step()
            run.wipe()
        rows = {(row["window"], row["count"]) for row in run.result("out").to_pylist() if row["count"]}
    assert rows == {(-2, 2.0), (-1, 1.0)}


def test_heavy_hitters_of_windows_before_zero(tmp_path: Path) -> None:
    source = feed([(-20, "x", 150)], [(-10, "y", 1)], [(0, "x", 120)], [(10, "y", 1)])
    with sw.LocalRun(hitters(source, sw.Exact()), backups=str(tmp_path)) as run:
        run.run()
        rows = [(row["window"], row["key"], row["value"]) for row in run.result("out").to_pylist()]
    assert rows == [(-2, "x", 150), (0, "x", 120)]


@pytest.mark.parametrize("first", [0, -100])
def test_what_is_said_at_the_end_of_a_window_has_a_number_of_that_window(tmp_path: Path, first: int) -> None:
    """Batches are aligned with windows, and one shard never gets a tuple."""
    source = feed(*[[(first + 10 * i + 3, "a", 1), (first + 10 * i + 7, "a", 1)] for i in range(5)])
    with sw.LocalRun(ends(source, sw.Exact(), window=sw.Hopping(count=10)), backups=str(tmp_path)) as run:
        run.run()
        rows = [(row["seq"], row["window"]) for row in run.result("out").to_pylist()]
    assert sorted(set(rows)) == [(first + 10 * i + 7, first // 10 + i) for i in range(4)]
    assert len(rows) == 8


def test_a_window_of_a_window_ends(tmp_path: Path) -> None:
    source = feed(*[[(10 * i + 3, "a", 1)] for i in range(8)])
    graph = sw.Graph("twice")
    once = graph.add(
        Ends("once", key="key", shards=2, window=sw.Hopping(count=10), protect=sw.Exact()), graph.source("in", source)
    )
    twice = graph.add(Ends("twice", window=sw.Hopping(count=20), protect=sw.Exact()), once)
    graph.sink("out", twice, sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
        rows = [(row["window"], row["count"]) for row in run.result("out").to_pylist()]
    assert rows == [(0, 4.0), (1, 4.0), (2, 4.0)]


class Touched(sw.Operator):
    """Counts tuples by key, and in how many batches each key was touched."""

    schema = sw.columns(key=pa.string(), batches=pa.int64())

    def __init__(self, name: str, *, protect: sw.Protection) -> None:
        super().__init__(name, key="key", protect=protect, shards=1)
        self.tuples = sw.HashTable(key="string")
        self.batches = sw.HashTable(key="string")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.tuples.add(batch["key"], 1)
        return iter(())

    def finish(self) -> Iterator[sw.Out]:
        keys, _ = self.tuples.updates()
        if len(keys):
            self.batches.add(keys, 1)
            yield self.out(key=keys, batches=self.batches.get(keys))


@pytest.mark.parametrize("every", [1, 3, 100])
def test_replay_tells_batches_apart(tmp_path: Path, every: int) -> None:
    source = feed(*[[(i, "abcd"[i % 4], 1)] for i in range(8)])
    graph = sw.Graph("touched")
    touched = graph.add(Touched("touched", protect=sw.UpstreamBackup(every=every)), graph.source("in", source))
    graph.sink("out", touched, sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        for batch in range(8):
            run.step()
            if batch in (2, 5):
                run.wipe()
        keys, batches = run.shard("touched", 0).batches.items()
    assert dict(zip(keys.to_pylist(), batches.tolist(), strict=True)) == dict.fromkeys("abcd", 2)


@pytest.mark.parametrize("batches", [2, 3, 4, 5])
def test_a_damaged_manifest_is_told_whatever_windows_ended(tmp_path: Path, batches: int) -> None:
    source = feed(*[[(4 * i, "a", 1), (4 * i + 2, "b", 1)] for i in range(7)])
    with sw.LocalRun(
        ends(source, sw.UpstreamBackup(every=3), window=sw.Hopping(count=10)), backups=str(tmp_path)
    ) as run:
        for _ in range(batches):
            run.step()
        run.wipe()
        for folder in (tmp_path / "ends" / "ends").glob("*-of-*"):
            newest = max(folder.glob("manifest-*"))
            data = bytearray(newest.read_bytes())
            data[len(data) // 2] ^= 1
            newest.write_bytes(data)
        run.run()
        told = [row.damage for row in run.records() if row.recovered]
        assert len(told) == 2 and all("damaged or missing" in sentence for sentence in told)
        final = {(row["window"], row["count"]) for row in run.result("out").to_pylist() if row["window"] == 1}
    assert final  # and the run went on to the end of later windows


def test_batches_without_tuples_are_no_damage(tmp_path: Path) -> None:
    source = feed([(0, "a", 1)], [], [], [(5, "a", 1)])
    graph = sw.Graph("quiet")
    count = sw.operators.Count("count", key="key", protect=sw.Exact(items=True), shards=2)
    graph.sink("out", graph.add(count, graph.source("in", source)), sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        for _ in range(3):
            run.step()
        run.wipe()
        run.run()
        assert [row.damage for row in run.records() if row.recovered] == ["", ""]
        assert run.result("out")["count"].to_pylist() == [1, 2]


def test_items_of_a_shard_without_tuples_do_not_pile_up(tmp_path: Path) -> None:
    source = feed(*[[(i, "a", 1)] for i in range(300)])
    graph = sw.Graph("still")
    count = sw.operators.Count("count", key="key", protect=sw.UpstreamBackup(every=10_000), shards=2)
    graph.sink("out", graph.add(count, graph.source("in", source)), sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
        folders = list((tmp_path / "still" / "count").glob("items-*"))
        assert len(folders) == 2
        assert all(len(list(folder.iterdir())) <= 130 for folder in folders)
