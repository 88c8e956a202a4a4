"""Three hosts, which are this machine's: whether shards stay, what pinning costs, how long moves and recoveries take.

*Hops* are tasks that began on a host that does not own their shard (they change nothing and fail) and owners that
changed though nobody moved them. *Pinning* is measured in one query whose batches are pinned and free in turn. Three
hosts of one core are compared with one host of three: the same executors' cores, and on one machine also the same
processors, so the ratio says what hosts cost and not what they bring. *Moves* are of one shard of so many keys: handed
over from host to host, and then recovered from its backup after the host has lost its memory.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.benches.bench import Notes, Tell
from spillway.benches.figures import median_interval
from spillway.benches.turns import AtEnds
from spillway.errors import RunError
from spillway.graph import Discard, Exact, Generator, Graph
from spillway.operators import Count
from spillway.records.bench import BenchRecords
from spillway.records.placing import Moved
from spillway.spark import Run, run, session
from spillway.spark.pin_timing import FREE, PINNED, time_pins
from spillway.spark.settings import active_session
from spillway.spark.standalone import Cluster

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("key", pa.int64())])
THREE, ONE = "three hosts", "one host"
HANDED, RECOVERED = "handed over", "recovered"

_SETTLE = 10  # batches that are not measured
_STAGES = 2
_WAIT_S_MAX = 120.0
_POLL_S = 0.02
_CLUSTERS = {THREE: (3, 1), ONE: (1, 3)}  # hosts, and cores of each


@dataclass(frozen=True, slots=True, kw_only=True)
class RealHosts:
    """The measurements, one after the other."""

    batches: int
    tuples_per_batch: int
    keys: Sequence[int]  # of the shards that are moved
    repetitions: int

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        """All of them; returns what else the figures depend on."""
        if active_session() is not None:
            raise RunError("bench hosts: this process has a Spark already; clusters are measured in one of their own.")
        for turn in range(self.repetitions):
            for name in (THREE, ONE) if turn % 2 == 0 else (ONE, THREE):
                with _on_cluster(name) as (spark, cluster, folder):
                    self._stay(name, spark, folder, notes, turn=turn)
                    tell(f"{name}, repetition {turn + 1} of {self.repetitions}: {self.batches} batches are done.")
                    if name == THREE and turn == 0:
                        self._pin(spark, cluster.hosts, notes)
                        tell("Batches pinned and free in turn are done.")
                        for keys in self.keys:
                            self._move(keys, spark, cluster, folder / str(keys), notes)
                            tell(f"A shard of {keys:,} keys was handed over and recovered.")
        return {"clusters": _CLUSTERS}

    def _stay(self, name: str, spark: Any, folder: Path, notes: Notes, *, turn: int) -> None:
        """Many batches of a count in six shards."""
        failed = _failed_tasks(spark)
        graph = _counting(_keys_of(self.tuples_per_batch), batches=_SETTLE + self.batches, shards=6)
        ends_s: list[float] = []
        with run(
            graph, spark, backups=folder / "backups", observe=AtEnds(lambda _: ends_s.append(time.monotonic()))
        ) as running:
            running.wait()
            rows, moves = running.records(), running.moves()
        lasted_s = np.diff(ends_s)[_SETTLE - 1 :]
        notes.add_all(name, "batch_s", lasted_s.tolist(), turn=turn)
        hosts: dict[int, str] = {}
        changes = 0
        for row in sorted(rows, key=lambda row: row.batch):
            changes += hosts.get(row.shard, row.host) != row.host
            hosts[row.shard] = row.host
        notes.add(name, "hops", _failed_tasks(spark) - failed + changes - len(moves), turn=turn)
        notes.add(name, "batches", len({row.batch for row in rows}), turn=turn)

    def _pin(self, spark: Any, hosts: Sequence[str], notes: Notes) -> None:
        """A query of two stages after the first that do nothing, pinned in every other batch."""
        for name, taken_s in time_pins(spark, hosts, stages=_STAGES, batches=self.batches // 2, skip=_SETTLE).items():
            notes.add_all(name, "batch_s", taken_s)

    def _move(self, keys: int, spark: Any, cluster: Cluster, folder: Path, notes: Notes) -> None:
        """One shard: filled, handed over, then recovered where it is."""
        graph = _counting(_filled(keys), batches=100_000, shards=1)
        with run(graph, spark, backups=folder / "backups", trigger={"processingTime": "0 seconds"}) as running:
            _wait_for_batches(running, 3)
            here = running.owner("count", 0)
            there = next(host for host in cluster.hosts if host != here)
            running.move("count", 0, there)
            moved = _wait_for_moves(running, 1)
            notes.add(f"{HANDED}/{keys}", "move_s", moved.seconds)
            notes.add(f"{HANDED}/{keys}", "bytes", moved.bytes)
            _wait_for_batches(running, running.batches + 2)
            cluster.wipe_memory(cluster.hosts.index(there))
            moved = _wait_for_moves(running, 2)
            notes.add(f"{RECOVERED}/{keys}", "move_s", moved.seconds)
            notes.add(f"{RECOVERED}/{keys}", "bytes", moved.bytes)


def summary(records: BenchRecords) -> dict[str, Any]:
    """Hops, the ratio of hosts, what pinning costs, and moves by keys."""
    batch_s = {name: records.values(name, "batch_s") for name in (THREE, ONE)}
    pinned, free = records.values(PINNED, "batch_s"), records.values(FREE, "batch_s")
    pairs_ms = [1e3 * (one - other) for one, other in zip(pinned, free, strict=False)]
    sizes = sorted({int(subject.partition("/")[2]) for subject in records.subjects("move_s")})
    tuples = records.settings["tuples_per_batch"]
    return {
        "batches": int(sum(records.values(THREE, "batches"))),
        "hops": int(sum(records.values(THREE, "hops"))),
        "batch_s": {name: median(values) for name, values in batch_s.items()},
        "tuples_per_s": {name: tuples / median(values) for name, values in batch_s.items()},
        "three_over_one": median(batch_s[ONE]) / median(batch_s[THREE]),
        "pinning_ms": median(pairs_ms),
        "pinning_ms_interval": median_interval(pairs_ms),
        "pinning_ms_a_stage": median(pairs_ms) / _STAGES,
        "moves": {
            how: [
                {
                    "keys": keys,
                    "seconds": median(records.values(f"{how}/{keys}", "move_s")),
                    "bytes": median(records.values(f"{how}/{keys}", "bytes")),
                }
                for keys in sizes
            ]
            for how in (HANDED, RECOVERED)
        },
    }


# -- graphs -----------------------------------------------------------------------------------------------------------


def _counting(make: Callable[[int], pa.RecordBatch], *, batches: int, shards: int) -> Graph:
    graph = Graph("hosts", shards=shards, delay_max=timedelta(seconds=10))
    source = graph.source("keys", Generator(make=make, schema=SCHEMA, pieces=2 * batches, pieces_per_batch=2))
    graph.sink("out", graph.add(Count("count", key="key", protect=Exact()), source), Discard())
    return graph


def _keys_of(tuples_per_batch: int) -> Callable[[int], pa.RecordBatch]:
    """Pieces of half a batch of random keys."""
    tuples = tuples_per_batch // 2

    def make(piece: int) -> pa.RecordBatch:
        keys = np.random.default_rng([1, piece]).integers(0, 100_000, tuples)
        return _piece(np.arange(piece * tuples, (piece + 1) * tuples), keys)

    return make


def _filled(keys: int) -> Callable[[int], pa.RecordBatch]:
    """All keys in the first two pieces, then a few each."""
    few = 100

    def make(piece: int) -> pa.RecordBatch:
        half = -(-keys // 2)
        if piece < 2:
            found = np.arange(piece * half, min((piece + 1) * half, keys))
            return _piece(found, found)
        first = keys + (piece - 2) * few
        return _piece(np.arange(first, first + few), np.arange(few) * 7 % keys)

    return make


def _piece(seqs: Any, keys: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(seqs, pa.int64()), pa.array(keys, pa.int64())], schema=SCHEMA)


# -- runs -------------------------------------------------------------------------------------------------------------


@contextmanager
def _on_cluster(name: str) -> Iterator[tuple[Any, Cluster, Path]]:
    hosts, cores = _CLUSTERS[name]
    folder = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
    try:
        with Cluster(hosts, cores=cores) as cluster:
            spark = session(master=cluster.url, spark__executor__memory="1g")
            try:
                yield spark, cluster, folder
            finally:
                spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _failed_tasks(spark: Any) -> int:
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(place).failedTasks() for place in range(executors.size()))


def _wait_for_batches(running: Run, count: int) -> None:
    _wait_until(lambda: running.batches >= count or running.wait(_POLL_S))


def _wait_for_moves(running: Run, count: int) -> Moved:
    _wait_until(lambda: len(running.moves()) >= count or running.wait(_POLL_S))
    moves, troubles = running.moves(), running.troubles()
    if len(moves) < count:
        raise RunError(f"bench hosts: a shard was to be moved and was not. {' '.join(troubles[-1:])}")
    return moves[count - 1]


def _wait_until(done: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _WAIT_S_MAX
    while not done():
        if time.monotonic() > until_s:
            raise RunError(f"bench hosts: what was to happen did not in {_WAIT_S_MAX:g} s.")
        time.sleep(_POLL_S)
