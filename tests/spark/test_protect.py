"""sw.protect on real streams: the answer is Spark's, whatever is lost the protection keeps, and queries go on."""

import datetime
import os
import random
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import waited_for

import spillway as sw
from spillway.backup import Step
from spillway.errors import GraphError, SpillwayError
from spillway.spark.protecting.sinks import forget
from spillway.spark.protecting.taking_apart import take_apart
from spillway.state.folders import wipe

pytestmark = pytest.mark.spark

SCHEMA = "user long, page string, ms long, at timestamp, amount decimal(12,2)"
BEGIN = datetime.datetime(2024, 1, 1)
FILES = 5


@pytest.fixture(scope="module")
def functions(spark: Any) -> Any:
    """Spark's functions; and no batches without data, which streams without state do not have either."""
    from pyspark.sql import functions

    name = "spark.sql.streaming.noDataMicroBatches.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, "false")
    yield functions
    spark.conf.set(name, before)


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of rows, read one a batch; some rows come late."""
    path = tmp_path_factory.mktemp("protect") / "in"
    path.mkdir()
    drawn = random.Random(3)
    for number in range(FILES):
        rows = [
            (
                drawn.choice([None, 1, 2, 3]),
                drawn.choice(["a", "b", None]),
                drawn.randrange(100),
                BEGIN + datetime.timedelta(seconds=number * 60 + drawn.randrange(-120, 60)),
                Decimal(drawn.randrange(10_000)) / 100,
            )
            for _ in range(100)
        ]
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(path / f"{number}"))
        (file,) = (path / f"{number}").glob("*.parquet")
        file.rename(path / f"{number:03d}.parquet")
        time_s = 1_700_000_000 + number  # files are read in the order of their times
        os.utime(path / f"{number:03d}.parquet", (time_s, time_s))
    return path


@pytest.fixture
def rows(spark: Any, folder: Path) -> Callable[[], Any]:
    def read() -> Any:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(f"{folder}/*.parquet").withWatermark("at", "30 seconds")

    return read


def collected(writer: Any, **options: str) -> list[Any]:
    """What a query gives, with the number of each batch, to its end."""
    got: list[Any] = []
    for name, value in options.items():
        writer = writer.option(name, value)
    query = (
        writer.foreachBatch(lambda frame, batch: got.extend((batch, *row) for row in frame.collect()))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return sorted(got, key=repr)


def by_window(rows: Any, functions: Any) -> Any:
    return rows.groupBy(functions.window("at", "1 minute", "30 seconds"), "user").agg(
        functions.count("*").alias("n"),
        functions.sum("amount").alias("amount"),
        functions.max("ms").alias("slowest"),
        functions.min("page").alias("page"),
        functions.approx_count_distinct("ms").alias("about"),
    )


@pytest.mark.parametrize("mode", ["update", "append", "complete"])
def test_every_batch_gives_what_spark_gives(mode: str, rows: Any, functions: Any, tmp_path: Path) -> None:
    query = by_window(rows(), functions)
    ours = collected(sw.protect(query).writeStream.outputMode(mode), checkpointLocation=str(tmp_path / "ours"))
    sparks = collected(query.writeStream.outputMode(mode), checkpointLocation=str(tmp_path / "sparks"))
    assert ours == sparks and ours


@pytest.fixture
def without_data(spark: Any) -> Iterator[None]:
    """Batches without data, as Spark has them by default."""
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    yield
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")


def test_the_last_windows_come_in_a_batch_without_data(
    rows: Any, functions: Any, without_data: None, tmp_path: Path
) -> None:
    query = by_window(rows(), functions)
    ours = collected(sw.protect(query).writeStream.outputMode("append"), checkpointLocation=str(tmp_path / "ours"))
    sparks = collected(query.writeStream.outputMode("append"), checkpointLocation=str(tmp_path / "sparks"))
    assert ours == sparks
    assert any(row[0] == FILES for row in ours), "what ended with the last file's rows"


@pytest.mark.parametrize("name", ["exact", "coordinated"])
def test_what_is_put_out_for_good_is_once_though_memory_is_lost(
    name: str, spark: Any, rows: Any, functions: Any, without_data: None, tmp_path: Path
) -> None:
    """Lost when the batch without data has been written, and in the one before."""
    query = by_window(rows(), functions)
    sparks = collected(query.writeStream.outputMode("append"), checkpointLocation=str(tmp_path / "sparks"))
    for after in (FILES - 2, FILES):
        out, state = tmp_path / f"out-{after}", tmp_path / f"state-{after}"
        protected = sw.protect(query, PROTECTIONS[name], shards=2, observe=LoseMemory(state, after=after))
        writer = protected.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"check-{after}"))
        running = writer.option("state", str(state)).trigger(availableNow=True).start(str(out))
        running.awaitTermination()
        running.stop()
        found = sorted(map(tuple, spark.read.parquet(str(out)).collect()), key=repr)
        assert found == sorted((row[1:] for row in sparks), key=repr)


PROTECTIONS = {
    "exact": sw.Exact(),
    "approximate": sw.Approximate(theta=40.0),
    "coordinated": sw.Coordinated(batches=2),
    "checkpoint": sw.Checkpoint(every=1),
    "nothing": sw.Nothing(),
}


class LoseMemory:
    """Loses all of it, once, when a batch has been written."""

    def __init__(self, state: Path, *, after: int) -> None:
        self.state, self.after, self.done = state, after, False

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == self.after and not self.done:
            self.done = True
            wipe(self.state)


def last_by_key(spark: Any, path: Path, key: int) -> dict[Any, Any]:
    """The newest row of each group of what was written; sums only grow."""
    found: dict[Any, Any] = {}
    for row in spark.read.parquet(str(path)).collect():
        if row[:key] not in found or row[key] >= found[row[:key]][0]:
            found[row[:key]] = row[key:]
    return found


@pytest.mark.parametrize("name", PROTECTIONS)
def test_what_is_lost_with_all_memory(
    name: str, spark: Any, rows: Any, folder: Path, functions: Any, tmp_path: Path
) -> None:
    query = rows().groupBy("user", "page").agg(
        functions.count("*").alias("n"), functions.sum("ms").alias("ms"), functions.max("ms").alias("slowest")
    )  # fmt: skip
    state = tmp_path / "state"
    protected = sw.protect(query, PROTECTIONS[name], shards=2, observe=LoseMemory(state, after=2))
    running = (
        protected.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("state", str(state))
        .outputMode("update")
        .trigger(availableNow=True)
        .start()
    )
    try:
        running.awaitTermination()
        recoveries = sum(one.recoveries for one in running.protection())
        rewinds = len(running.run.rewinds())
    finally:
        running.stop()
    read = spark.read.schema(SCHEMA).parquet(f"{folder}/*.parquet")
    wanted = {
        tuple(row[:2]): tuple(row[2:])
        for row in read.groupBy("user", "page")
        .agg(functions.count("*"), functions.sum("ms"), functions.max("ms"))
        .collect()
    }
    found = last_by_key(spark, tmp_path / "out", 2)
    assert set(found) == set(wanted)
    off = max(abs(a - b) for key in wanted for a, b in zip(wanted[key], found[key], strict=True))
    match name:
        case "exact":
            assert off == 0 and recoveries
        case "coordinated":
            assert off == 0 and rewinds == 1
        case "approximate":
            assert 0 <= off <= 40.0 and recoveries
        case "checkpoint":
            assert recoveries
        case _:
            assert off > 0


def test_a_query_goes_on_where_it_stopped(spark: Any, rows: Any, functions: Any, tmp_path: Path) -> None:
    query = rows().groupBy("user").agg(functions.count("*").alias("n"))

    def go_on(frame: Any, batches: int) -> list[Any]:
        got: list[Any] = []

        def write(found: Any, batch: int) -> None:
            if len(got) >= batches:
                raise RuntimeError("enough")
            got.append((batch, sorted(map(tuple, found.collect()), key=repr)))

        running = (
            sw.protect(frame).writeStream.outputMode("update").foreachBatch(write).trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )  # fmt: skip
        try:
            running.awaitTermination()
        except SpillwayError:
            assert running.exception() is not None and not running.isActive
        finally:
            running.stop()
        return got

    first, rest = go_on(query, 2), go_on(query, 9)
    assert [batch for batch, _ in first] == [0, 1] and [batch for batch, _ in rest] == [2, 3, 4]
    assert sum(n for _, n in rest[-1][1]) <= 500
    other = rows().groupBy("user").agg(functions.count("page").alias("n"))
    with pytest.raises(SpillwayError, match="count"):
        go_on(other, 9)


def test_files_that_are_taken_back(spark: Any, rows: Any, tmp_path: Path) -> None:
    """By Spark's own notes, those of all batches up to one among them."""
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    out = tmp_path / "out"
    try:
        writer = sw.protect(rows().groupBy("user").count()).writeStream.format("parquet").outputMode("update")
        running = writer.trigger(availableNow=True).start(str(out))
        running.awaitTermination()
        running.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    files, read = set(out.glob("*.parquet")), spark.read.parquet(str(out)).count()
    assert {path.name for path in (out / "_spark_metadata").iterdir() if path.name[0] != "."} == {
        "0", "1.compact", "2", "3.compact", "4",
    }  # fmt: skip
    forget(out, after=2)
    left = set(out.glob("*.parquet"))
    assert {path.name for path in (out / "_spark_metadata").iterdir() if path.name[0] != "."} == {"0", "1.compact", "2"}
    assert len(files - left) == 2 * len(files) // 5 and left < files
    assert 0 < spark.read.parquet(str(out)).count() < read
    forget(out, after=-1)
    assert not list(out.glob("*.parquet"))


@pytest.mark.parametrize("as_kept", [True, False])
def test_files_have_what_spark_would_write(
    as_kept: bool, spark: Any, rows: Any, functions: Any, tmp_path: Path
) -> None:
    """Whoever writes them: tasks, where results are what they have, or Spark."""
    query = rows().groupBy(functions.window("at", "1 minute"), functions.to_date("at").alias("day"), "page").agg(
        functions.sum("amount").alias("amount"), functions.max("at").alias("last"), functions.min("user").alias("user")
    )  # fmt: skip
    query = query if as_kept else query.where("true")
    assert (take_apart(query).as_kept() is not None) == as_kept
    writer = sw.protect(query).writeStream.format("parquet").outputMode("append").option("path", str(tmp_path / "out"))
    running = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    running.awaitTermination()
    running.stop()
    sparks = query.writeStream.outputMode("append")
    wanted = [row[1:] for row in collected(sparks, checkpointLocation=str(tmp_path / "sparks"))]
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.schema.simpleString() == query.schema.simpleString()
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(wanted, key=repr) and wanted
    again = writer.trigger(availableNow=True).start()  # with a checkpoint of its own, into the same files
    again.awaitTermination()
    again.stop()
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect()), key=repr) == sorted(wanted, key=repr)


def test_columns_with_a_theta_of_their_own(rows: Any, functions: Any) -> None:
    sums = functions.sum("ms")
    query = rows().groupBy("user").agg(
        functions.count("*").alias("n"), sums.alias("ms"), (sums + 1).alias("more"), functions.max("ms").alias("max")
    )  # fmt: skip
    asked = take_apart(query)
    names = {piece.of: piece.name for piece in asked.pieces}
    weights = asked.weights(sw.Approximate(theta=10.0), {"ms": 100.0, "max": 1.0})
    assert {of: weights[name] for of, name in names.items()} == {"count(1)": 1.0, "sum(ms)": 1.0, "max(ms)": 10.0}
    weights = asked.weights(sw.Approximate(theta=10.0), {"ms": 100.0, "more": 50.0})
    assert weights[names["sum(ms)"]] == 0.2


def test_a_key_that_is_an_expression_means_the_same_in_another_plan(rows: Any, functions: Any) -> None:
    def about() -> tuple[str, ...]:
        return take_apart(rows().groupBy((functions.col("user") + 1).alias("u")).count()).about()

    assert about() == about() == ("key (user + CAST(1 AS BIGINT))", "count(1)")


def test_a_checkpoint_that_was_removed_leaves_nothing_behind(rows: Any, functions: Any, tmp_path: Path) -> None:
    query, place = rows().groupBy("user").count(), str(tmp_path / "checkpoint")
    first = collected(sw.protect(query).writeStream.outputMode("update"), checkpointLocation=place)
    shutil.rmtree(place)
    assert collected(sw.protect(query).writeStream.outputMode("update"), checkpointLocation=place) == first


def test_formats_and_names(spark: Any, rows: Any, functions: Any, tmp_path: Path, capsys: Any) -> None:
    query = rows().groupBy("user").count().orderBy("count")
    writer = sw.protect(query).writeStream.outputMode("complete").queryName("counts_of_users")
    running = writer.format("memory").trigger(availableNow=True).start()
    try:
        running.awaitTermination()
        assert running.name == "counts_of_users" and running.exception() is None
        assert running.lastProgress["numInputRows"] == 100 and len(running.recentProgress) == 5
        assert [row["count"] for row in spark.table("counts_of_users").collect()] == sorted(
            row["count"] for row in spark.table("counts_of_users").collect()
        )
        assert sum(row["count"] for row in spark.table("counts_of_users").collect()) == 500
    finally:
        running.stop()
    totals = rows().groupBy().agg(functions.count("*").alias("n"))
    seen: list[int] = []
    for write in (
        lambda w: w.format("console"),
        lambda w: w.format("noop"),
        lambda w: w.foreach(lambda row: None),
        lambda w: w.foreachBatch(lambda frame, batch: seen.append(batch)),  # does not look at it
    ):
        running = write(sw.protect(totals).writeStream.outputMode("update")).trigger(availableNow=True).start()
        running.awaitTermination()
        assert running.shards()[-1].batch == 4
        running.stop()
    assert seen == [0, 1, 2, 3, 4]
    assert "Batch: 4" in capsys.readouterr().out


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "nothing to keep": (lambda rows, f: sw.protect(rows), "ends in"),
    "function": (lambda rows, f: sw.protect(rows.groupBy("user").agg(f.stddev("ms"))), "stddev"),
    "no number": (
        lambda rows, f: sw.protect(rows.groupBy("user").agg(f.max("page")), sw.Approximate(theta=1)),
        "max\\(page\\)",
    ),
    "state below": (
        lambda rows, f: sw.protect(rows.dropDuplicates(["user"]).groupBy("user").count()),
        "dropDuplicates",
    ),
    "column": (
        lambda rows, f: sw.protect(rows.groupBy("user").count(), sw.Approximate(theta=1), theta={"x": 1}),
        "'x'",
    ),
    "append": (
        lambda rows, f: sw.protect(rows.groupBy("user").count()).writeStream.format("console").start(),
        "append",
    ),
    "complete files": (
        lambda rows, f: (
            sw.protect(rows.groupBy("user").count())
            .writeStream.outputMode("complete")
            .format("parquet")
            .start("nowhere")
        ),
        "parquet",
    ),
    "order": (
        lambda rows, f: (
            sw.protect(rows.groupBy("user").count().orderBy("count"))
            .writeStream.outputMode("update")
            .format("console")
            .start()
        ),
        "orderBy",
    ),
    "key": (lambda rows, f: sw.protect(rows.groupBy(f.array("user")).count()), "array"),
    "mode": (lambda rows, f: sw.protect(rows.groupBy("user").count()).writeStream.outputMode("all"), "'all'"),
    "trigger": (
        lambda rows, f: sw.protect(rows.groupBy("user").count()).writeStream.trigger(continuous="1 second"),
        "micro-batches",
    ),
    "coordinated": (
        lambda rows, f: (
            sw.protect(rows.groupBy("user").count(), sw.Coordinated(batches=2))
            .writeStream.outputMode("update")
            .foreachBatch(lambda frame, batch: None)
            .start()
        ),
        "taken back",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_named(what: str, rows: Any, functions: Any) -> None:
    ask, word = REFUSED[what]
    with pytest.raises(GraphError, match=word):
        ask(rows(), functions)


def test_frames_that_do_not_stream(spark: Any) -> None:
    with pytest.raises(GraphError, match="not a streaming one"):
        sw.protect(spark.range(3).groupBy().count())
    with pytest.raises(GraphError, match="got int"):
        sw.protect(3)  # type: ignore[arg-type]


def test_sources_without_numbers(spark: Any, functions: Any) -> None:
    """A rate source, which nobody numbers, and keys that are many beside rows."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).load()
    counts = ticks.groupBy((functions.col("value") % 400).alias("k")).agg(functions.count("*").alias("n"))
    got: dict[int, int] = {}

    def write(frame: Any, batch: int) -> None:
        got.update({row["k"]: row["n"] for row in frame.collect()})

    running = sw.protect(counts, shards=2).writeStream.outputMode("update").foreachBatch(write).start()
    try:
        assert waited_for(lambda: len(running.shards()) >= 8 or not running.isActive, seconds_max=180)
        assert running.isActive, running.exception()
    finally:
        running.stop()
    batches = running.shards()[-1].batch + 1
    assert sum(got.values()) % 500 == 0 and sum(got.values()) >= 500 * (batches - 1)
    assert len(got) == 400


@pytest.fixture(scope="module", autouse=True)
def nothing_left_running(spark: Any) -> Iterator[None]:
    yield
    assert not spark.streams.active
