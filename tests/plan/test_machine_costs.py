"""Costs of a machine: measured once, kept, and refused if they are another machine's, another version's, or old."""

import json
from pathlib import Path
from typing import Any

import pytest

from spillway.cli.main import main
from spillway.clock import ManualClock
from spillway.errors import RunError
from spillway.plan.kept_machine import AGE_DAYS_MAX, costs_file, keep_for_machine, of_machine
from spillway.plan.machine_costs import MachineCosts, kept_costs

COSTS = MachineCosts(write_core_s=1e-4, write_core_s_per_byte=1e-9, write_s=0.01, process_bytes=1e8)
DAY_S = 86_400.0


def test_costs_that_are_kept_are_those_of_the_machine(tmp_path: Path) -> None:
    path, clock = tmp_path / "deep" / "costs.json", ManualClock(now_s=1e9)
    assert of_machine(path, clock=clock) is None
    keep_for_machine(COSTS, path, clock=clock)
    clock.advance(AGE_DAYS_MAX * DAY_S - 1)
    assert of_machine(path, clock=clock) == COSTS
    clock.advance(DAY_S)
    with pytest.raises(
        RunError, match=f"91 days old; {AGE_DAYS_MAX} are allowed. Measure them again: spillway profile"
    ):
        of_machine(path, clock=clock)
    with pytest.raises(RunError, match="days old"):
        of_machine(path, clock=ManualClock(now_s=1e8))  # from a time that has not come yet


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"machine": {"name": "elsewhere", "cores": 96}}, "costs of another machine: elsewhere, 96"),
        ({"spillway": "0.0.1"}, r"costs that Spillway 0\.0\.1 measured"),
        ({"format": 9}, "measured, and this is"),
        ({"costs": {"write_s": 1.0}}, "cannot be read as costs"),
        (
            {"costs": {"write_core_s": -1, "write_core_s_per_byte": 0, "write_s": 0, "process_bytes": 1}},
            "write_core_s must",
        ),
        ({"measured_s": "yesterday"}, "days old"),
    ],
)
def test_costs_of_something_else_are_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    path, clock = tmp_path / "costs.json", ManualClock(now_s=1e9)
    keep_for_machine(COSTS, path, clock=clock)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(RunError, match=told):
        of_machine(path, clock=clock)
    path.write_text("{")
    with pytest.raises(RunError, match="cannot be read as costs of this machine"):
        of_machine(path, clock=clock)


def test_evidence_takes_what_is_known(tmp_path: Path) -> None:
    assert kept_costs(tmp_path / "costs.json", known=lambda: COSTS) == COSTS
    assert kept_costs(tmp_path / "costs.json", known=lambda: None) == COSTS  # it has its own now


def test_a_command_measures_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--costs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["file"] == str(costs_file()) == str(tmp_path / "spillway" / "costs.json")
    kept = of_machine(costs_file())
    assert kept is not None
    assert told["costs"]["write_s"] == kept.write_s > 0
    of = told["protections"]
    assert of["Nothing"]["cores"] == 0 < of["Checkpoint(every 10 s)"]["cores"] < of["Exact"]["cores"]
    assert of["Approximate(theta 20,000)"]["written_bytes_per_s"] < of["Exact"]["written_bytes_per_s"]
    assert of["Exact"]["latency_s"] >= kept.write_s
    assert not list(tmp_path.glob("costs-*"))  # what was written to measure is gone
    assert main(["profile", "--costs"]) == 0
    assert "which spillway plan uses" in capsys.readouterr().out
    for words in (["profile"], ["profile", "flows", "--costs"]):
        assert main(words) == 1
        assert "or --costs for this machine" in capsys.readouterr().err
