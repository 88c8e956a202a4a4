"""``spillway run`` says what is promised where something is carried from one operator to the next."""

import json
from pathlib import Path

import pytest
from tests.report.test_campaign_page import words

from spillway.cli.main import main
from spillway.report.pages import report_page

pytestmark = pytest.mark.spark


def test_promises_are_printed_kept_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: object) -> None:
    options = ["--tuples", "200", "--tuples-per-batch", "100", "--protect", "approximate:theta=7"]
    assert main(["run", "bargain", *options, "--directory", str(tmp_path / "run")]) == 0
    refused = "nothing is promised of 'BargainIndex' compared with a run without failures."
    assert refused in capsys.readouterr().out
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [one["operator"] for one in manifest["promises"]["operators"]] == ["Aggregator", "BargainIndex"]
    said = words(report_page(tmp_path / "run"))
    assert "What is promised" in said and refused in said


def test_nothing_is_printed_where_nothing_is_carried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: object
) -> None:
    options = ["--tuples", "200", "--tuples-per-batch", "100", "--protect", "approximate:theta=7"]
    assert main(["run", "wordcount", *options, "--directory", str(tmp_path / "run")]) == 0
    assert "is protected by" not in capsys.readouterr().out
    assert "each number of its state stays within 7" in words(report_page(tmp_path / "run"))
