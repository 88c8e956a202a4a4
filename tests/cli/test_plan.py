"""``spillway plan`` as it is called: a small campaign, its plan, and what is refused in a sentence."""

import json
from pathlib import Path

import pytest

from spillway.backup.written import read_protections
from spillway.cli.main import main

CAMPAIGN = """
name = "small"

[input]
app = "bargain"
tuples = 8_000
seed = 5
options = { symbols = 40, exponent = 1.0 }

[fault]
model = "outage"
offsets = [2_000, 4_000]
outages_s = [1.0]
rates = { peak = 2200.0 }

[repeat]
trials = 1
golden = 1

[score]
sink = "Sink"
function = "sum(gain)"
section_tuples = 500
settled_every = 500
"""


@pytest.fixture(autouse=True)
def _no_costs_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_plan_is_made_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign, evidence, written = tmp_path / "small.toml", tmp_path / "evidence", tmp_path / "plan.toml"
    campaign.write_text(CAMPAIGN)
    words = ["plan", str(campaign), "--quality", "0.95", "--window", "10", "--restart", "0.5", "--processes", "1"]
    words += ["--evidence", str(evidence)]
    assert main([*words, "--write", str(written), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["met"]
    assert told["quality"] >= 0.95
    assert told["cost"] <= told["cost_of_losing_nothing"]
    assert {row["operator"] for row in told["operators"]} >= {"TradeFilter", "Aggregator", "VWAP", "QuoteFilter"}
    assert read_protections(written).graph == "bargain"
    assert (evidence / "report.html").exists()
    assert main(words) == 0  # for people, from the evidence that is there
    shown = capsys.readouterr().out
    assert all(row["operator"] in shown for row in told["operators"])
    for quality in ("0.95", "0.9999"):  # one that stands, and one that other input, other places, may not leave
        written.unlink(missing_ok=True)
        words[words.index("--quality") + 1] = quality
        stands = main([*words, "--prove", "--write", str(written), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (
            stands
            == told["stands"]
            == written.exists()
            == next(row["stands"] for row in told["proof"] if row["plan"] == "chosen")
        )
    assert main([*words, "--back-within", "0.01"]) == 1
    assert "No plan gives all of this" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bargain"], "Nothing is wished"),
        (["talkers", "--quality", "0.9"], "There is no campaign file talkers, and designs that come with Spillway are"),
        (["campaign.toml", "--quality", "0.9", "--quick"], "--full and --quick are for designs"),
        (["bargain", "--quality", "1.9"], "quality lies between 0 and 1"),
        (["bargain", "--quality", "0.9", "--fails", "VWAP"], "--fails wants OPERATOR=TIMES"),
        (["bargain", "--quality", "0.9", "--kills", "2"], "--kills says how a plan is proven"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 1
    assert told in capsys.readouterr().err
