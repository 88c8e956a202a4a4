"""Windows, feedback and kept items through losses of memory and attempts cut short, on random schedules."""

import errno
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import spillway as sw
from spillway.backup.items import ItemLog
from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.engine.feedback import Mailbox
from spillway.errors import BoundLostError, GraphError
from spillway.files.folders import LocalFolder
from spillway.graph.graph import Graph
from spillway.seeds import generator

PIECES, ROWS, COUNT = 24, 60, 250
SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.string())])
SEEDS = range(6)


class CutShortError(Exception):
    """What ends an attempt."""


def make(piece: int) -> pa.RecordBatch:
    seqs = np.arange(piece * ROWS, (piece + 1) * ROWS)
    keys = [f"k{key}" for key in generator(3, "keys", piece).zipf(1.5, ROWS) % 40]
    return pa.RecordBatch.from_arrays([pa.array(seqs), pa.array(keys)], schema=SCHEMA)


def feed() -> sw.Generator:
    return sw.Generator(make=make, schema=SCHEMA, pieces=PIECES, pieces_per_batch=2)


def counted(protect: sw.Protection, window: sw.Windowing | None = None) -> Graph:
    graph = sw.Graph("counted", shards=2)
    count = sw.operators.Count("count", key="key", protect=protect, window=window)
    graph.sink("out", graph.add(count, graph.source("in", feed())), sw.Memory())
    return graph


class Average(sw.Operator):
    """Moves half way to what it is fed back, and counts."""

    feedback_inputs = ("back",)
    schema = sw.columns(level=pa.float64())
    level = sw.Number()

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        if port == "back":
            self.level = (self.level + pc.max(batch["level"]).as_py()) / 2
            return
        self.level += batch.num_rows
        yield self.out(level=self.level)


class Highest(sw.Operator):
    schema = sw.columns(level=pa.float64())
    level = sw.Number(metric="max")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.level = max(self.level, pc.max(batch["level"]).as_py())
        yield self.out(level=self.level)


def looped(protect: sw.Protection) -> Graph:
    graph = sw.Graph("looped")
    averaged = graph.add(Average("average", shards=2, protect=protect), graph.source("in", feed()))
    highest = graph.add(Highest("highest", protect=protect), averaged)
    graph.connect(highest, "average", "back", feedback=True, durable=True)
    graph.sink("out", highest, sw.Memory())
    return graph


def disturbed(graph: Graph, folder: Path, seed: int, *, losses: float = 0.3) -> dict[str, list[object]]:
    """The rows of a run to its end through losses of memory and attempts cut short; memory was lost for sure."""
    random = generator(seed, "losses")
    wipes = cuts = 0
    cut: list[tuple[Step, str, int]] = []
    operators = [name for name, node in graph.nodes.items() if isinstance(node, sw.Operator)]

    def observe(step: Step, operator: str, shard: int, batch: int) -> None:
        if cut and cut[0] == (step, operator, shard):
            cut.pop()
            raise CutShortError

    with sw.LocalRun(graph, backups=str(folder / "backups"), state=folder / "state", observe=observe) as run:
        while True:
            if random.random() < 0.4:
                cut[:] = [
                    (random.choice([*SHARD_STEPS, Step.WRITTEN]), random.choice(operators), int(random.integers(0, 2)))
                ]
            try:
                more = run.step()
            except CutShortError:
                more = True
                cuts += 1
            if not more:
                break
            if random.random() < losses:
                run.wipe()
                wipes += 1
        recovered = {row.batch for row in run.records() if row.recovered}
        assert wipes and recovered, f"seed {seed}: no memory was lost, so nothing is shown"
        assert cuts or seed > 0, "the first schedule cuts attempts short, whatever the graph"
        return run.result("out").to_pydict()


@cache
def undisturbed(
    drawn: Callable[..., Graph], protect: sw.Protection, window: sw.Windowing | None = None
) -> dict[str, list[object]]:
    """The rows of a run without losses: it follows from the graph alone, so all schedules share it."""
    graph = drawn(protect, window) if window else drawn(protect)
    with TemporaryDirectory() as backups, sw.LocalRun(graph, backups=backups) as run:
        run.run()
        return run.result("out").to_pydict()


EXACT = [sw.Exact(), sw.Exact(items=True), sw.UpstreamBackup(every=130), sw.UpstreamBackup(every=10_000)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drawn", [counted, looped])
def test_without_protection_every_schedule_does_harm(
    tmp_path: Path, drawn: Callable[[sw.Protection], Graph], seed: int
) -> None:
    """Otherwise the exact ones below would show nothing."""
    assert disturbed(drawn(sw.Nothing()), tmp_path, seed) != undisturbed(drawn, sw.Nothing())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protect", EXACT, ids=lambda protect: protect.describe())
@pytest.mark.parametrize("window", [None, sw.Hopping(count=COUNT)], ids=["all", "hopping"])
def test_exact_protections_lose_nothing(
    tmp_path: Path, protect: sw.Protection, window: sw.Windowing | None, seed: int
) -> None:
    got = disturbed(counted(protect, window), tmp_path, seed)
    assert got == undisturbed(counted, protect, window)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protect", EXACT[:3], ids=lambda protect: protect.describe())
def test_durable_feedback_survives(tmp_path: Path, protect: sw.Protection, seed: int) -> None:
    got = disturbed(looped(protect), tmp_path, seed)
    assert got == undisturbed(looped, protect)


@pytest.mark.parametrize("theta", [0.0, 60.0, 240.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_each_hopping_window_has_its_own_theta(tmp_path: Path, theta: float, seed: int) -> None:
    """In every window no count is off by more than theta, however many failures came before it."""
    window = sw.Hopping(count=COUNT)
    found = last_counts(disturbed(counted(sw.Approximate(theta=theta), window), tmp_path, seed, losses=0.6))
    wanted = last_counts(undisturbed(counted, sw.Approximate(theta=theta), window))
    missing = {key: count - found.get(key, 0) for key, count in wanted.items()}
    assert 0 <= min(missing.values()) <= max(missing.values()) <= theta, f"seed {seed}: {missing}"
    assert any(missing.values()) == (theta > 0), f"seed {seed}: a bound that nothing comes near was not put to the test"


def last_counts(rows: dict[str, list[object]]) -> dict[tuple[object, int], int]:
    """The last count of each key in each window."""
    counts: dict[tuple[object, int], int] = {}
    for seq, key, count in zip(rows["seq"], rows["key"], rows["count"], strict=True):
        assert isinstance(seq, int) and isinstance(count, int)
        counts[key, seq // COUNT] = count
    return counts


def test_a_window_that_ended_gives_back_the_whole_theta(tmp_path: Path) -> None:
    graph = counted(sw.Approximate(theta=64.0), sw.Hopping(count=4 * ROWS))  # two batches a window
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        run.step()
        run.wipe()
        run.run()
        thresholds = {row.batch: row.threshold for row in run.records() if row.shard == 0}
    assert [thresholds[batch] for batch in range(4)] == [32.0, 16.0, 32.0, 32.0]


def test_a_sliding_window_forgets_failures_that_lie_before_it(tmp_path: Path) -> None:
    graph = counted(sw.Approximate(theta=64.0), sw.Sliding(count=6 * ROWS))  # three batches
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        for batch in range(8):
            run.step()
            if batch == 1:
                run.wipe()
        rows = {row.batch: row for row in run.records() if row.shard == 0}
    assert [rows[batch].threshold for batch in range(8)] == [32.0, 32.0, 16.0, 16.0, 16.0, 32.0, 32.0, 32.0]
    assert rows[5].backup, "that a failure is forgotten must be durable"


def test_in_a_decaying_window_failures_do_not_add_up(tmp_path: Path) -> None:
    graph = counted(sw.Approximate(theta=64.0), sw.Decaying())
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        for _ in range(4):
            run.step()
            run.wipe()
        assert {row.threshold for row in run.records()} == {64.0}


def test_one_operator_can_lose_its_memory_alone(tmp_path: Path) -> None:
    graph = sw.Graph("two", shards=2)
    source = graph.source("in", feed())
    for name in ("kept", "lost"):
        count = sw.operators.Count(name, key="key", protect=sw.Nothing())
        graph.sink(f"out-{name}", graph.add(count, source), sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        while run.step():
            if run.batch == 6:
                run.wipe("lost")
        failed = {row.operator for row in run.records() if row.failures}
        recovered = {(row.operator, row.shard, row.batch) for row in run.records() if row.recovered}
        kept, lost = (run.result(f"out-{name}") for name in ("kept", "lost"))
        with pytest.raises(GraphError, match="has no operator 'other'; it has kept, lost"):
            run.wipe("other")
    assert failed == {"lost"} and recovered == {("lost", 0, 6), ("lost", 1, 6)}
    assert pc.max(kept["count"]).as_py() > pc.max(lost["count"]).as_py()


def test_items_that_are_missing_are_told(tmp_path: Path) -> None:
    graph = counted(sw.UpstreamBackup(every=10_000))
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        for _ in range(3):
            run.step()
        run.wipe()
        for path in (tmp_path / "b").rglob("items-0000/items-0000000001-*"):
            path.unlink()
        run.step()
        damage = {row.shard: row.damage for row in run.records() if row.recovered}
    assert damage == {0: "the items of batch 1 are missing or damaged", 1: ""}


def test_tuples_applied_again_count_towards_the_next_backup(tmp_path: Path) -> None:
    graph = counted(sw.UpstreamBackup(every=5 * ROWS))  # in two shards: a backup about every fifth batch
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        while run.step():
            run.wipe()
        since: dict[int, int] = {0: 0, 1: 0}
        for row in run.records():
            since[row.shard] += row.tuples
            assert row.backup == (since[row.shard] >= 5 * ROWS)
            since[row.shard] *= not row.backup
    assert any(row.backup for row in run.records())


def test_items_are_kept_no_longer_than_needed(tmp_path: Path) -> None:
    graph = counted(sw.UpstreamBackup(every=100))
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        run.run()
    for folder in (tmp_path / "b" / "counted" / "count").glob("items-*"):
        assert len(list(folder.iterdir())) <= 4


def test_feedback_that_is_not_durable_is_lost_with_memory(tmp_path: Path) -> None:
    graph = sw.Graph("looped")
    averaged = graph.add(Average("average", shards=2), graph.source("in", feed()))
    highest = graph.add(Highest("highest"), averaged)
    graph.connect(highest, "average", "back", feedback=True)
    graph.sink("out", highest, sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        run.step()
        run.step()
        run.wipe()
        run.step()
        lost = {(row.operator, row.batch): row.feedback_lost for row in run.records()}
    assert lost["average", 2] == 1
    assert {count for key, count in lost.items() if key != ("average", 2)} == {0}


def test_an_operator_without_state_can_keep_its_items(tmp_path: Path) -> None:
    graph = sw.Graph("matched")
    match = sw.operators.Match("match", "k1", column="key", protect=sw.UpstreamBackup(every=100))
    graph.sink("out", graph.add(match, graph.source("in", feed())), sw.Memory())
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        run.run()
    folders = sorted((tmp_path / "matched" / "match").iterdir())
    assert [folder.name for folder in folders] == ["items-0000", "items-0001"]  # one for each piece of a batch
    for index, folder in enumerate(folders):
        (_,) = folder.iterdir()  # those of earlier batches are gone
        kept = ItemLog(LocalFolder(folder)).read(PIECES // 2 - 1)
        assert kept is not None
        assert pa.Table.from_batches(kept["in"]).equals(pa.Table.from_batches([make(PIECES - 2 + index)]))


@pytest.mark.parametrize(("part", "said"), [(ItemLog, "making its items durable"), (Mailbox, "leaving its feedback")])
def test_a_full_disk_names_the_shard_and_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: type, said: str
) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    quiet = undisturbed(looped, sw.UpstreamBackup(every=130))
    with sw.LocalRun(looped(sw.UpstreamBackup(every=130)), backups=str(tmp_path / "b")) as run:
        run.step()
        with monkeypatch.context() as patched:
            patched.setattr(part, "write" if part is ItemLog else "put", full)
            with pytest.raises(BoundLostError, match=f"{said} failed: No space left on device"):
                run.step()
        run.run()
        assert run.result("out").to_pydict() == quiet
