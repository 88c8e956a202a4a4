"""A topic read by Spark: every record once, whatever is stopped, lost, sent back, added or gone in between."""

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.conftest import in_order
from tests.kafka.broker import Servers, serving
from tests.spark.test_rewinding import ALL, Lose
from tests.waiting import waited_for

import spillway as sw
from spillway.backup import Step
from spillway.errors import GraphError, InputError, RunError
from spillway.graph.kafka.topic import Topic
from spillway.operators import Count
from spillway.records.notices import Kind
from spillway.records.reading import read_notices

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])
WORDS = 13


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"word": f"w{n % WORDS}", "n": n} for n in range(first, first + count)]


def kafka(servers: Servers, topic: str, **how: Any) -> Topic:
    return sw.kafka(servers.address, topic, **{"schema": SCHEMA, "records_per_batch": 40, "patience_s": 10.0, **how})


def counting(of: Any, folder: Path, protect: sw.Protection | None = None) -> sw.Graph:
    """Counts words, and has everything as it came too."""
    graph = sw.Graph("topic", protect=protect or sw.Exact())
    source = graph.source("in", of)
    graph.sink("all", source, sw.Parquet(str(folder / "all")))
    graph.sink("out", graph.add(Count("count", key="word"), source), sw.Parquet(str(folder / "out")))
    return graph


def started(graph: sw.Graph, spark: Any, folder: Path, **how: Any) -> sw.Run:
    named = {name: folder / name for name in ("backups", "checkpoint", "state")}
    return sw.run(graph, spark, **named, **{"trigger": {"availableNow": True}, **how})


def finished(graph: sw.Graph, spark: Any, folder: Path, **how: Any) -> sw.Run:
    with started(graph, spark, folder, **how) as running:
        running.wait()
    return running


def written(folder: Path, name: str) -> pa.Table:
    """What a sink has, by batches."""
    return in_order(pyarrow.dataset.dataset(folder / name, partitioning="hive").to_table())


def test_a_run_goes_on_exactly_where_it_was_killed_also_with_partitions_that_were_added(
    spark: Any, servers: Servers, topic: str, tmp_path: Path
) -> None:
    def fail(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == 1:
            raise RuntimeError("the driver dies here")

    def graph(of: Servers) -> sw.Graph:
        return counting(kafka(of, topic, about=["partition", "offset"]), tmp_path)

    first, second = rows(90), rows(60, first=90)
    servers.spread(topic, first, partitions=3)
    with pytest.raises(RunError, match="the driver dies here"):
        finished(graph(servers), spark, tmp_path, observe=fail)
    planned = written(tmp_path, "all").to_pylist()
    assert {row["batch"] for row in planned} == {0, 1} and len(planned) == 80
    # The same topic, with other servers, more records and more partitions.
    with serving() as others:
        others.make(topic, partitions=5)
        others.spread(topic, first, partitions=3)
        others.spread(topic, second, partitions=5)
        finished(graph(others), spark, tmp_path)
        found = written(tmp_path, "all").to_pylist()
        assert found[: len(planned)] == sorted(planned, key=lambda row: row["seq"]), "what was planned came again"
        assert sorted(row["n"] for row in found) == list(range(150))
        assert [row["seq"] for row in sorted(found, key=lambda row: row["seq"])] == list(range(150))
        assert [row["seq"] for row in sorted(found, key=lambda row: (row["batch"], row["seq"]))] == list(range(150))
        sizes = [sum(row["batch"] == batch for row in found) for batch in range(4)]
        assert sizes == [40, 40, 40, 30], "no batch has more records than it may"
        assert {row["partition"] for row in found} == set(range(5))
        assert finished(graph(others), spark, tmp_path).batches == 0
    counts = {row["word"]: row["count"] for row in written(tmp_path, "out").sort_by("batch").to_pylist()}
    assert counts == {f"w{word}": len(range(word, 150, WORDS)) for word in range(WORDS)}


def test_a_run_that_is_sent_back_puts_out_what_an_undisturbed_one_does(
    spark: Any, servers: Servers, topic: str, tmp_path: Path
) -> None:
    servers.spread(topic, rows(200), partitions=3)
    source = kafka(servers, topic)
    quiet, lost = tmp_path / "quiet", tmp_path / "lost"
    with sw.LocalRun(counting(source, quiet), backups=str(quiet / "backups")) as run:
        run.run()
    lost.mkdir()
    lose = Lose(state=lost / "state", after={2: ALL}, marks=lost)
    run = finished(counting(source, lost, sw.Coordinated(batches=2)), spark, lost, observe=lose)
    assert [(one.committed, one.to) for one in run.rewinds()] == [(2, 1)]
    for name in ("all", "out"):
        assert written(lost, name) == written(quiet, name), name
    assert written(lost, "all").num_rows == 200


def test_records_that_come_while_it_runs_and_what_is_passed_over(
    spark: Any, servers: Servers, topic: str, tmp_path: Path
) -> None:
    source = kafka(servers, topic, broken="skip", expired="skip")
    servers.put(topic, [*rows(10), b"no"], partition=1)
    with started(counting(source, tmp_path), spark, tmp_path, trigger=None, directory=tmp_path / "run") as running:
        waited_for(lambda: running.committed() >= 0 or not running.active)
        servers.put(topic, [*rows(5, first=10), None], partition=2)
        waited_for(lambda: running.committed() >= 1 or not running.active)
        assert running.active
    assert running.passed_over["in"].broken == 2
    servers.put(topic, rows(20, first=100), partition=1)
    servers.expire(topic, 1, before=11 + 15)
    again = finished(counting(source, tmp_path), spark, tmp_path, directory=tmp_path / "again")
    assert (again.passed_over["in"].broken, again.passed_over["in"].expired) == (0, 15)
    assert sorted(written(tmp_path, "all")["n"].to_pylist()) == [*range(15), *range(115, 120)]
    told = [
        (one.batch, one.told)
        for name in ("run", "again")
        for one in read_notices(tmp_path / name)
        if one.kind == Kind.PASSED_OVER
    ]
    assert [batch for batch, _ in told] == [0, 1, 2]
    assert told[0][1].startswith("Of source 'in', 1 broken record was passed over (partition 1, offset 10 of topic ")
    assert told[2][1] == "Of source 'in', 15 expired records were passed over in batch 2."


def test_what_stops_a_run_stops_it_in_a_sentence_and_nothing_is_lost(
    spark: Any, servers: Servers, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(source: Topic, kind: type[Exception], why: str) -> None:
        with pytest.raises(kind, match=why) as told:
            finished(counting(source, tmp_path), spark, tmp_path)
        assert "\n" not in str(told.value)

    source = kafka(servers, topic)
    nobody = sw.kafka("127.0.0.1:9", topic, schema=SCHEMA, patience_s=0.5)
    with caplog.at_level(logging.CRITICAL):
        refused(nobody, RunError, r"no server of 127\.0\.0\.1:9 has answered within 0\.5 s")
        servers.put(topic, [*rows(30), "no"], partition=2)
        refused(source, InputError, rf"^kafka: the record at partition 2, offset 30 of topic '{topic}' is broken: ")
        finished(counting(kafka(servers, topic, broken="skip"), tmp_path), spark, tmp_path)
        servers.put(topic, rows(20, first=30), partition=2)
        servers.expire(topic, 2, before=40)
        refused(source, InputError, rf"^kafka: 9 records of partition 2 of topic '{topic}' have expired")
    assert written(tmp_path, "all")["n"].to_pylist() == list(range(30))


def test_as_a_streaming_data_frame_below_sw_protect(spark: Any, servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.spread(topic, rows(100), partitions=3)
    frame = sw.frame(spark, kafka(servers, topic, about=["partition", "time"]))
    assert frame.isStreaming and frame.columns == ["seq", "word", "n", "partition", "time"]
    query = (
        sw.protect(frame.groupBy("word").count())
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName("counted_topic")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = {row["word"]: row["count"] for row in spark.table("counted_topic").collect()}
    assert found == {f"w{word}": len(range(word, 100, WORDS)) for word in range(WORDS)}


def test_what_can_not_be_a_frame(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"^frame: a topic is wanted"):
        sw.frame(spark, tmp_path)  # type: ignore[arg-type]


def test_between_jobs_that_go_back_a_topic_is_refused(spark: Any, servers: Servers, topic: str, tmp_path: Path) -> None:
    graph = counting(kafka(servers, topic), tmp_path, sw.Coordinated(batches=2))
    graph.sink("again", graph.add(Count("more", key="word"), sw.Stream("count", "out")), sw.Memory())
    graph.job("later", ["more"])
    with pytest.raises(GraphError, match=r"Source 'in' is a topic of Kafka, which Spark divides into other batches"):
        sw.run_jobs(graph, spark, backups=tmp_path / "backups", checkpoint=tmp_path / "checkpoint")


@pytest.mark.slow
def test_a_topic_goes_from_job_to_job(spark: Any, servers: Servers, topic: str, tmp_path: Path) -> None:
    servers.spread(topic, rows(100), partitions=3)
    graph = counting(kafka(servers, topic), tmp_path)
    more = graph.add(Count("more", key="word", value="count"), sw.Stream("count", "out"))
    graph.sink("again", more, sw.Parquet(str(tmp_path / "again")))
    graph.job("later", ["more"])
    with sw.run_jobs(
        graph,
        spark,
        backups=tmp_path / "backups",
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
    ) as jobs:
        jobs.wait()
    assert sorted(written(tmp_path, "all")["n"].to_pylist()) == list(range(100))
    found, summed = (written(tmp_path, name).to_pylist() for name in ("out", "again"))
    wanted: dict[str, int] = {}
    for row in found:
        wanted[row["word"]] = wanted.get(row["word"], 0) + row["count"]
    assert {row["word"]: row["count"] for row in sorted(summed, key=lambda row: row["batch"])} == wanted
