"""``spillway job``: one job of a graph in a driver of its own."""

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.cli.job_graph import graph
from tests.conftest import in_order

import spillway as sw
from spillway.cli.main import main
from spillway.records import read_progress
from spillway.state.folders import MEMORY_VARIABLE

OWN = "tests.cli.job_graph:graph"
VITALS = "has jobs TestSensor1, TestSensor2, TestJoin, TestAvg; there is no 'Nobody'"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([OWN, "counting"], "Drivers of a run find each other by its checkpoint: name a folder with --checkpoint"),
        ([OWN, "first", "--checkpoint", "c"], "Graph 'two' has jobs counting, choosing; there is no 'first'."),
        (["vitals", "Nobody", "--set", "jobs=1", "--checkpoint", "c"], VITALS),
        (["vitals", "TestJoin", "--checkpoint", "c"], "Graph 'vitals' has no jobs: --set jobs=1 cuts it."),
        (["grep", "all", "--checkpoint", "c"], "Graph 'grep' has no jobs: graph.job(name, operators) cuts one"),
        (["sieve", "all", "--checkpoint", "c"], "There is no application 'sieve'; there are bargain,"),
        (["tests.cli.job_graph:sieve", "all", "--checkpoint", "c"], "'tests.cli.job_graph:sieve' names no graph"),
        ([OWN, "counting", "--checkpoint", "c", "--set", "x=1"], "--set is for options of an application"),
        ([OWN, "--options"], "--options are those of an application"),
    ],
)
def test_what_cannot_be_run_is_said_before_spark_starts(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["job", *words]) == 1
    told = capsys.readouterr()
    assert said in told.err and not told.out
    assert main(["job", *words, "--json"]) == 1
    assert said in json.loads(capsys.readouterr().out)["error"]
    assert not [*tmp_path.iterdir()]


def test_run_names_the_command_for_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "vitals", "--set", "jobs=1", "--directory", str(tmp_path / "run")]) == 1
    assert "'spillway job vitals', with the same options, runs them" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_job_is_drawn_and_options_are_told_without_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["job", "vitals", "TestJoin", "--set", "jobs=1", "--checkpoint", "c", "--draw"]) == 0
    drawn = capsys.readouterr().out
    assert "TestSensor1.out" in drawn and "TestAvg" not in drawn.replace("stream log for TestAvg", "")
    assert main(["job", "vitals", "--options", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"]["default"] == 0


@pytest.mark.parametrize("text", ["5", "soon", "0x5s"])
def test_a_trigger_that_makes_no_sense_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["job", OWN, "counting", "--checkpoint", "c", "--trigger", text])
    assert ended.value.code == 2
    assert f"argument --trigger: {text!r} is neither now nor seconds, such as 5s" in capsys.readouterr().err


@pytest.mark.spark
def test_jobs_one_driver_after_the_other(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOB_OUTPUT", str(tmp_path / "jobs"))
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))  # where it goes with the test
    words = ["--checkpoint", str(tmp_path / "c"), "--master", "local[2,4]"]
    assert main(["job", OWN, "counting", *words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["graph"], told["jobs"]) == ("two", {"counting": {"batches": 3, "last_batch": 2}})
    assert [one["operator"] for one in told["operators"]] == ["counts"] and not told["restarts"]
    assert not (tmp_path / "jobs").exists()
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "memory").iterdir()} == {"two-counting", "two-logs"}
    assert main(["job", OWN, "choosing", *words]) == 0
    said = capsys.readouterr().out
    assert "choosing: " in said and "up to batch 2; none of its operators keeps state." in said
    assert main(["job", OWN, "choosing", *words]) == 0
    assert "choosing: nothing new to read; this job had finished at batch 2." in capsys.readouterr().out
    assert {row.batch for row in read_progress(tmp_path / "c-run" / "records" / "counting").rows} == {0, 1, 2}
    monkeypatch.setenv("JOB_OUTPUT", str(tmp_path / "whole"))
    with sw.LocalRun(graph(), backups=str(tmp_path / "b")) as whole:
        whole.run()
    assert output(tmp_path / "jobs") == output(tmp_path / "whole")


def output(folder: Path) -> Any:
    return in_order(ds.dataset(folder / "out", partitioning="hive").to_table())
