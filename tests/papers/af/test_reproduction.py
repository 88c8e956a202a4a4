"""Records of a reproduction: written, read back, shown, and judged in words."""

import json
from pathlib import Path

import pytest

from spillway.cli.main import main
from spillway.errors import RunError
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Check, Reproduction
from spillway.report.af_page import af_page, charts


def records() -> Reproduction:
    found = Reproduction(paper="af", settings={"quick": True, "seconds": 3.0})
    for failures, score in ((0, 0.99), (10, 0.98)):
        found.add(
            "accuracy",
            {
                "workload": "hitters",
                "theta": 100.0,
                "items": 10.0,
                "failures": failures,
                "score_precision": score,
                "distance_max": 3.0,
                "distance_bound": 50.0,
                "distance_sum": 6.0,
                "theta_bound": 100.0,
                "items_lost": 5,
                "items_bound": 10.0,
                "within_bounds": True,
                "backups": 4,
                "backup_chances": 8,
                "recover_s": 0.01,
            },
        )
    for theta in (1.0, 10.0, float("inf")):
        found.add(
            "theta",
            {
                "theta": theta,
                "tuples_per_s": 1e5 + min(theta, 100.0),
                "backup_fraction": 0.5,
                "backup_bytes": 100,
                "recover_s": 0.02,
            },
        )
    found.add("items", {"items": 100.0, "items_per_s": 5e4, "saved_fraction": 1.0, "lost": 0})
    found.add("theorems", {"theorem": "1", "says": "a < b", "found": "a = 1", "holds": True})
    found.published["hitters"] = {
        "text": "The paper: 98.9 %.",
        "without": 0.989,
        "settings": [{"name": "theta 1e5", "after_ten": 0.928}],
    }
    found.checks = [
        Check(name="hitters: recall 1.0", holds=True, ours=1.0, paper="no key missed"),
        Check(name="lr: worse by little", holds=False, ours=0.0375, paper=None),
    ]
    return found


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    records().write(tmp_path)
    again = Reproduction.read(tmp_path, read_manifest(tmp_path))
    assert again.checks == records().checks and not again.all_hold
    assert again.tables["theta"][2]["theta"] == float("inf")
    assert [row["score_precision"] for row in again.tables["accuracy"]] == [0.99, 0.98]


def test_early_records_told_of_checks_only_whether_they_hold(tmp_path: Path) -> None:
    records().write(tmp_path)
    manifest = {**read_manifest(tmp_path), "checks": {"a": True, "b": False}}
    again = Reproduction.read(tmp_path, manifest)
    assert [(check.name, check.holds, check.ours) for check in again.checks] == [("a", True, None), ("b", False, None)]


def test_the_page_shows_figures_bounds_and_what_the_paper_had(tmp_path: Path) -> None:
    records().write(tmp_path)
    page = af_page(tmp_path, read_manifest(tmp_path))
    for wanted in (
        "Figure 6",
        "0.9900",
        "The paper: 98.9 %.",
        "does not hold",
        "no key missed",
        "0.0375",
        "a &lt; b",
        "no backups",
    ):
        assert wanted in page
    assert set(charts(tmp_path, read_manifest(tmp_path))) == {
        "accuracy-hitters.svg",
        "theta-a.svg",
        "theta-b.svg",
        "theta-c.svg",
        "items-a.svg",
        "items-b.svg",
    }


def test_the_report_command_knows_a_reproduction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records().write(tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert "Figure 6" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("spoil", ["missing", "garbage", "format", "checks"])
def test_damaged_records_are_refused(tmp_path: Path, spoil: str) -> None:
    records().write(tmp_path)
    if spoil == "missing":
        (tmp_path / "theta.parquet").unlink()
    elif spoil == "garbage":
        (tmp_path / "theta.parquet").write_bytes(b"no parquet")
    else:
        changed = {"format": 99} if spoil == "format" else {"checks": [{"name": "x"}]}
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **changed}))
    with pytest.raises(RunError):
        af_page(tmp_path, read_manifest(tmp_path))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        records().write(tmp_path / "file" / "run")
