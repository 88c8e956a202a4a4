"""Windows through losses of memory, on input that fits them just so: each is what it was, and no loss stops a run."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.operators.running import feed_of, tuples

from spillway.backup.keeper import Step
from spillway.errors import InputError
from spillway.graph import Approximate, Checkpoint, Exact, Graph, Memory, Protection
from spillway.graph.feeds import SEQ_FIELD
from spillway.local import LocalRun
from spillway.operators import Barrier, SlidingAggregate, Where, WindowJoin
from spillway.operators.operator import Operator
from spillway.operators.stateless import field
from spillway.seeds import generator
from spillway.state.folders import default_root
from spillway.state.window import Window

BATCHES, TUPLES, KEYS = 30, 80, 120  # so many keys that their counts take several chunks
SPAN_US = 8_000
SEEDS = range(4)


def events(seed: int) -> pa.Table:
    """Tuples of both sides; some keys have many and others few, and their times lie before 1970 in every other case."""
    random = generator(seed, "lost-windows")
    count = BATCHES * TUPLES
    key = np.where(random.random(count) < 0.5, random.integers(8, size=count) * 15, random.integers(KEYS, size=count))
    columns = {
        "seq": np.arange(count),
        "key": key,
        "x": random.integers(1, 9, count).astype(np.float64),
        "side": random.random(count) < 0.5,
        "time": np.cumsum(random.integers(0, 200, count)) - (10**6 if seed % 2 else 0),
    }
    table = pa.table(columns)
    return table.cast(pa.schema([SEQ_FIELD, *list(table.schema)[1:]]))


def held_max(table: pa.Table, by: list[str]) -> int:
    """The most tuples of one key that ever lie within the span."""
    times: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in table.to_pylist():
        times[tuple(row[name] for name in by)].append(row["time"])
    return max(i + 1 - int(np.searchsorted(t, t[i] - SPAN_US, "right")) for t in times.values() for i in range(len(t)))


def graph_of(operator: Operator, table: pa.Table, *, per_batch: int = TUPLES) -> Graph:
    graph = Graph("g", shards=2)
    batches = table.combine_chunks().to_batches(max_chunksize=per_batch)
    source = graph.source("source", feed_of(batches))
    streams = [source]
    if len(operator.inputs) == 2:
        streams = [graph.add(Where("l", field("side")), source), graph.add(Where("r", ~field("side")), source)]
    graph.sink("out", graph.add(operator, *streams), Memory())
    return graph


def sliding(table: pa.Table, protect: Protection) -> SlidingAggregate:
    return SlidingAggregate(
        "kept", key="key", sums={"x": "x"}, size=timedelta(microseconds=SPAN_US), time="time",
        rows_max=held_max(table, ["key"]), protect=protect,
    )  # fmt: skip


def join(table: pa.Table, protect: Protection) -> WindowJoin:
    return WindowJoin(
        "kept", key="key", left=["x"], right=["x"], size=timedelta(microseconds=SPAN_US), time="time",
        rows_max=held_max(table, ["key", "side"]), protect=protect,
    )  # fmt: skip


def barrier(table: pa.Table, protect: Protection) -> Barrier:
    return Barrier("kept", key="key", left=["x"], right=["x"], waiting_max=waiting_max(table), protect=protect)


def waiting_max(table: pa.Table) -> int:
    """The most tuples of one key that ever wait for the other side."""
    ahead: Counter[int] = Counter()
    most = 0
    for row in table.to_pylist():
        ahead[row["key"]] += 1 if row["side"] else -1
        most = max(most, abs(ahead[row["key"]]))
    return most


def rings(operator: Operator) -> dict[Any, Any]:
    """What each window of an operator holds of each key: its count and its rows."""
    found = {}
    for name, window in operator.opened_state.items():
        if isinstance(window, Window) and len(window):
            keys = window.keys()
            for key, total, ring in zip(keys.to_pylist(), window.totals(keys).tolist(), window.rings, strict=True):
                found[name, key] = (total, ring.tobytes())
    return found


class Life:
    """A run through losses of memory; remembers what its windows were after each batch."""

    def __init__(self, graph: Graph, folder: Path, *, damage: Callable[[Path], None] | None = None) -> None:
        self._seen: dict[int, list[dict[Any, Any]]] = defaultdict(lambda: [{}])
        self._damage = damage
        self._wiped = False
        self.older = 0  # windows recovered that were not those of the last batch
        self._folder = folder
        self.run = LocalRun(graph, backups=str(folder / "backups"), state=folder / "state", observe=self._observe)

    def go(self, seed: int, *, losses: float = 0.2) -> pa.Table:
        random = generator(seed, "losses")
        with self.run as run:
            while run.step():
                self._wiped = random.random() < losses
                for shard in (0, 1):
                    self._seen[shard].append(rings(run.shard("kept", shard)))
                if self._wiped:
                    if self._damage is not None:
                        self._damage(self._folder / "backups")
                    run.wipe()
            return run.result("out").sort_by("seq")

    def _observe(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is not Step.OPENED or operator != "kept" or not self._wiped or self._damage is not None:
            return
        recovered = rings(self.run._open["kept", shard].operator)
        for place, ring in recovered.items():
            assert ring[0] == 0 or ring in [then.get(place) for then in self._seen[shard]], "a mixture"
        self.older += sum(recovered.get(place) != ring for place, ring in self._seen[shard][-1].items())


@pytest.mark.parametrize("make", [sliding, join])
@pytest.mark.parametrize("protect", [Approximate(1.0), Checkpoint(1), Exact()])
def test_a_time_of_zero_is_a_time(make: Any, protect: Protection, folder: Path) -> None:
    """Nothing is damaged, so a tuple at zero is a tuple, whatever came before 1970."""
    times = [-2_000, -1_000, 0, 1_000, 2_000, 3_000]
    sides = [True, True, True, True, False, True]
    table = pa.table({"seq": range(6), "key": [7] * 6, "x": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "side": sides})
    table = table.append_column("time", [times]).cast(pa.schema([SEQ_FIELD, *list(events(0).schema)[1:]]))
    found = []
    for name, lost in (("whole", []), ("lossy", [4])):
        with LocalRun(graph_of(make(table, protect), table, per_batch=1), backups=str(folder / name)) as run:
            while run.batch < len(times):
                if run.batch in lost:
                    run.wipe()
                run.step()
            found.append(run.result("out"))
    assert found[0].equals(found[1])


def pairs_of(out: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*out.to_pydict().values(), strict=True))


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where making backups durable costs nothing."""
    with TemporaryDirectory(dir=default_root().parent) as folder:
        yield Path(folder)


@cache
def without_losses(make: Callable[[pa.Table, Protection], Operator], seed: int) -> pa.Table:
    """What a run gives that loses nothing; every protection is compared with the same."""
    table = events(seed)
    with TemporaryDirectory(dir=default_root().parent) as folder:
        return Life(graph_of(make(table, Exact()), table), Path(folder)).go(0, losses=0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("theta", [100.0, 1000.0])
def test_sliding_sums_go_on_after_losses(theta: float, seed: int, folder: Path) -> None:
    table = events(seed)
    whole = without_losses(sliding, seed)
    life = Life(graph_of(sliding(table, Approximate(theta)), table), folder / "lossy")
    found = life.go(seed)
    assert found["seq"].to_pylist() == whole["seq"].to_pylist()
    # What is in a window is in the true one, so no sum of these positive numbers is too high.
    for name in ("x", "tuples"):
        assert (np.asarray(found[name]) <= np.asarray(whole[name])).all()
    assert life.older > 0, "nothing was lost, so nothing was tried"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("theta", [100.0, 1000.0])
def test_joins_go_on_after_losses(theta: float, seed: int, folder: Path) -> None:
    table = events(seed)
    whole = without_losses(join, seed)
    life = Life(graph_of(join(table, Approximate(theta)), table), folder / "lossy")
    assert pairs_of(life.go(seed)) <= pairs_of(whole)
    assert life.older > 0, "nothing was lost, so nothing was tried"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protect", [Approximate(100.0), Approximate(1000.0), Exact()])
def test_barriers_go_on_after_losses(protect: Protection, seed: int, folder: Path) -> None:
    table = events(seed)
    whole = without_losses(barrier, seed)
    life = Life(graph_of(barrier(table, protect), table), folder / "lossy")
    found = life.go(seed)
    if isinstance(protect, Exact):
        assert found.equals(whole)
    else:
        assert life.older > 0, "nothing was lost, so nothing was tried"
        assert found.num_rows > whole.num_rows / 3


def test_a_barrier_forgives_no_more_than_losses_can_have_cost(folder: Path) -> None:
    """Two tuples of the left were lost, so that many of the right may go without; the third is an error again."""
    sides = [[True], [True], [False] * 5, [False]]
    batches = []
    for first, side in zip(np.cumsum([0, *map(len, sides)]).tolist(), sides, strict=False):
        batches.append(tuples(first, key=[7] * len(side), x=[1.0] * len(side), side=side))
    operator = Barrier(
        "kept", key="key", left=["x"], right=["x"], waiting_max=3, shards=1,
        protect=Approximate(theta=4.0),
    )  # fmt: skip
    graph = Graph("g")
    source = graph.source("source", feed_of(batches))
    streams = [graph.add(Where("l", field("side")), source), graph.add(Where("r", ~field("side")), source)]
    graph.sink("out", graph.add(operator, *streams), Memory())
    with LocalRun(graph, backups=str(folder / "backups"), state=folder / "state") as run:
        run.step()
        run.step()
        run.wipe()  # the backup lacks both tuples of the left
        run.step()  # five of the right: three may wait, and two were lost
        with pytest.raises(InputError, match="more than 3 tuples of key 7 wait"):
            run.step()


def damage_newest(seed: int) -> Callable[[Path], None]:
    """Flip bytes in the newest backup of every shard."""
    random = generator(seed, "damage")

    def damage(backups: Path) -> None:
        for shard in backups.glob("g/kept/*"):
            segments = sorted(shard.glob("*.arrow"), key=lambda path: path.stat().st_mtime_ns)
            for path in segments[-2:]:
                data = bytearray(path.read_bytes())
                for place in random.integers(200, max(len(data) - 400, 201), size=6):
                    data[place] ^= 0x5A
                path.write_bytes(data)

    return damage


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("make", "protect"),
    [
        (make, protect)
        for make in (sliding, join, barrier)
        for protect in (Approximate(1000.0), Checkpoint(200), Exact())
        if (make, protect) != (barrier, Checkpoint(200))  # which is refused
    ],
)
def test_damaged_backups_stop_no_run(make: Any, protect: Protection, seed: int, folder: Path) -> None:
    """A chunk taken from an older backup can make a mixture of a group; input that fits still fits."""
    table = events(seed)
    life = Life(graph_of(make(table, protect), table), folder, damage=damage_newest(seed))
    life.go(seed, losses=0.4)
    damaged = [progress for progress in life.run.records() if progress.damage]
    assert damaged, "nothing was damaged, so nothing was tried"
