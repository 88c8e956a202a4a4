"""``spillway score`` and ``spillway report``, as people and programs call them."""

import argparse
import json
from pathlib import Path
from types import ModuleType

import pytest
from tests.records import campaigns

from spillway.cli import report, score
from spillway.errors import RunError


def call(module: ModuleType, *arguments: str) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    module.add_options(parser)
    return int(module.main(parser.parse_args(arguments)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign") / "run"
    campaigns.write(path)
    return path


def test_score_for_people(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(score, str(run)) == 0
    said = capsys.readouterr().out
    for expected in ("TradeFilter", "protect first", "(0.00, A)", campaigns.REPLICATED.name):
        assert expected in said


def test_score_for_programs_is_computed_anew(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(score, str(run), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    kept = json.loads((run / "result.json").read_text())["metrics"]
    told = [{name: row[name] for name in kept[0]} for row in (*found["metrics"], *found["reconfigured"])]
    assert told == kept
    assert found["finished"] is True
    assert found["metrics"][1]["verdict"] == "protect first"


def test_score_of_an_unfinished_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaigns.write(tmp_path / "run", finish=False)
    assert call(score, str(tmp_path / "run")) == 0
    assert "Unfinished: 120 trials so far" in capsys.readouterr().out


def test_report_is_written_beside_the_records(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(report, str(run), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    page = Path(found["report"])
    assert page == run / "report.html"
    assert page.stat().st_size == found["bytes"] > 50_000
    page.unlink()


def test_report_elsewhere(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(report, str(run), "--output", str(tmp_path / "page.html")) == 0
    assert "needs no network" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_what_cannot_be_done_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no manifest\.json"):
        call(report, str(tmp_path))
    with pytest.raises(RunError, match=r"has no manifest\.json"):
        call(score, str(tmp_path))
    with pytest.raises(RunError, match="cannot be written to"):
        call(report, str(run), "--output", str(tmp_path / "none" / "page.html"))
    assert list(tmp_path.iterdir()) == []
