"""Campaigns in TOML files, and the command that runs them."""

import argparse
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.apps.qrs import QRSDetector
from spillway.cli import inject as command
from spillway.errors import GraphError, InputError, RunError
from spillway.graph import Graph
from spillway.inject import AppInput, Assumed, read_campaign
from spillway.inject.campaign import parse_score
from spillway.papers.injection.designs import bargain
from spillway.score import Count, Mean, Sum

TEXT = """
name = "mine"
[input]
app = "bargain"
tuples = 20_000
seed = 4
options = { symbols = 60 }
[fault]
offsets = [5_000, 9_000]
outages_s = [0.2, 1]
targets = ["QuoteFilter"]
rates = { peak = 2200 }
[repeat]
trials = 2
golden = 3
[score]
sink = "Sink"
function = "sum(gain)"
section_tuples = 1_000
[[protect]]
name = "twice"
operators = ["QuoteFilter"]
how = "replicated"
outage_s = 0.1
"""


def test_a_campaign_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    found = read_campaign(path)
    assert (found.name, found.offsets, found.outages_s) == ("mine", (5_000, 9_000), (0.2, 1.0))
    assert found.input == AppInput(app="bargain", tuples=20_000, seed=4, options={"symbols": 60})
    assert (found.score, found.section_tuples, found.repetitions, found.golden_repetitions) == (Sum("gain"), 1000, 2, 3)
    assert found.assumed == (Assumed(name="twice", operators=("QuoteFilter",), how="replicated", outage_s=0.1),)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("tuples = 20_000", "tuple = 20_000"), "unexpected keyword argument 'tuple'"),
        (('name = "mine"', 'title = "mine"'), "title means nothing here"),
        (("[repeat]", "[repeat]\nfor = 3"), "repeat.for means nothing here"),
        (("offsets = [5_000, 9_000]", "offsets = 5_000"), "'offsets' must be list; got 5000"),
        (('function = "sum(gain)"', 'function = "gain"'), "module:function is wanted"),
        (('how = "replicated"', 'how = "prayed for"'), "restarted, checkpointed or replicated"),
        (("trials = 2", "trials = 9"), "at least as many golden runs"),
        (("[score]", "[score"), "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(*change))
    with pytest.raises(InputError, match=sentence):
        read_campaign(path)


def test_scores_by_name() -> None:
    assert [parse_score(text) for text in ("sum(a)", "mean(b)", "count()")] == [Sum("a"), Mean("b"), Count()]
    assert parse_score("statistics:fmean").__name__ == "fmean"  # type: ignore[attr-defined]
    for text in ("sum()", "count(x)", "nowhere:at_all", "math:pi", "total"):
        with pytest.raises(InputError):
            parse_score(text)


def test_the_paper_s_design() -> None:
    full = bargain("full")
    assert len(full.offsets) * len(full.outages_s) * 2 * full.repetitions == 300  # faults per operator, at two rates
    assert (full.golden_repetitions, full.section_tuples, full.threshold, full.percentile) == (300, 5000, 0.03, 0.9)


def _namespace(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    command.add_options(parser)
    return parser.parse_args(arguments)


def test_the_command_runs_a_campaign_and_resumes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, directory = tmp_path / "mine.toml", tmp_path / "run"
    path.write_text(TEXT)
    given = [str(path), "--directory", str(directory), "--processes", "1", "--json"]
    assert command.main(_namespace(given)) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["trials"], told["golden_runs"]) == (2 * 2 * 2 + 2 * 2, 3)
    assert told["naive_core_seconds"] > 0 and told["trials_per_s"] > 0
    quotes = told["metrics"][0]
    assert (quotes["target"], quotes["qs"], quotes["coq"]) == ("QuoteFilter", 0.0, -1.0)
    with pytest.raises(RunError, match="say --resume"):
        command.main(_namespace(given))
    assert command.main(_namespace([*given, "--resume"])) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == told["metrics"]
    with pytest.raises(RunError, match="no campaign to resume"):
        command.main(_namespace([str(path), "--directory", str(tmp_path / "other"), "--resume"]))


def test_the_command_explains_where_faults_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    assert command.main(_namespace([str(path), "--explain", "--json"])) == 0
    told = {one["operator"]: one for one in json.loads(capsys.readouterr().out)["operators"]}
    assert told["Aggregator"]["same_as"] == "TradeFilter"
    assert command.main(_namespace([str(path), "--explain"])) == 0
    assert "Aggregator    skipped" in capsys.readouterr().out
    with pytest.raises(RunError, match="--full and --quick are for designs"):
        command.main(_namespace([str(path), "--full"]))


@pytest.mark.parametrize(
    ("design", "struck"),
    [
        ("bargain", {"Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex"}),
        ("ecg", {"Recording", "QRSDetector"}),
        ("vitals", {"Readings", "TestSensor1", "TestSensor2", "TestJoin", "TestAvg"}),
        ("fab", {"Line", "Readings", "Measurements", "Join", "SameWafer", "Predictions"}),
    ],
)
def test_designs_that_come_with_it(design: str, struck: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(_namespace([design, "--explain", "--json"])) == 0
    told = json.loads(capsys.readouterr().out)["operators"]
    assert {one["operator"] for one in told if one["chosen"]} == struck


def test_an_option_of_several_parts_of_an_application_reaches_each(tmp_path: Path) -> None:
    """The rate of samples is one of the generator, of the reader and of the graph."""
    made = AppInput(app="ecg", tuples=100, options={"samples_per_s": 500.0, "noise": 0.0})()

    def first(graph: Graph) -> pa.Table:
        source = graph.checked().sources["Recording"]
        assert source.feed is not None
        return pa.Table.from_batches([source.feed.read(0)])

    table = first(made)
    assert table["time"].to_pylist()[:2] == [0.0, 0.002]
    pq.write_table(table.drop_columns(["time"]), tmp_path / "x.parquet")
    read = AppInput(app="ecg", path=str(tmp_path / "x.parquet"), options={"samples_per_s": 250.0})()
    assert first(read)["time"].to_pylist()[:2] == [0.0, 0.004]
    for graph, rate in ((made, 500.0), (read, 250.0)):
        detector = graph.checked().operators["QRSDetector"]
        assert isinstance(detector, QRSDetector) and detector.samples_per_s == rate
    with pytest.raises(GraphError, match="App 'ecg' has no option 'noise' here; it has samples_per_s"):
        AppInput(app="ecg", path=str(tmp_path / "x.parquet"), options={"noise": 0.0})()
