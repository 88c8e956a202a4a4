"""Event time and keys of DataFrames, as Spark reads them: what Spark's own aggregation says of the same rows."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import spillway as sw
from spillway.seeds import generator
from spillway.spark import run

pytestmark = pytest.mark.spark

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
KEYS = {
    "at": "timestamp",
    "day": "date",
    "paid": "decimal(9,2)",
    "wide": "decimal(38,4)",
    "price": "double",
    "raw": "binary",
    "flag": "boolean",
}
SQL = ", ".join(["seq bigint", *(f"{name} {kind}" for name, kind in KEYS.items())])


def events(rows: int = 400) -> pa.Table:
    """Some minutes of events, in no order, a few with wrong times; keys of every kind, NaN and -0.0 among them."""
    random = generator(3, "events")
    seconds = random.integers(0, 1200, rows)
    at = [NOON + timedelta(seconds=int(second)) for second in seconds]
    at[rows // 2] = datetime(2099, 1, 1, tzinfo=UTC)
    picks = random.integers(0, 4, rows)
    prices = [0.0, -0.0, float("nan"), 2.5]
    return pa.table(
        {
            "seq": pa.array(range(rows)),
            "at": pa.array(at, pa.timestamp("us", tz="UTC")),
            "day": pa.array([(NOON + timedelta(days=int(pick))).date() for pick in picks]),
            "paid": pa.array([Decimal(int(pick)) / 100 for pick in picks], pa.decimal128(9, 2)),
            "wide": pa.array([Decimal(int(pick)) * 10**20 for pick in picks], pa.decimal128(38, 4)),
            "price": pa.array([prices[pick] for pick in picks]),
            "raw": pa.array([bytes([255, pick]) for pick in picks]),
            "flag": pa.array([bool(pick % 2) for pick in picks]),
        }
    )


def test_keys_are_grouped_as_spark_groups_them(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(events(), folder / "events.parquet")
    graph = sw.Graph("keys", shards=2)
    source = graph.source("events", spark.readStream.schema(SQL).parquet(str(folder)))
    for key in KEYS:
        graph.sink(f"{key}_out", graph.add(sw.operators.Count(f"by_{key}", key=key), source), sw.Memory())
    with run(graph, spark, backups=str(tmp_path / "backups"), trigger={"availableNow": True}) as running:
        running.wait()
        results = {key: running.result(f"{key}_out") for key in KEYS}
    frame = spark.read.parquet(str(folder))
    for key in KEYS:
        native = frame.groupBy(key).count().toArrow()
        wanted = sorted(zip(map(str, native[key].to_pylist()), native["count"].to_pylist(), strict=True))
        found = [tuple(row.values())[1:] for row in results[key].to_pylist()]
        assert sorted((str(value), count) for value, count in found) == wanted, key


def test_windows_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    table = events()
    pq.write_table(table, folder / "events.parquet")
    graph = sw.Graph("windows", shards=2)
    source = graph.source(
        "events",
        spark.readStream.schema(SQL).parquet(str(folder)),
        time="at",
        lateness=timedelta(minutes=2),
        ahead_max=timedelta(hours=1),
    )
    window = sw.Hopping(time="at", length=timedelta(minutes=5))
    count = sw.operators.Count("counts", key="day", window=window, bounds=True, final=True, late=True)
    graph.sink("out", graph.add(count, source), sw.Memory())
    graph.sink("late", graph.output(count, "late"), sw.Memory())
    with run(graph, spark, backups=str(tmp_path / "backups"), trigger={"availableNow": True}) as running:
        running.wait()
        out, late = running.result("out"), running.result("late")
        (told,) = running.progress()
    native = (
        spark.read.parquet(str(folder))
        .groupBy(sql.window("at", "5 minutes"), "day")
        .count()
        .select("window.start", "window.end", "day", "count")
        .toArrow()
    )
    ended = NOON + timedelta(minutes=15)
    wanted = [row for row in native.to_pylist() if row["end"] <= ended]
    assert wanted
    found = [(row["window_start"], row["window_end"], row["day"], row["count"]) for row in out.to_pylist()]
    assert sorted(found) == sorted(tuple(row.values()) for row in wanted)
    assert [row["at"].year for row in late.to_pylist()] == [2099]
    assert (told.late, told.ahead) == (0, 1)
