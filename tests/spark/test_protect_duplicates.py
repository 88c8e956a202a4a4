"""dropDuplicates under sw.protect on real streams: row for row what Spark puts out, and what a loss lets through."""

import datetime
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_protect import LoseMemory, collected

import spillway as sw
from spillway.errors import GraphError
from spillway.graph.protections import Protection
from spillway.spark.protecting.taking_apart import take_apart

pytestmark = pytest.mark.spark

SCHEMA = "id long, word string, x double, at timestamp, place struct<a:int,b:string>, tags array<string>, day date"
BEGIN = datetime.datetime(2024, 1, 1)
BATCHES, ROWS = 6, 60


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows, read one a batch: many come twice, some late, some without a time; NaN, zeros, nulls."""
    path = tmp_path_factory.mktemp("duplicates") / "in"
    path.mkdir()
    drawn = random.Random(5)
    for number in range(BATCHES):
        rows = [
            (
                drawn.choice([None, *range(40)]),
                drawn.choice(["a", "b", "", None]),
                drawn.choice([0.0, -0.0, float("nan"), 1.5, None]),
                drawn.choice([None, *[BEGIN + datetime.timedelta(seconds=60 * number + 15 * k) for k in range(-9, 4)]]),
                drawn.choice([None, (None, None), (1, "p"), (2, None)]),
                drawn.choice([None, [], ["s", None]]),
                drawn.choice([None, BEGIN.date()]),
            )
            for _ in range(ROWS)
        ]
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(path / f"{number}"))
        (file,) = (path / f"{number}").glob("*.parquet")
        file.rename(path / f"{number:03d}.parquet")
        os.utime(path / f"{number:03d}.parquet", (1_700_000_000 + number,) * 2)
    return path


@pytest.fixture
def rows(spark: Any, folder: Path) -> Callable[[], Any]:
    def read() -> Any:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(f"{folder}/*.parquet")

    return read


def late(rows: Any) -> Any:
    return rows.withWatermark("at", "30 seconds")


QUERIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "by some columns": ("append", lambda rows: rows.dropDuplicates(["x", "word"])),
    "by a struct": ("update", lambda rows: rows.select("place", "day").dropDuplicates()),
    "distinct": ("append", lambda rows: rows.select("id", "word").distinct()),
    "with the time": ("append", lambda rows: late(rows).dropDuplicates(["at", "word"])),
    "late, without the time": ("append", lambda rows: late(rows).dropDuplicates(["id"])),
    "within the watermark": (
        "update",
        lambda rows: late(rows).dropDuplicatesWithinWatermark(["id"]).where("id > 3").selectExpr("id + 1 AS one", "at"),
    ),
}


@pytest.mark.parametrize("what", QUERIES)
def test_every_batch_gives_the_rows_that_spark_gives(what: str, rows: Any, tmp_path: Path) -> None:
    mode, ask = QUERIES[what]
    query = ask(rows())
    ours = collected(sw.protect(query).writeStream.outputMode(mode), checkpointLocation=str(tmp_path / "ours"))
    sparks = collected(query.writeStream.outputMode(mode), checkpointLocation=str(tmp_path / "sparks"))
    assert list(map(repr, ours)) == list(map(repr, sparks))
    assert len(ours) > 5


def test_select_distinct_of_sql(spark: Any, rows: Any, tmp_path: Path) -> None:
    rows().createOrReplaceTempView("those_rows")
    query = spark.sql("SELECT DISTINCT word, id % 3 AS third FROM those_rows")
    ours = collected(sw.protect(query).writeStream.outputMode("update"))
    assert ours == collected(query.writeStream.outputMode("update")) and ours


def test_files_have_what_spark_would_write(spark: Any, rows: Any, tmp_path: Path) -> None:
    query = rows().select("id", "word", "at", "tags").dropDuplicates(["id"])
    assert take_apart(query).as_kept() is not None
    writer = sw.protect(query).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    running.awaitTermination()
    running.stop()
    sparks = [row[1:] for row in collected(query.writeStream, checkpointLocation=str(tmp_path / "sparks"))]
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.schema.simpleString() == query.schema.simpleString()
    assert sorted(map(repr, map(tuple, found.collect()))) == sorted(map(repr, sparks))


THETA = 6.0
PROTECTIONS: dict[str, Protection] = {
    "exact": sw.Exact(),
    "coordinated": sw.Coordinated(batches=2),
    "approximate": sw.Approximate(theta=THETA),
    "nothing": sw.Nothing(),
}


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_comes_twice_when_memory_is_lost(name: str, spark: Any, rows: Any, folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    query = rows().select("id", "word").dropDuplicates()
    protected = sw.protect(query, PROTECTIONS[name], shards=2, observe=LoseMemory(state, after=2))
    writer = protected.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writer.option("state", str(state)).trigger(availableNow=True).start(str(tmp_path / "out"))
    try:
        running.awaitTermination()
        assert sum(one.recoveries for one in running.protection()) or running.run.rewinds() or name == "nothing"
    finally:
        running.stop()
    found = Counter(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect()))
    wanted = set(map(tuple, spark.read.schema(SCHEMA).parquet(str(folder)).select("id", "word").collect()))
    assert set(found) == wanted
    twice = sum(found.values()) - len(found)
    match name:
        case "exact" | "coordinated":
            assert twice == 0
        case "approximate":
            assert 0 <= twice <= THETA
        case _:
            assert twice > 10


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "complete": (
        lambda rows: sw.protect(rows.dropDuplicates(["id"])).writeStream.outputMode("complete").format("noop").start(),
        "complete",
    ),
    "a key that is an array": (lambda rows: sw.protect(rows.dropDuplicates(["tags"])), "column tags"),
    "a theta of a column": (
        lambda rows: sw.protect(rows.dropDuplicates(["id"]), sw.Approximate(theta=1), theta={"id": 1}),
        "come twice",
    ),
    "two of them": (lambda rows: sw.protect(rows.dropDuplicates(["id"]).dropDuplicates(["word"])), "dropDuplicates"),
    "forgotten twice": (
        lambda rows: sw.protect(
            late(rows).dropDuplicatesWithinWatermark(["id"]), forget_after=datetime.timedelta(seconds=1)
        ),
        "leave out forget_after",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_named(what: str, rows: Any) -> None:
    ask, word = REFUSED[what]
    with pytest.raises(GraphError, match=word):
        ask(rows())
