"""Later stages as Spark planned them once: they do what DataFrames put together anew would do."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spillway.spark import later as module
from spillway.spark.later import LaterStage, LaterStages, packed
from spillway.spark.laying import PlacesOf, lay
from spillway.spark.leaving import PAYLOAD, PLACE
from spillway.spark.pinning import Pins
from spillway.spark.settings import query_settings

pytestmark = pytest.mark.spark

TASKS = 3
Row = tuple[int, bytes]


def along(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Notes in every payload which task it came to, and sends it to the task after that."""
    context = TaskContext.get()
    assert context is not None
    here = context.partitionId()
    for batch in batches:
        payloads = [f"{payload.decode()}>{here}".encode() for payload in batch.column(PAYLOAD).to_pylist()]
        places = [(here + 1) % TASKS] * batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [pa.array(places, pa.int32()), pa.array(payloads, pa.binary())], [PLACE, PAYLOAD]
        )


def stages(count: int) -> list[LaterStage]:
    function = packed(along)
    return [LaterStage(index=index + 1, partitions=TASKS, function=function) for index in range(count)]


def rows(spark: Any, *, first: int) -> DataFrame:
    number = sql.col("id")
    return spark.range(first, first + 5).select(
        (number % TASKS).cast("int").alias(PLACE), sql.encode(number.cast("string"), "utf-8").alias(PAYLOAD)
    )


def wanted(*, first: int, count: int) -> list[Row]:
    def way(number: int) -> Row:
        tasks = [(number + step) % TASKS for step in range(count)]
        return (tasks[-1] + 1) % TASKS, ">".join(map(str, [number, *tasks])).encode()

    return sorted(way(number) for number in range(first, first + 5))


def found(frame: DataFrame) -> list[Row]:
    return sorted((row[PLACE], bytes(row[PAYLOAD])) for row in frame.collect())


def free(stage: int) -> None:
    return None


@pytest.fixture
def plain(spark: Any) -> Iterator[Any]:
    """A session as a query's: without adaptive execution."""
    with query_settings(spark, local_checkpoint=False):
        yield spark


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("places", [free, lambda stage: [None] * TASKS, lambda stage: ["nowhere", None, "nowhere"]])
def test_every_batch_has_its_own_rows(plain: Any, count: int, places: PlacesOf) -> None:
    later = LaterStages(plain, stages(count), adding=None)
    for first in (0, 100, 200):
        assert found(later.leaving(rows(plain, first=first), places)) == wanted(first=first, count=count)


def test_it_is_planned_once_for_a_session(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    laid: list[str] = []

    def noted(frame: DataFrame, *given: Any) -> Any:
        laid.append("")
        return lay(frame, *given)

    monkeypatch.setattr(module, "lay", noted)
    later = LaterStages(plain, stages(2), adding=None)
    other = plain.newSession()
    for times, spark in enumerate([plain, plain, other, plain], start=1):
        with query_settings(spark, local_checkpoint=False):
            assert found(later.leaving(rows(spark, first=times), free)) == wanted(first=times, count=2)
    assert len(laid) == 3


def test_tasks_would_like_to_be_at_their_places(plain: Any) -> None:
    """Those of the last stage, which Spark tells; those before it are told where their rows are exchanged."""
    later = LaterStages(plain, stages(2), adding=None)
    leaving = later.leaving(rows(plain, first=0), lambda stage: [f"{stage}{place}" for place in "abc"])
    context = plain.sparkContext._jsc.sc()

    def wishes(rdd: Any) -> list[str]:
        return [context.getPreferredLocs(rdd, task).head().host() for task in range(TASKS)]

    rdd = leaving._jdf.queryExecution().toRdd()
    assert wishes(rdd) == ["2a", "2b", "2c"]
    while "Shuffled" not in rdd.getClass().getSimpleName():
        rdd = rdd.dependencies().head().rdd()
    assert wishes(rdd.dependency().rdd()) == ["1a", "1b", "1c"]


def test_what_spark_plans_otherwise_is_put_together_anew(plain: Any) -> None:
    filtered = stages(1)[0].put_on(rows(plain, first=0))
    assert lay(rows(plain, first=0), lambda frame: filtered, Pins(plain)) is None  # nothing is exchanged
    joined = rows(plain, first=0).union(rows(plain, first=5))
    assert lay(joined, lambda frame: frame, Pins(plain)) is None


@pytest.mark.parametrize("places", [free, lambda stage: ["nowhere", None, "nowhere"]])
@pytest.mark.parametrize("read_apart", [False, True])
def test_it_says_the_same_put_together_anew(
    plain: Any, monkeypatch: pytest.MonkeyPatch, places: PlacesOf, read_apart: bool
) -> None:
    for how in (lay, lambda *given: None):
        monkeypatch.setattr(module, "lay", how)
        later = LaterStages(plain, stages(2), adding=None)
        assert found(later.leaving(rows(plain, first=7), places, read_apart=read_apart)) == wanted(first=7, count=2)
