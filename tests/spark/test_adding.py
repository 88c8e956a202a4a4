"""Tuples that Spark adds up: the same rows, state, records and errors as without, whatever they are like."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import in_order
from tests.operators.running import feed_of

import spillway as sw
from spillway.backup import Step
from spillway.engine.adding import AddingRule, Choosing
from spillway.errors import InputError, RunError
from spillway.operators import Count, CountMin, Where
from spillway.seeds import generator
from spillway.spark import Run, run, running

pytestmark = pytest.mark.spark

ALWAYS = AddingRule(tuples_least=1, begin_below=9.0, end_above=9.0, look_every=1, rest=100)
NEVER = AddingRule(tuples_least=2**62)
SCHEMA = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("word", pa.string()),
        pa.field("port", pa.int32()),
        pa.field("bytes", pa.int64()),
    ]
)
Build = Callable[[Any], sw.Graph]


def traffic(batch: int, rows: int = 500) -> pa.RecordBatch:
    """Skewed keys, in no order, some of them empty or not of ASCII."""
    random = generator(5, "adding", batch)
    words = np.array(["", "é", *(f"word {i}" * (i % 7) for i in range(60))])[random.zipf(1.3, rows) % 62]
    seqs = random.permutation(rows) + batch * rows - 700
    ports, sizes = random.integers(-3, 3, rows, np.int32), random.integers(0, 2**40, rows)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in (seqs, words, ports, sizes)], schema=SCHEMA)


def count(source: Any) -> sw.Graph:
    graph = sw.Graph("adding", shards=2)
    tuples = graph.add(Count("first", key="word", protect=sw.Approximate(theta=9)), graph.source("in", source))
    seen = graph.add(Where("seen", sw.field("count") > 3), tuples)
    often = graph.add(Count("second", key="count", count_as="keys", protect=sw.Checkpoint(every=900)), seen)
    graph.sink("tuples", tuples, sw.Memory())
    graph.sink("often", often, sw.Memory())
    return graph


def total(source: Any) -> sw.Graph:
    graph = sw.Graph("adding", shards=3)
    protect = sw.Checkpoint(every=900)
    summed = Count("first", key="word", value="bytes", count_as="total", metric="l1", protect=protect)
    graph.sink("out", graph.add(summed, graph.source("in", source)), sw.Memory())
    return graph


def sketch(source: Any) -> sw.Graph:
    graph = sw.Graph("adding", shards=2)
    flows = CountMin("first", key=["port", "word"], value="bytes", rows=3, width=64, protect=sw.Exact())
    graph.sink("out", graph.add(flows, graph.source("in", source)), sw.Memory())
    return graph


def frame(spark: Any, folder: Path, batches: list[pa.RecordBatch]) -> Any:
    """The batches as a streaming DataFrame, a file each."""
    folder.mkdir(exist_ok=True)
    for i, batch in enumerate(batches):
        pq.write_table(pa.table(batch), folder / f"{i}.parquet", row_group_size=max(1, batch.num_rows // 2))
        os.utime(folder / f"{i}.parquet", (i, i))  # Spark takes files by age
    schema = "seq bigint, word string, port int, bytes bigint"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def state_of(run: Any, graph: sw.Graph) -> list[Any]:
    """What each shard contains, in whichever order."""
    found: list[Any] = []
    for name, operator in graph.checked().operators.items():
        for shard in range(graph.checked().shards_of(name) if operator.stateful else 0):
            kept = run.shard(name, shard)
            if isinstance(kept, Count):
                keys, numbers = kept.counts.items()
                found.append(sorted(zip(keys.to_pylist(), numbers.tolist(), strict=True)))
            else:
                found.append(kept.sketch.read().tolist())
    return found


def told_by(run: Any, graph: sw.Graph) -> list[Any]:
    """What the records say of each batch; in which one a thread has made a backup durable is chance, so that is not."""
    behind = {name for name, node in graph.checked().operators.items() if isinstance(node.protect, sw.Checkpoint)}
    return sorted(
        (row.operator, row.shard, row.batch, row.tuples, row.divergence, row.operator not in behind and row.backup)
        for row in run.records()
    )


@pytest.mark.parametrize("build", [count, total, sketch])
def test_nothing_is_different(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Build) -> None:
    batches = [traffic(batch) for batch in range(4)]
    graph = build(frame(spark, tmp_path / "in", batches))
    found = []
    for rule, added_up in ((NEVER, 0), (ALWAYS, 3)):
        monkeypatch.setattr(running, "ADDING_RULE", rule)
        trigger = {"availableNow": True}
        with run(graph, spark, backups=tmp_path / f"backups-{added_up}", trigger=trigger) as ours:
            ours.wait()
            results = {name: in_order(ours.result(name)) for name in graph.checked().exits}
            found.append((results, state_of(ours, graph), told_by(ours, graph)))
            assert ours.added_up == added_up
    traced = build(feed_of([batch.sort_by("seq") for batch in batches]))
    with sw.LocalRun(traced, backups=str(tmp_path / "backups")) as local:
        local.run()
        results = {name: in_order(local.result(name)) for name in traced.checked().exits}
        found.append((results, state_of(local, traced), told_by(local, traced)))
    assert found[0] == found[1] == found[2]


def with_columns(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    arrays = [columns.get(name, batch[name]) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def ending(batch: pa.RecordBatch, **changes: Any) -> pa.RecordBatch:
    """The batch with columns of its last tuple changed."""
    changed = {
        name: pa.array([*batch[name].to_pylist()[:-1], value], SCHEMA.field(name).type)
        for name, value in changes.items()
    }
    return with_columns(batch, **changed)


GOOD = with_columns(traffic(0, 40), seq=pa.array(range(40)))
NEXT = with_columns(traffic(1, 40), seq=pa.array(range(40, 80)))
CASES = {
    "no number": (count, ending(NEXT, seq=None)),
    "number twice": (count, ending(NEXT, seq=78)),
    "numbers of before": (count, with_columns(NEXT, seq=pa.array(range(39, 79)))),
    "no key": (count, ending(NEXT, word=None)),
    "sum too large": (total, ending(NEXT, bytes=2**63 - 1)),
    "a gap": (count, ending(NEXT, seq=80)),
    "a negative number that may be": (total, ending(NEXT, bytes=-(2**63) + 2**50)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_added_up(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    build, second = CASES[case]
    graph = build(frame(spark, tmp_path / "in", [GOOD, second]))
    outcomes: list[Any] = []
    tried: list[Choosing] = []
    rests = Choosing.run_in_vain

    def run_in_vain(choosing: Choosing) -> None:
        tried.append(choosing)
        rests(choosing)

    monkeypatch.setattr(Choosing, "run_in_vain", run_in_vain)
    for name, rule in (("never", NEVER), ("always", ALWAYS)):
        monkeypatch.setattr(running, "ADDING_RULE", rule)
        with run(graph, spark, backups=tmp_path / name, trigger={"availableNow": True}) as ours:
            try:
                ours.wait()
                outcomes.append((state_of(ours, graph), told_by(ours, graph)))
            except InputError as error:
                outcomes.append(str(error))
            assert ours.added_up == 0
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], str) == (not case.startswith("a "))
    assert len(tried) == 1


class Begun(Choosing):
    """Adds up from the first batch on, once the run is known."""

    known: threading.Event

    @property
    def adds_up(self) -> bool:
        return self.known.wait(60)

    @adds_up.setter
    def adds_up(self, value: bool) -> None:
        pass


@pytest.mark.parametrize("first", [False, True], ids=["without, then added up", "added up, then without"])
def test_a_batch_that_fails_is_run_the_other_way(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    batches = [traffic(batch) for batch in range(3)]
    graph = total(frame(spark, tmp_path / "in", batches))
    places: dict[str, Any] = {name: tmp_path / name for name in ("backups", "state", "checkpoint")}

    def fail(step: Step, operator: str, shard: int, batch: int) -> None:
        if batch == 1 and shard == 1 and step is Step.COMMITTED:
            raise RunError("as wanted")

    def go(added_up: bool, **options: Any) -> Run:
        monkeypatch.setattr(running, "ADDING_RULE", ALWAYS if added_up else NEVER)
        monkeypatch.setattr(running, "Choosing", Begun if added_up else Choosing)
        Begun.known = threading.Event()
        with run(graph, spark, trigger={"availableNow": True}, **places, **options) as ours:
            Begun.known.set()
            ours.wait()
        return ours

    with pytest.raises(RunError, match="as wanted"):
        go(first, observe=fail)
    ours = go(not first)
    assert ours.added_up == (0 if first else 2)
    assert [row.rolled_back for row in ours.records() if row.batch == 1 and row.shard == 1] == [True]
    with sw.LocalRun(
        total(feed_of([batch.sort_by("seq") for batch in batches])), backups=str(tmp_path / "local")
    ) as local:
        local.run()
        assert state_of(ours, graph) == state_of(local, graph)
