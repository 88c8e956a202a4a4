"""The experiments: the right settings, the same results for a seed, statements judged by what was found."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.model.simulating import runs
from tests.model.test_profile import graph as small_graph

from spillway.cli import model as model_command
from spillway.cli import profile as profile_command
from spillway.errors import GraphError, RunError
from spillway.graph import Graph
from spillway.model.simulating import PAPER_RULE, Point, Result, run_setting, run_settings
from spillway.papers.dissertation.bargain import RATES
from spillway.papers.dissertation.experiments import EXPERIMENTS, crash, validation
from spillway.papers.dissertation.statements import Statement, statements
from spillway.records.campaign import read_manifest
from spillway.records.model import MEASURES, POINTS_SCHEMA, ModelRecords
from spillway.report.model_page import model_page
from spillway.san.intervals import Estimate


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    model_command.add_options(parser)
    return model_command.main(parser.parse_args(words))


def test_settings_are_those_of_the_figures() -> None:
    assert {name: len(settings()) for name, settings in EXPERIMENTS.items()} == {
        "crash": 16,
        "rates": 8,
        "sdc": 12,
        "validation": 7,
    }
    assert {setting.flow.rate for setting in crash()} == set(RATES)
    assert all(setting.horizon_s == 7200 for setting in crash())
    assert PAPER_RULE.replications_min == 1000
    assert PAPER_RULE.level == 0.95


def test_a_seed_gives_the_same_results() -> None:
    setting = crash(rates=(250.0,), recoveries_s=(3.5,))[1]
    once, again, other = (run_setting(setting, seed=seed, precision=runs(5)) for seed in (7, 7, 8))
    assert once == again
    assert once.measures != other.measures


def result_of(experiment: str, means: dict[str, list[float]], *, half_width: float = 1e-6) -> Result:
    """A result with these means of measures, one for each setting; others are 1."""
    settings = crash(rates=(250.0, 550.0)) if experiment == "crash" else EXPERIMENTS[experiment]()
    points = []
    for at, setting in enumerate(settings):
        values = {name: means[name][at] if name in means else 1.0 for name in MEASURES}
        measures = {
            name: Estimate(name=name, mean=value, half_width=half_width, deviation=1.0, replications=2, level=0.95)
            for name, value in values.items()
        }
        points.append(
            Point(
                setting=setting, measures=measures, replications=2, precise=True, copies=8, events=0, skipped=0, jumps=0
            )
        )
    return Result(experiment=experiment, seed=1, points=tuple(points))


# Checkpoints at 3.5 s and 15 s, then groups at 3.5 s and 15 s, each at 250 and 550 tuples/s.
AVAILABLE = [0.977, 0.983, 0.939, 0.945, 0.978, 0.992, 0.972, 0.984]
TAINTED = [5500.0, 8800.0, 13_000.0, 26_000.0, 2500.0, 3100.0, 2900.0, 4000.0]
SHARE = [0.021, 0.015, 0.052, 0.046, 0.0096, 0.0054, 0.011, 0.007]


@pytest.mark.parametrize(
    ("changed", "half_width", "verdicts"),
    [
        ({}, 1e-6, ["holds"] * 5),
        ({"tainted": TAINTED[4:] + TAINTED[:4]}, 1e-6, ["does not hold", "holds", "holds", "holds", "holds"]),
        (
            {"availability": [1 - a for a in AVAILABLE]},
            1e-6,
            ["holds", "does not hold", "holds", "holds", "does not hold"],
        ),
        ({"tainted": TAINTED[::-1]}, 1e-6, ["does not hold", "holds", "does not hold", "holds", "holds"]),
        ({"tainted_share": SHARE[::-1]}, 1e-6, ["holds", "holds", "holds", "does not hold", "holds"]),
        ({}, 1e6, ["open"] * 5),
    ],
)
def test_statements_are_judged_by_what_was_found(
    changed: dict[str, list[float]], half_width: float, verdicts: list[str]
) -> None:
    means = {"availability": AVAILABLE, "tainted": TAINTED, "tainted_share": SHARE, **changed}
    judged = statements(result_of("crash", means, half_width=half_width))
    assert [statement.verdict for statement in judged] == verdicts


def verdict(judged: list[Statement], words: str) -> str:
    (found,) = [statement.verdict for statement in judged if words in statement.says]
    return found


def test_statements_about_rates_corruption_and_validation_can_fail() -> None:
    right = {
        "availability": [0.98, 0.97, 0.96, 0.94, 0.988, 0.977, 0.966, 0.948],
        "availability_own": [0.99] * 8,
        "tainted": [8e3, 9e3, 1.4e4, 2.2e4, 3e3, 4e3, 5e3, 1e4],
    }
    assert {statement.verdict for statement in statements(result_of("rates", right))} == {"holds"}
    wrong = {
        "availability": [0.98, 0.97, 0.96, 0.94, 0.998, 0.977, 0.966, 0.948],
        "availability_own": [0.9] * 8,
        "tainted": [8e3, 9e3, 1.4e4, 2.2e4, 3e3, 4e3, 5e3, 2e4],
    }
    judged = statements(result_of("rates", wrong))
    for words in ("0.009", "half", "overestimates"):
        assert verdict(judged, words) == "does not hold"

    quiet = statements(result_of("sdc", {"duplicates": [0.0] * 12, "tainted": [400.0] * 12}))
    assert verdict(quiet, "duplicates") == "open"
    assert verdict(quiet, "300") == "does not hold"
    loud = statements(result_of("sdc", {"duplicates": [0.0] * 4 + [9.0] * 8, "tainted": [250.0] * 12}))
    assert verdict(loud, "duplicates") == "holds"

    turned = statements(result_of("validation", {"availability": [0.1 * i for i in range(7)], "tainted": [1.0] * 7}))
    assert verdict(turned, "leaves least availability") == "does not hold"
    assert verdict(turned, "taints most tuples") == "does not hold"


def test_table_5_4_is_reproduced_in_its_order() -> None:
    found = run_settings("validation", validation(), seed=1, precision=runs(60))
    assert [statement.verdict for statement in statements(found)] == ["holds", "holds"]


def test_the_command_writes_records_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "run"
    words = (
        "bargain",
        "--experiment",
        "validation",
        "--quick",
        "--processes",
        "1",
        "--directory",
        str(where),
        "--json",
    )
    assert command(*words) == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert "validation 7/7" in captured.err
    assert [row["crashed"] for row in printed["points"]][:2] == ["source", "filter1"]
    assert {row["verdict"] for row in printed["statements"]} == {"holds"}
    assert pq.read_table(where / "points.parquet").schema == POINTS_SCHEMA
    html = (where / "report.html").read_text()
    assert "0.83987" not in captured.err
    assert html.count("<svg") == 2
    assert "holds" in html
    records = ModelRecords.read(where, read_manifest(where))
    assert records.modelled == "bargain"
    assert records.points.to_pylist() == printed["points"]
    assert len(records.published) == 14


def test_the_comparison_of_an_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "run"
    words = ("compare", "grep", "--quick", "--processes", "1", "--tuples", "4000", "--tuples-per-batch", "1000")
    often = ("--crash-rate", "0.002", "--recovery", "30", "--rate", "1000", "--hours", "0.5")
    assert command(*words, *often, "--directory", str(where), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    by_name = {row["configuration"]: row for row in printed["points"]}
    assert by_name["no faults"]["availability"] == 1.0
    assert by_name["groups"]["copies"] == 4
    assert by_name["groups"]["availability"] > by_name["nothing"]["availability"]
    assert (where / "profile.json").exists()
    assert "<svg" in (where / "report.html").read_text()


def own_graph() -> Graph:
    """A graph of a user's own, as the command line finds it."""
    return small_graph()


def test_a_graph_of_ones_own_is_measured_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{__name__}:own_graph"
    parser = argparse.ArgumentParser()
    profile_command.add_options(parser)
    options = parser.parse_args([name, "--rate", "500", "--output", str(tmp_path / "own.json")])
    options.json = True
    assert profile_command.main(options) == 0
    assert json.loads(capsys.readouterr().out)["sources"] == {"numbers": {"tuples_per_s": 500.0}}
    words = ("compare", name, "--profile", str(tmp_path / "own.json"), "--quick", "--processes", "1", "--hours", "0.1")
    assert command(*words, "--together", "kept,tally", "--directory", str(tmp_path / "run"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["modelled"] == "tally"


@pytest.mark.parametrize("name", ["nothing", "no.such.module:graph", f"{__name__}:nothing", f"{__name__}:Path", ":"])
def test_a_graph_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(GraphError):
        command("compare", name)


def test_a_net_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "join.svg"
    assert command("draw", "--operator", "join", "--faults", "crash", "--output", str(file), "--json") == 0
    assert json.loads(capsys.readouterr().out)["activities"] > 5
    assert file.read_text().startswith("<svg")
    assert "join[0].crash" in file.read_text()


def test_records_that_are_damaged_are_refused(tmp_path: Path) -> None:
    result = run_settings("validation", validation()[:1], seed=1, precision=runs(2))
    records = ModelRecords(
        modelled="x", settings={}, points=result.table(), statements=(), published=(), about={"seconds": 1.0}
    )
    records.write(tmp_path)
    manifest = read_manifest(tmp_path)
    assert "What would happen to x" in model_page(tmp_path, manifest)
    for change in ({"kind": "campaign"}, {"format": 0}, {"statements": 3}, {"published": [{}]}, {"settings": 1}):
        with pytest.raises(RunError):
            ModelRecords.read(tmp_path, {**manifest, **change})
    (tmp_path / "points.parquet").write_bytes(b"nonsense")
    with pytest.raises(RunError, match="cannot be read"):
        ModelRecords.read(tmp_path, manifest)
    with pytest.raises(RunError, match="cannot be written"):
        replace(records).write(tmp_path / "points.parquet" / "below")
