"""What reports say of the time of a batch, and that no advice promises more than they show."""

from typing import Any

import pytest
from tests.records.spark_progress import ROCKSDB, event, idle, report, state

from spillway.records.advising import LOG_SETTING, advised
from spillway.records.explaining import Explanation, Part, explained
from spillway.records.spark_reports import gathered
from spillway.spark.settings import FOR_LOCAL_CHECKPOINT


def of(reports: list[dict[str, Any]], cores: int | None = None) -> Explanation:
    (found,) = gathered(reports, cores=cores)
    return advised(explained(found))


def about(found: Explanation) -> dict[str, float]:
    return {one.about: one.share_max for one in found.advice}


def busy(*states: dict[str, Any], running: int = 40, batches: int = 3, **changed: Any) -> list[dict[str, Any]]:
    """Batches one right after the other, that run tasks for so long."""
    durations = {**report(0)["durationMs"], "addBatch": running, "triggerExecution": 60 + running}
    return [
        report(batch, began_s=batch * (60 + running) / 1000, durationMs=durations, stateOperators=[*states], **changed)
        for batch in range(batches)
    ]


def test_parts_of_a_batch_without_state() -> None:
    found = of(busy())
    assert found.parts_ms == {
        Part.PLANNING: 20,
        Part.LOGS: 30,
        Part.SOURCES: 5,
        Part.ROWS: 40,
        Part.UPDATES: 0,
        Part.COMMIT: 0,
        Part.REST: 5,
    }
    assert (found.batches, found.batch_ms, found.rows_per_batch, found.rows_per_s) == (3, 100, 1000, 10_000)
    assert (found.idle_ms, found.operators, found.state_ms_max) == (0, (), 0)
    assert about(found) == {"logs": 0.3, "planning": 0.2}


@pytest.mark.parametrize(
    ("cores", "slots", "updates", "commit"), [(None, None, 6, 10), (8, 4, 6, 10), (2, 2, 12, 20), (1, 1, 24, 40)]
)
def test_state_is_shared_out_among_the_tasks_that_run_at_a_time(
    cores: int | None, slots: int | None, updates: float, commit: float
) -> None:
    found = of(busy(state(), running=100), cores)
    assert (found.tasks_at_a_time, found.parts_ms[Part.UPDATES], found.parts_ms[Part.COMMIT]) == (
        slots,
        updates,
        commit,
    )
    assert found.parts_ms[Part.ROWS] == 100 - updates - commit
    # However it is spread: the sum of all tasks, which is less than they ran.
    assert found.state_ms_max == 64
    assert about(found)["state"] == pytest.approx(64 / 160)


def test_state_is_never_more_than_tasks_ran() -> None:
    found = of(busy(state(updates=300, removals=0, commit=100, partitions=2), running=100), 2)
    assert (found.parts_ms[Part.UPDATES], found.parts_ms[Part.COMMIT], found.parts_ms[Part.ROWS]) == (75, 25, 0)
    assert found.state_ms_max == 100


@pytest.mark.parametrize(
    ("metrics", "provider"), [(None, "HDFS-backed"), (ROCKSDB, "RocksDB"), ({}, "unknown"), ({"mine": 3}, "unknown")]
)
def test_the_store_is_known_by_its_metrics(metrics: dict[str, int] | None, provider: str) -> None:
    (operator,) = of(busy(state(metrics=metrics))).operators
    assert (operator.name, operator.provider, operator.partitions) == ("stateStoreSave", provider, 4)
    assert (operator.rows, operator.memory_bytes, operator.updated_rows) == (500, 131_784, 50)
    assert operator.tasks_ms == 64


def test_state_that_protect_does_not_take_promises_nothing() -> None:
    for states in (
        [state("symmetricHashJoin")],
        [state(), state("symmetricHashJoin")],
        [state(), state()],
    ):
        found = of(busy(*states, running=200))
        assert about(found)["state"] == 0
        (told,) = (one.text for one in found.advice if one.about == "state")
        assert "sw.protect keeps the state of one aggregation; this query" in told
    assert about(of(busy(state("dedupe"), running=100)))["state"] == 0


def test_batches_without_rows_are_left_out() -> None:
    empty = report(3, rows=0, began_s=9, durationMs={"addBatch": 7_000, "triggerExecution": 7_100})
    found = of([*busy(), empty, idle(4), idle(4)])
    assert (found.batches, found.batches_without_rows, found.batch_ms) == (3, 3, 100)
    assert "3 without rows left out" in str(found)


@pytest.mark.parametrize("reports", [[idle(0)], [report(0, rows=0)], [idle(0), idle(0)]])
def test_without_batches_nothing_is_explained(reports: list[dict[str, Any]]) -> None:
    found = of(reports)
    assert (found.batches, found.advice) == (0, ())
    assert str(found) == "clicks: no batch with rows was reported, so there is nothing to explain yet."


def test_a_query_that_waits_is_told_that_it_keeps_up() -> None:
    found = of([report(batch) for batch in range(4)])  # one every two seconds
    assert found.idle_ms == 1900
    assert found.advice[0].text.startswith("It keeps up: 1,900 of 2,000 ms (95%) it waits")
    # Not across a restart, nor where reports are missing.
    assert of([report(0), report(5)]).idle_ms == 0
    assert of([report(0), report(1, runId="another")]).idle_ms == 0
    assert of([report(0), report(1, timestamp="some day")]).idle_ms == 0


def test_an_event_log_says_the_same() -> None:
    reports = busy(state())
    assert of([event(one)["progress"] for one in reports]) == of(reports)


def test_medians_forget_a_first_batch_that_loads() -> None:
    slow = report(0, began_s=0, durationMs={"addBatch": 9_000, "queryPlanning": 3_000, "triggerExecution": 12_500})
    found = of([slow, *busy()[1:], *busy()[1:]])
    assert (found.batch_ms, found.parts_ms[Part.PLANNING], found.parts_ms[Part.ROWS]) == (100, 20, 40)


def test_where_rows_take_it_all_nothing_is_promised() -> None:
    found = of(busy(running=2000))
    assert about(found) == {"rows": 0.0}
    assert "97% of a batch goes to the rows themselves" in found.advice[0].text


def test_sources_that_take_long_are_told_of_and_left_alone() -> None:
    durations = {"latestOffset": 300, "addBatch": 600, "triggerExecution": 920}
    found = of([report(0, durationMs=durations)])
    assert about(found) == {"sources": 0.0}
    assert "Sources take 300 ms of a batch (33%)" in found.advice[0].text


@pytest.mark.parametrize(
    ("partitions", "cores", "told"), [(200, 4, True), (8, 2, False), (9, 2, True), (200, None, False)]
)
def test_many_small_tasks_are_told_of(partitions: int, cores: int | None, told: bool) -> None:
    found = of(busy(state(partitions=partitions)), cores)
    assert ("partitions" in about(found)) is told
    if told:
        assert any(f"spark.sql.shuffle.partitions={cores}" in one.text for one in found.advice)


def test_what_can_bring_most_comes_first_and_no_share_is_more_than_all() -> None:
    found = of(busy(state(updates=10_000), running=60))
    shares = [one.share_max for one in found.advice]
    assert shares == sorted(shares, reverse=True) and max(shares) <= 1
    assert [one.about for one in found.advice] == ["state", "logs", "planning"]
    assert all("at most" in one.text for one in found.advice)


def test_the_setting_that_is_named_is_the_one_we_set() -> None:
    ((name, value),) = FOR_LOCAL_CHECKPOINT.items()
    assert f"{name}={value}" == LOG_SETTING


@pytest.mark.parametrize(
    "changed",
    [
        {"stateOperators": None, "sources": None},
        {"stateOperators": [3], "timestamp": None},
        {"durationMs": {"addBatch": "long", "triggerExecution": None}},
        {"stateOperators": [{"customMetrics": 3, "commitTimeMs": -5}]},
    ],
)
def test_what_a_report_lacks_is_taken_for_nothing(changed: dict[str, Any]) -> None:
    found = of([report(batch, **changed) for batch in range(2)])
    assert found.batches == 2
    assert all(spent >= 0 for spent in found.parts_ms.values())
    assert str(found)
