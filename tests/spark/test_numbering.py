"""Numbers of tuples that come from a streaming DataFrame: missing, twice, or going back."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway as sw
from spillway.errors import InputError
from spillway.spark import run as run_spark

pytestmark = pytest.mark.spark

Numbers = list[int | None]


def numbered(spark: Any, folder: Path, batches: list[Numbers], *, staged: bool) -> sw.Graph:
    """A count of tuples read from files, one file a batch; ``staged`` with an operator before it."""
    folder.mkdir()
    for i, seqs in enumerate(batches):
        table = pa.table({"number": pa.array(seqs, pa.int64()), "word": pa.array(["a"] * len(seqs))})
        pq.write_table(table, folder / f"{i}.parquet")
        os.utime(folder / f"{i}.parquet", (i, i))  # Spark takes files by age, and these may be of one millisecond
    frame = spark.readStream.schema("number bigint, word string").option("maxFilesPerTrigger", 1).parquet(str(folder))
    graph = sw.Graph("numbered", shards=2)
    stream = graph.source("events", frame, seq="number")
    if staged:
        stream = graph.add(sw.operators.Where("all", sw.field("word") == "a"), stream)
    graph.sink("out", graph.add(sw.operators.Count("count", key="word", protect=sw.Nothing()), stream), sw.Memory())
    return graph


@pytest.mark.parametrize("staged", [False, True], ids=["straight", "staged"])
@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ([[0, None, None]], "must not be null; it is in 2 of 3 tuples of batch 0"),
        ([[0, 1, 1, 2, 2, 2]], "must be another one in each; 3 of 6 in batch 0, part 0, have one that another has"),
        ([[0, 7], [5, 9]], "must ascend strictly; part 0 of batch 1 begins with 5, and an earlier batch went up to 7"),
    ],
    ids=["null", "twice", "back"],
)
def test_wrong_numbers_are_refused(spark: Any, tmp_path: Path, staged: bool, batches: list[Numbers], said: str) -> None:
    graph = numbered(spark, tmp_path / "in", batches, staged=staged)
    with run_spark(graph, spark, trigger={"availableNow": True}) as run, pytest.raises(InputError) as refused:
        run.wait()
    assert str(refused.value).startswith("Source 'events': column 'number' numbers tuples and ")
    assert said in str(refused.value).replace("part 1", "part 0")


def test_any_order_within_a_batch_is_fine(spark: Any, tmp_path: Path) -> None:
    graph = numbered(spark, tmp_path / "in", [[3, 0, 2], [9, 4, 11]], staged=False)
    with run_spark(graph, spark, trigger={"availableNow": True}) as run:
        run.wait()
        assert run.result("out")["count"].to_pylist() == [3, 6]


def test_pieces_of_a_feed_that_do_not_follow_each_other(spark: Any) -> None:
    from tests.local.test_numbering import counted, feed

    graph = counted(feed([0, 1], [2, 3], [3, 4], [5, 6], pieces_per_batch=2))
    with run_spark(graph, spark) as run, pytest.raises(InputError) as refused:
        run.wait()
    assert "piece 2 of batch 1 begins with 3, and an earlier batch went up to 3" in str(refused.value)
