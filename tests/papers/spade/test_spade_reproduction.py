"""Records of seed 004's experiments: what is judged, what decides, and what is shown."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spillway.cli.main import main
from spillway.cli.reproduce import PAPERS
from spillway.papers.spade import reproduction
from spillway.papers.spade.judging import judge_crashes, judge_joins
from spillway.papers.spade.reproduction import FULL, QUICK, Joins, Size, reproduce_in
from spillway.papers.spade.streams import GROUPS, GROUPS_BY_KEY, WINDOWS, Kind
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Check, Reproduction
from spillway.report.pages import report_page
from spillway.report.spade_markdown import spade_markdown
from spillway.report.spade_page import charts, spade_page

SMALL = Size(
    runs=1,
    joins=(
        Joins(kind=Kind(window=8_192), every_second=(512,), worked_s=0.05, repetitions=2),
        Joins(kind=Kind(window=64, by_key=True), every_second=(32,), worked_s=0.05, repetitions=1),
        Joins(kind=Kind(window=64, by_key=True), every_second=(), every_ten=(32,), worked_s=0.05, repetitions=1),
    ),
)


def join(window: int, group: int | None, interval_s: float | None, ratio: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "join": f"{window:,}",
        "window": window,
        "by_key": False,
        "group": group,
        "interval_s": interval_s,
        "control": False,
        "ratio": ratio,
        "ratio_low": ratio - 0.01,
        "ratio_high": ratio + 0.01,
        "batch_ratio": ratio,
        "wall_ratio": ratio,
        "samples": 10,
        "checkpoints": 10,
        "saving_share": 0.01,
        "input_per_s": 1e8 / window,
        **more,
    }


def joins(goal: float = 0.99) -> list[dict[str, Any]]:
    rows = []
    for window in WINDOWS:
        rows += [join(window, None, None), join(window, None, None, 1.001, control=True)]
    rows += [join(8_192, group, 1.0, 0.94) for group in (512, 4_096)]
    rows += [join(32_768, 512, 1.0, goal), join(32_768, 4_096, 1.0, 0.97), join(32_768, 512, 10.0, 0.995)]
    by_key = {"by_key": True, "join": "per-group"}
    return [*rows, *(join(1_024, group, 1.0, ratio, **by_key) for group, ratio in ((64, 0.985), (256, 0.97)))]


def crash(**changed: Any) -> dict[str, Any]:
    given = {"with_rmse": 0.1, "without_rmse": 1.0, "golden_same": True, "with_same_before": True}
    given |= {"without_same_before": True, "with_recovered_from": "batch 3 of 5", "without_recovered_from": "nothing"}
    return {**given, **changed}


def scenarios(saved: float = 0.1, bare: float = 1.0) -> list[dict[str, Any]]:
    return [
        {"scenario": name, "rmse": rmse, "rmse_low": rmse, "rmse_high": rmse, "largest": 10 * rmse}
        for name, rmse in (("S1", 0.0), ("S2", saved), ("S3", bare))
    ]


def by_name(checks: list[Check]) -> dict[str, Check]:
    found = {check.name: check for check in checks}
    assert len(found) == len(checks)
    return found


class TestCrashes:
    def test_all_hold(self) -> None:
        checks = judge_crashes(scenarios(), [crash(), crash()])
        assert all(check.holds for check in checks)
        assert [check.decides for check in checks] == [True] * 4 + [False] * 2

    @pytest.mark.parametrize(
        ("rows", "runs", "broken"),
        [
            (scenarios(saved=1.0), [crash()], {"must: figure 7", "figure 7, the"}),
            (scenarios(saved=2.0), [crash(with_rmse=2.0)], {"must: figure 7", "figure 7, the", "figure 7, RMSE"}),
            (scenarios(), [crash(), crash(golden_same=False)], {"must: all runs"}),
            (scenarios(), [crash(without_same_before=False)], {"must: predictions"}),
            (scenarios(), [crash(with_recovered_from="nothing")], {"must: every crash"}),
            (scenarios(), [crash(without_recovered_from="")], {"must: every crash"}),
        ],
    )
    def test_each_can_fail(self, rows: list[Any], runs: list[Any], broken: set[str]) -> None:
        failed = [check.name for check in judge_crashes(rows, runs) if not check.holds]
        assert len(failed) == len(broken)
        assert all(any(name.startswith(start) for start in broken) for name in failed)


class TestJoins:
    def test_as_in_the_paper_all_hold(self) -> None:
        checks = by_name(judge_joins(joins()))
        assert all(check.holds for check in checks.values()), checks
        (must,) = (check for check in checks.values() if check.decides)
        assert must.name.endswith("of a window of 32,768 every second, in groups of 512, cost at most 2%")
        assert must.ours.startswith("1.00% of processor time (0.00% to 2.00%, 10 stretches)")  # type: ignore[union-attr]
        assert "two without checkpoints are 0.10% apart" in str(must.ours)
        assert len(checks) == 8

    def test_what_must_hold_can_fail(self) -> None:
        failed = [check for check in judge_joins(joins(goal=0.97)) if not check.holds]
        assert [check.name[:4] for check in failed if check.decides] == ["must"]
        assert len(failed) > 1  # 4,096 is no worse then, and a window for each key costs less
        never = [{**row, "checkpoints": 0} for row in joins()]
        assert [check.decides for check in judge_joins(never) if not check.holds] == [True]

    @pytest.mark.parametrize(
        ("window", "group", "interval_s", "changed", "broken"),
        [
            (16_384, None, None, {"input_per_s": 1e9}, "table 1"),
            (8_192, 4_096, 1.0, {"ratio": 0.96}, "figure 8, a window of 8,192"),
            (32_768, 4_096, 1.0, {"ratio": 0.999}, "figure 8, at a window of 32,768"),
            (8_192, 512, 1.0, {"ratio": 0.9995}, "figure 8, in groups of 512"),
            (32_768, 512, 10.0, {"ratio": 0.98}, "figure 9"),
            (1_024, 256, 1.0, {"ratio": 0.9855}, "figure 10, every second"),
            (1_024, 64, 1.0, {"ratio": 0.9955}, "figure 10, a per-group join"),
        ],
    )
    def test_each_relation_can_fail(
        self, window: int, group: int | None, interval_s: float | None, changed: dict[str, float], broken: str
    ) -> None:
        rows = joins()
        (row,) = (
            row
            for row in rows
            if (row["window"], row["group"], row["interval_s"]) == (window, group, interval_s) and not row["control"]
        )
        row |= changed
        assert any(check.name.startswith(broken) and not check.holds for check in judge_joins(rows))

    def test_nothing_is_said_of_what_was_not_measured(self) -> None:
        assert judge_joins([join(8_192, None, None), join(8_192, None, None, control=True)]) == []


def test_sizes_are_the_papers() -> None:
    assert FULL.runs == 40
    assert [joins.kind.window for joins in FULL.joins] == [*WINDOWS, 1_024]
    assert all(joins.repetitions > 1 for joins in FULL.joins)
    assert {joins.every_second for joins in FULL.joins} == {GROUPS, GROUPS_BY_KEY}
    assert {joins.kind.window for joins in QUICK.joins} == {*WINDOWS, 1_024}
    assert all(joins.worked_s > 10 for size in (FULL, QUICK) for joins in size.joins if joins.every_ten)


@pytest.fixture(scope="module")
def records() -> Reproduction:
    told: list[str] = []
    found = reproduce_in(SMALL, parts=reproduction.PARTS, seed=5, tell=told.append)
    assert len(told) > 8
    return found


def test_all_of_it_is_run_written_and_shown(records: Reproduction, tmp_path: Path) -> None:
    assert {*records.tables} == {"crashes", "scenarios", "figure_7", "table_1", "joins"}
    assert [row["scenario"] for row in records.tables["scenarios"]] == ["S1", "S2", "S3"]
    measured = [(row["join"], row["interval_s"], row["control"]) for row in records.tables["joins"]]
    assert measured == [
        ("8,192", None, False), ("8,192", None, True), ("8,192", 1.0, False),
        ("per-group", None, False), ("per-group", None, True), ("per-group", 1.0, False), ("per-group", 10.0, False),
    ]  # fmt: skip
    assert records.all_hold  # of the joins nothing is measured that must hold
    records.write(tmp_path)
    manifest = read_manifest(tmp_path)
    page = spade_page(tmp_path, manifest)
    assert report_page(tmp_path) == page
    for told in ("Figure 7", "Every crash", "Table 1", "Figure 8", "Figure 10", "Every join", "control", "holds"):
        assert told in page
    assert "Figure 9" not in page  # one window was never saved every ten seconds
    assert {*charts(tmp_path, manifest)} == {
        "figure-7.svg", "figure-7-runs.svg", "table-1.svg", "figure-8.svg", "figure-10.svg",
    }  # fmt: skip


def test_figures_as_a_document_has_them(records: Reproduction, tmp_path: Path) -> None:
    records.write(tmp_path)
    told = spade_markdown(tmp_path, read_manifest(tmp_path))
    assert told.startswith("`./run spillway reproduce spade --quick`: ")
    lines = told.splitlines()
    assert [line.split(" | ")[0] for line in lines if line.startswith("| S")] == ["| S1", "| S2", "| S3"]
    assert sum(line.startswith("| per-group | every") for line in lines) == 2
    assert len({line.count("|") for line in lines if line.startswith("| 8,192")}) == 1
    held = sum(check.holds for check in records.checks)
    assert f"{held} of {len(records.checks)} checks hold." in told


def test_a_page_of_one_part(records: Reproduction, tmp_path: Path) -> None:
    alone = replace(records, tables={name: records.tables[name] for name in ("table_1", "joins")})
    alone.write(tmp_path)
    page = spade_page(tmp_path, read_manifest(tmp_path))
    assert "Figure 7" not in page and "Table 1" in page


def test_the_command(
    records: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Check(name="must: this", holds=False, ours=1.0, paper=None)
    for status in (0, 1):
        given = replace(records, checks=[*records.checks, *([broken] if status else [])])
        paper = replace(PAPERS["spade"], reproduce=lambda given=given, **_: given)
        monkeypatch.setattr("spillway.cli.reproduce.PAPERS", {"spade": paper})
        assert main(["reproduce", "spade", "--json", "--directory", str(tmp_path / str(status))]) == status
        found = json.loads(capsys.readouterr().out)
        assert all([*check] == ["name", "holds", "ours", "paper"] for check in found["checks"])
        assert {"report.html", "figure-7.svg", "joins.parquet"} <= {*os.listdir(tmp_path / str(status))}
    assert main(["reproduce", "spade", "--directory", str(tmp_path / "told")]) == 1
    said = capsys.readouterr().out
    for told in ("scenario", "S3", "per-group", "DOES NOT HOLD: must: this", "holds: must: all runs without a crash"):
        assert told in said


def test_the_command_runs_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduction, "QUICK", SMALL)
    words = ["reproduce", "spade", "--quick", "--only", "joins", "--json", "--directory", str(tmp_path / "run")]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found["tables"]} == {"joins", "table_1"} and found["quick"] is True
    assert main(["reproduce", "spade", "--only", "theta"]) == 1
    assert "spade has parts crashes, joins" in capsys.readouterr().err
