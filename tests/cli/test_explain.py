"""``spillway explain``: tables for people, the same as JSON, refusals in a sentence."""

import json
from pathlib import Path

import pytest
from tests.records.spark_progress import event, executor, report, state

from spillway.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    reports = [report(batch, stateOperators=[state()]) for batch in range(4)]
    events = [executor("driver", 2), *map(event, reports), event(report(0, name="idle", sources=[]))]
    (tmp_path / "log").write_text("\n".join(map(json.dumps, events)))
    return tmp_path / "log"


def test_tables_and_advice(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(log)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clicks: 4 batches of 1,000 rows, 100 ms each, 1,900 ms between two" in said
    assert "│ logs │ 30 │ 30% │" in said and "│ state commit │ 20 │ 20% │" in said
    assert "State, its times spread evenly over 2 tasks at a time" in said
    assert "│ stateStoreSave │ HDFS-backed │ 4 │ 500 │ 132 kB │ 50 │ 64 │" in said
    assert "sw.protect would keep the state of stateStoreSave" in said
    assert "idle: no batch with rows was reported" in said


def test_json_of_one_query_with_as_many_cores_as_were_said(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(log), "--json", "--query", "clicks", "--cores", "1"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["queries"]
    assert (found["query"], found["batches"], found["tasks_at_a_time"]) == ("clicks", 4, 1)
    assert found["parts_ms"]["state commit"] == pytest.approx(40 * 40 / 64)  # which is no longer than tasks ran
    assert found["shares"]["logs"] == 0.3
    assert [one["about"] for one in found["advice"]] == ["waiting", "state", "logs", "planning"]


def test_refusals(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(log), "--query", "fish"]) == 1
    assert "has no query 'fish'; it has clicks, idle." in capsys.readouterr().err
    assert main(["explain", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err
