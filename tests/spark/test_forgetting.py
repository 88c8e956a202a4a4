"""Keys without windows that are forgotten after a while, on real streams: against plain Python, batch by batch."""

import datetime
import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_protect import LoseMemory, collected

import spillway as sw
from spillway.errors import GraphError

pytestmark = pytest.mark.spark

BEGIN = datetime.datetime(2024, 1, 1)
SECOND = datetime.timedelta(seconds=1)
WAIT, LATE = 15 * SECOND, 10 * SECOND
BATCHES = 6

Rows = list[tuple[int, datetime.datetime]]


@pytest.fixture(scope="module")
def batches() -> list[Rows]:
    """Users come and go."""
    drawn = random.Random(11)
    return [
        [(user, BEGIN + (20 * number + drawn.randrange(20)) * SECOND) for user in drawn.sample(range(12), 4)]
        for number in range(BATCHES)
    ]


@pytest.fixture(scope="module")
def rows(spark: Any, batches: list[Rows], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("forgetting")
    for number, some in enumerate(batches):
        spark.createDataFrame(some, "user long, at timestamp").coalesce(1).write.parquet(str(path / f"{number}"))
        (file,) = (path / f"{number}").glob("*.parquet")
        os.utime(file, (1_700_000_000 + number,) * 2)
    return spark.readStream.schema("user long, at timestamp").option("maxFilesPerTrigger", 1).parquet(f"{path}/*")


def counts(batches: list[Rows], *, by_event_time: bool) -> list[tuple[int, int, int]]:
    """What each batch puts out, where a user is forgotten as it must be, and how often that was."""
    known: dict[int, tuple[int, Any]] = {}
    out, watermark = [], datetime.datetime(1970, 1, 1)
    for number, some in enumerate(batches):
        for user, at in some:
            count, seen = known.get(user, (0, at))
            known[user] = count + 1, max(seen, at) if by_event_time else number
            out.append((number, user, count + 1))
        gone = [
            user for user, (_, seen) in known.items() if (seen + WAIT <= watermark if by_event_time else seen < number)
        ]
        for user in gone:
            del known[user]
        watermark = max(watermark, *(at - LATE for _, at in some))
    return sorted(out, key=repr)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("by_event_time", [True, False])
def test_a_group_that_nobody_comes_for_begins_anew(
    by_event_time: bool, lost: bool, batches: list[Rows], rows: Any, tmp_path: Path
) -> None:
    # By the time of batches, a microsecond is over in the next one.
    after = WAIT if by_event_time else datetime.timedelta(microseconds=1)
    query = (rows.withWatermark("at", "10 seconds") if by_event_time else rows).groupBy("user").count()
    given: dict[str, Any] = {"observe": LoseMemory(tmp_path / "state", after=2)} if lost else {}
    writer = sw.protect(query, forget_after=after, shards=2, **given).writeStream.outputMode("update")
    place = {"state": str(tmp_path / "state"), "checkpointLocation": str(tmp_path / "checkpoint")}
    wanted = counts(batches, by_event_time=by_event_time)
    assert collected(writer, **place) == wanted
    seen: dict[int, int] = {}
    for _, user, _ in wanted:
        seen[user] = seen.get(user, 0) + 1
    assert max(n for _, _, n in wanted) > 1 and any(n < seen[user] for _, user, n in wanted[-4:])


def test_rows_come_again_when_their_key_was_forgotten(batches: list[Rows], rows: Any) -> None:
    query = rows.select("user").dropDuplicates(["user"])
    protected = sw.protect(query, sw.Approximate(theta=5.0), forget_after=datetime.timedelta(microseconds=1), shards=2)
    known: set[int] = set()
    wanted = []
    for number, some in enumerate(batches):
        users = {user for user, _ in some}
        wanted += [(number, user) for user in users - known]
        known = users - known  # a key goes with the batch after the one in which it was put out
    assert collected(protected.writeStream) == sorted(wanted, key=repr)


def test_what_is_refused(rows: Any) -> None:
    from pyspark.sql import functions

    query = rows.groupBy("user").count()
    with pytest.raises(GraphError, match="timedelta"):
        sw.protect(query, forget_after=3)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="too soon"):
        sw.protect(query, sw.Approximate(theta=1.0), forget_after=SECOND)
    with pytest.raises(GraphError, match="wants keys"):
        sw.protect(rows.groupBy().count(), forget_after=SECOND)
    windows = rows.withWatermark("at", "10 seconds").groupBy(functions.window("at", "1 minute")).count()
    with pytest.raises(GraphError, match="without a time"):
        sw.protect(windows, forget_after=SECOND)
