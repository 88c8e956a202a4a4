"""Spark's progress reports are found in whatever Spark and its users write them into; the rest is refused by name."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from tests.records.spark_progress import event, executor, report

from spillway.errors import InputError
from spillway.records import spark_reports
from spillway.records.spark_reports import Reports, gathered, read_reports

LOG = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    executor("1", 2),
    executor("2", 2),
    {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1"},
    executor("3", 1),
    event(report(0)),
    event(report(1, name="other")),
    event(report(1)),
]


def lines(values: list[dict[str, object]]) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def batches(found: list[Reports]) -> dict[str, list[int]]:
    return {one.query: [report["batchId"] for report in one.reports] for one in found}


@pytest.mark.parametrize(
    "text",
    [
        lines([report(0), report(1)]),
        json.dumps([report(0), report(1)]),
        json.dumps([report(0)], indent=2) + "\n" + json.dumps([report(1)]),
        json.dumps(report(0), indent=2) + ",\n" + json.dumps(report(1), indent=2),
        "\n\n" + lines([report(0), report(1)]) + "\n",
    ],
)
def test_json_of_any_layout_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "reports").write_text(text)
    (found,) = read_reports(tmp_path / "reports")
    assert (found.query, found.cores) == ("clicks", None)
    assert [one["batchId"] for one in found.reports] == [0, 1]


def test_of_an_event_log_reports_and_cores_are_picked_by_query(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(lines(LOG))
    found = read_reports(tmp_path / "log")
    assert {one.query: [report["batchId"] for report in one.reports] for one in found} == {
        "clicks": [0, 1],
        "other": [1],
    }
    assert {one.cores for one in found} == {4}


def test_a_log_in_parts_is_read_in_their_order_and_may_be_packed(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app"
    folder.mkdir()
    (folder / "appstatus_app").write_text("")
    (folder / "events_2_app").write_text(lines([event(report(1))]))
    (folder / "events_10_app.gz").write_bytes(gzip.compress(lines([event(report(2))]).encode()))
    with pa.CompressedOutputStream(str(folder / "events_1_app.zstd"), "zstd") as packed:
        packed.write(lines([event(report(0))]).encode())
    (found,) = read_reports(folder)
    assert [one["batchId"] for one in found.reports] == [0, 1, 2]


def test_a_log_may_end_in_the_middle_and_nowhere_else(tmp_path: Path) -> None:
    whole = lines(LOG)
    (tmp_path / "log").write_text(whole[:-30])
    found = read_reports(tmp_path / "log")
    assert batches(found) == {"clicks": [0], "other": [1]}
    # Packed, it ends where a block does.
    with pa.CompressedOutputStream(str(tmp_path / "packed"), "zstd") as packed:
        packed.write(lines([event(report(batch)) for batch in range(2_000)]).encode())
    (tmp_path / "packed").write_bytes((tmp_path / "packed").read_bytes()[:-3])
    (clicks,) = batches(read_reports(tmp_path / "packed")).values()
    assert clicks == [*range(len(clicks))] and 1_000 < len(clicks) < 2_000
    (tmp_path / "log").write_text(whole.replace('"numShuffle', "numShuffle").replace('{"id"', "{id", 1))
    with pytest.raises(InputError, match="event 6 is no JSON: the log is damaged"):
        read_reports(tmp_path / "log")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "has no progress report of a streaming query. Progress reports"),
        (b"[]", "has no progress report"),
        (lines(LOG[:2]).encode(), "has no progress report"),
        (b"fish", "line 1: this is no JSON"),
        (lines([report(0)]).encode() + b"fish", "line 2: this is no JSON"),
        (b'{"batchId": 3}', "report 1 is no progress report: it has no batchId and durationMs"),
        (b'[3, "x"]', "report 1 is no progress report"),
        (b"\xff\xfe\x00\x01", "is no text"),
        (b"LZ4Block\x26 and so on", "is packed in a way that only Spark reads"),
    ],
)
def test_rubbish_is_refused_and_what_is_wanted_is_said(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(InputError) as refused:
        read_reports(tmp_path / "file")
    assert said in str(refused.value) and str(tmp_path / "file") in str(refused.value)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_reports(tmp_path / "none")
    with pytest.raises(InputError, match="is a folder without parts of an event log"):
        read_reports(tmp_path)


def test_nothing_grows_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_reports, "REPORTS_MAX", 3)
    (found,) = gathered(report(batch) for batch in range(9))
    assert [one["batchId"] for one in found.reports] == [6, 7, 8]
    monkeypatch.setattr(spark_reports, "_QUERIES_MAX", 3)
    with pytest.raises(InputError, match="more than 3 queries"):
        gathered(report(0, name=f"query {number}") for number in range(9))
    monkeypatch.setattr(spark_reports, "_BYTES_MAX", 2000)
    (tmp_path / "file").write_text(lines([report(batch) for batch in range(9)]))
    with pytest.raises(InputError, match="of reports; take the last ones"):
        read_reports(tmp_path / "file")
    (tmp_path / "file").write_text(" " * 3000)
    with pytest.raises(InputError, match="has a line of more than"):
        read_reports(tmp_path / "file")
