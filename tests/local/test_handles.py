"""Memory that is let go is let go at once: mappings and their file handles do not wait for garbage collection."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import spillway as sw
from spillway.errors import StateError

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("word", pa.string())])
BATCHES, ROWS = 6, 50


def make_words(piece: int) -> pa.RecordBatch:
    numbers = range(piece * ROWS, (piece + 1) * ROWS)
    return pa.RecordBatch.from_arrays([pa.array(numbers), [f"w{n % 7}" for n in numbers]], schema=SCHEMA)


def build() -> sw.Graph:
    graph = sw.Graph("handles", shards=2)
    source = graph.source("in", sw.Generator(make=make_words, schema=SCHEMA, pieces=BATCHES))
    counts = graph.add(sw.operators.Count("count", key="word", protect=sw.Exact()), source)
    sums = sw.operators.SlidingAggregate("sums", key="word", sums={"total": "count"}, size=3, protect=sw.Exact())
    graph.sink("out", graph.add(sums, counts), sw.Discard())
    return graph


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No garbage collection while a test counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def mapped() -> int:
    """How many descriptors of this process belong to shard memory, of files that are gone too."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            count += "/handles/" in os.readlink(descriptor)
        except FileNotFoundError:
            continue  # the one we list the folder with
    return count


@pytest.mark.usefixtures("no_collector")
def test_wiping_again_and_again_holds_no_more_handles(tmp_path: Path) -> None:
    with sw.LocalRun(build(), backups=str(tmp_path)) as run:
        run.step()
        after_one = mapped()
        assert after_one > 0
        while run.step():
            run.wipe()
            assert mapped() == 0
    assert mapped() == 0


@pytest.mark.usefixtures("no_collector")
def test_memory_lost_behind_the_run_s_back_is_let_go_when_it_is_opened_again(tmp_path: Path) -> None:
    from spillway.state.folders import wipe

    with sw.LocalRun(build(), backups=str(tmp_path)) as run:
        run.step()
        run.step()
        before = mapped()
        wipe(run.state)
        run.step()
        assert mapped() == before


def test_a_shard_that_was_let_go_refuses_to_be_looked_at(tmp_path: Path) -> None:
    with sw.LocalRun(build(), backups=str(tmp_path)) as run:
        run.step()
        counts = run.shard("count", 0)
        run.wipe()
        with pytest.raises(StateError, match=r"handles/count/0000 was closed"):
            counts.counts.items()  # type: ignore[attr-defined]
        assert run.step()
        assert len(run.shard("count", 0).counts) > 0  # type: ignore[attr-defined]
