"""``spillway run`` of one's own graph: how it is found, what may be said of it, and that it goes on."""

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests.cli.own_graph import counting
from tests.conftest import in_order

import spillway as sw
from spillway.cli.main import main
from spillway.state.folders import MEMORY_VARIABLE

HERE = "tests.cli.own_graph"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sieve"], "There is no application 'sieve'; there are bargain,"),
        (["tests.cli.own_graph"], "A graph of your own is named as package.module:name."),
        (["tests.cli.nowhere:graph"], "'tests.cli.nowhere:graph' names no graph: No module named 'tests.cli.nowhere'."),
        ([f"{HERE}:fish"], f"names no graph: module '{HERE}' has no attribute 'fish'."),
        ([f"{HERE}:number"], "must be a Graph, or a function that makes one; got int."),
        ([f"{HERE}:of_two"], "wants spark, folder; a function that makes a graph is given a Spark session or nothing."),
        ([f"{HERE}:broken"], "made no graph: ZeroDivisionError: integer division or modulo by zero, at line 35 of "),
        ([f"{HERE}:badly_drawn"], "there are two nodes named 'counts'; names must be unique. (line 40 of "),
        ([f"{HERE}:graph", "--tuples", "5"], "--tuples is for the input of an application, and yours brings its own."),
        ([f"{HERE}:graph", "--input", "x"], "--input is for the input of an application"),
        ([f"{HERE}:graph", "--tuples-per-batch", "5"], "--tuples-per-batch is for the input of an application"),
        ([f"{HERE}:graph", "--seed", "0"], "--seed is for the input of an application"),
        ([f"{HERE}:graph", "--set", "x=1"], "--set is for options of an application"),
        ([f"{HERE}:graph", "--options"], "--options are those of an application"),
        (["tests.cli.job_graph:graph"], "'spillway job tests.cli.job_graph:graph', with the same options, runs them"),
    ],
)
def test_what_cannot_be_run_is_said_before_spark_starts(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", *words]) == 1
    told = capsys.readouterr()
    assert said in told.err and not told.out
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import nothing_of_the_kind",
            "names no graph: ModuleNotFoundError: No module named 'nothing_of_the_kind', at",
        ),
        ("x = 1\ny = x.fish", "names no graph: AttributeError: 'int' object has no attribute 'fish', at line 2 of "),
        ("x = 1\n\nx = (", "names no graph: SyntaxError: '(' was never closed"),
    ],
)
def test_a_module_that_does_not_load_is_told_by_its_line(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "unloadable.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["run", "unloadable:graph"]) == 1
    told = capsys.readouterr().err
    assert said in told and f" of {tmp_path / 'unloadable.py'}" in told


def test_commands_without_spark_say_that_they_have_no_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", f"{HERE}:of_session"]) == 1
    assert "wants spark, a Spark session, and this command works without Spark." in capsys.readouterr().err


def test_protection_and_shards_that_are_asked_for_take_the_place_of_the_graphs_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", f"{HERE}:graph", "--draw"]) == 0
    assert "Nothing" in capsys.readouterr().out
    assert main(["run", f"{HERE}:graph", "--draw", "--protect", "approximate:theta=7", "--shards", "3"]) == 0
    drawn = capsys.readouterr().out
    assert "Approximate(theta 7)" in drawn and "Nothing" not in drawn


@pytest.mark.spark
def test_ones_own_graph_runs_and_says_when_nothing_is_left_to_read(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OWN_OUTPUT", str(tmp_path / "made"))
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))  # where it goes with the test
    directory = tmp_path / "run"
    words = ["run", f"{HERE}:counting", "--directory", str(directory), "--backups", str(tmp_path / "b"), "--state"]
    words += [str(tmp_path / "state"), "--checkpoint", str(tmp_path / "c"), "--protect", "exact", "--trigger", "now"]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["app"], told["graph"], told["batches"], told["interrupted"]) == (None, "own", 3, False)
    assert told["state"] == str(tmp_path / "state") and told["operators"][0]["backups"] == 6
    assert (tmp_path / "b").is_dir() and (tmp_path / "c").is_dir()
    assert {*map(str, (one.name for one in directory.iterdir()))} >= {"manifest.json", "progress"}
    assert not (directory / "backups").exists() and not (directory / "checkpoint").exists()
    with sw.LocalRun(counting(sw.Memory()), backups=str(tmp_path / "local")) as whole:
        whole.run()
        wanted = in_order(whole.result("out"))
    made = in_order(ds.dataset(tmp_path / "made" / "out").to_table().select(wanted.column_names))
    assert made.to_pylist() == wanted.to_pylist()
    assert main(words) == 0
    said = capsys.readouterr().out
    assert f"own: nothing left to read: the run in {directory} had finished, at batch 2." in said
    assert "name another --directory to run it from the start" in said and "keeps state" not in said


@pytest.mark.spark
def test_a_function_is_given_the_session_and_memory_is_shown(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, str(tmp_path / "memory"))
    assert main(["run", f"{HERE}:of_session", "--directory", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "out, a Memory sink: " in said and "the first 10" in said
    assert f"Records and backups are in {tmp_path / 'run'}" in said
