"""The reproduction of seed 003: what decides, what is measured, records, page and command."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spillway.cli.main import main
from spillway.cli.reproduce import PAPERS
from spillway.errors import RunError
from spillway.papers.ecoc.evaluation import INTERVALS, PROCESSES
from spillway.papers.ecoc.failure_free import Cost
from spillway.papers.ecoc.figures import FIGURES, Curve
from spillway.papers.ecoc.judging import NO_INTERVAL, judge
from spillway.papers.ecoc.reproduction import (
    SHOWN,
    as_measured,
    figure_rows,
    measured_costs,
    measured_failures,
    must_lose_nothing,
    must_write_less,
)
from spillway.records.campaign import read_manifest
from spillway.records.reproduction import Check, Reproduction
from spillway.report.ecoc_page import charts, ecoc_page
from spillway.report.pages import report_page

BYTES = {"unsafe": 0, "uncoordinated": 80, "coordinated": 20, "extended": 15}


def made_costs() -> list[Cost]:
    return [
        Cost(
            process=process,
            setting=setting,
            interval=interval,
            repetition=repetition,
            elements=1_000,
            batches=10,
            checkpoints=3,
            state_bytes=BYTES[setting],
            log_bytes=0,
            sent_bytes=100,
            cpu_s=1.0 + 0.1 * repetition + (setting != "unsafe"),
            memory_bytes=1e5 + interval,
        )
        for process, declared in PROCESSES.items()
        for setting in declared.settings
        for interval in ((NO_INTERVAL,) if setting == "unsafe" else INTERVALS)
        for repetition in range(2)
    ]


def made_kills(**changed: Any) -> list[dict[str, Any]]:
    return [
        {
            "process": process,
            "setting": setting,
            "interval": 500,
            "committed": 9,
            "went_back_to": 7,
            "start_s": 5.0,
            "recovery_seconds": 2.0,
            "recovery_cpu": 0.5,
            "recovery_memory_bytes": 4e8,
            "catch_up_seconds": 1.0,
            "catch_up_cpu": None,
            "catch_up_memory_bytes": 4e8,
            "ideal_tuples": 100,
            "real_tuples": 100,
            "lost_tuples": 0,
            "wrong_tuples": 0,
            "lole": True,
            "iaso": True,
            "delay_max_s": 6.0,
            **changed,
        }
        for process in ("SP1", "SP2")
        for setting in PROCESSES[process].settings[1:]
    ]


def made_records(*, kills: list[dict[str, Any]] | None = None) -> Reproduction:
    measured = measured_costs(made_costs())
    records = Reproduction(paper="ecoc", settings={"quick": True, "seconds": 3.0})
    records.checks += must_write_less(measured)
    for row in made_kills() if kills is None else kills:
        records.add("failures", row)
    measured |= measured_failures(records.tables["failures"])
    records.checks += must_lose_nothing(records.tables["failures"])
    for figure, (measure, processes) in SHOWN.items():
        for row in figure_rows(measured, measure, processes):
            records.add(f"figure_{figure}", row)
    records.checks += [replace(check, decides=False) for check in judge(measured, as_measured(measured))]
    return records


def test_what_must_be_written_less_is_refused_at_a_single_interval() -> None:
    found = made_costs()
    assert all(check.holds for check in must_write_less(measured_costs(found)))
    worse = [replace(one, log_bytes=100) if (one.setting, one.interval) == ("extended", 1500) else one for one in found]
    failing = [check.name for check in must_write_less(measured_costs(worse)) if not check.holds]
    assert [name[:9] for name in failing] == ["must: SP2", "must: SP3", "must: SP4"]
    equal = [replace(one, state_bytes=20) if one.setting == "extended" else one for one in found]
    assert all(check.holds for check in must_write_less(measured_costs(equal)))  # no more than coordinated is asked
    # What was not measured at every interval is not shown.
    some = [one for one in found if one.interval != 3000]
    assert not any(check.holds for check in must_write_less(measured_costs(some)))


def test_a_single_tuple_lost_in_a_single_run_decides() -> None:
    kills = made_kills()
    kills[2] |= {"lole": False, "lost_tuples": 1}
    lossless, ordered = must_lose_nothing(kills)
    assert (lossless.holds, ordered.holds) == (False, True)
    assert lossless.ours == "4 of 5 runs; 1 of 500 tuples lost or wrong"
    assert not any(check.holds for check in must_lose_nothing(made_kills(iaso=None, lole=None)))
    assert not any(check.holds for check in must_lose_nothing([]))
    assert not made_records(kills=kills).all_hold


def test_relations_do_not_decide_and_are_judged_where_they_were_measured() -> None:
    records = made_records()
    relations = [check for check in records.checks if not check.decides]
    assert records.all_hold
    assert not all(check.holds for check in relations)  # twice the CPU is more than reasonable
    assert any(check.name.startswith("figure 16") and check.ours == "2 against 2 at 500" for check in relations)
    assert not any(check.name.startswith("figure 20") for check in relations)  # which could not be known
    # With one interval nothing can be flat.
    flat = {relation.name for relation in FIGURES if relation.kind == "flat" and relation.figure == 16}
    assert not flat & {check.name for check in relations}


def test_what_unsafe_takes_is_taken_from_the_same_repetition() -> None:
    measured = measured_costs(made_costs())
    over = measured["cpu_overhead", Curve(process="SP1", setting="coordinated")]
    assert over[500] == pytest.approx([1e-3, 1e-3])


def test_records_are_read_back_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = made_records()
    records.write(tmp_path)
    manifest = read_manifest(tmp_path)
    read = Reproduction.read(tmp_path, manifest)
    assert read.checks == records.checks
    text = report_page(tmp_path)
    assert text == ecoc_page(tmp_path, manifest)
    for told in ("Figure 13", "Figure 24", "Every kill", "does not hold", "uncoordinated"):
        assert told in text
    drawn = charts(tmp_path, manifest)
    assert {"figure-13-SP1.svg", "figure-23-SP4.svg", "figure-16.svg"} <= drawn.keys()
    assert "figure-20.svg" not in drawn
    assert main(["report", str(tmp_path)]) == 0
    assert "report.html" in capsys.readouterr().out


def test_an_early_record_decides_and_a_foreign_paper_is_refused(tmp_path: Path) -> None:
    assert Check(name="a", holds=True, ours=None, paper=None).decides
    Reproduction(paper="other").write(tmp_path)
    with pytest.raises(RunError, match="there are pages of af, ecoc, spade and validation"):
        report_page(tmp_path)


def test_the_exit_status_follows_what_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    losing = made_kills()
    losing[0] |= {"lole": False, "lost_tuples": 1}
    for kills, status in ((made_kills(), 0), (losing, 1)):
        given = made_records(kills=kills)
        paper = replace(PAPERS["ecoc"], reproduce=lambda given=given, **_: given)
        monkeypatch.setattr("spillway.cli.reproduce.PAPERS", {"ecoc": paper})
        assert main(["reproduce", "ecoc", "--json", "--directory", str(tmp_path / str(status))]) == status
        found = json.loads(capsys.readouterr().out)
        assert all([*check] == ["name", "holds", "ours", "paper"] for check in found["checks"])
        assert len(found["decisive"]) == 7
        assert {"report.html", "figure-23-SP3.svg", "figure_16.parquet"} <= {*os.listdir(tmp_path / str(status))}
    assert main(["reproduce", "ecoc", "--directory", str(tmp_path / "told")]) == 1
    out = capsys.readouterr().out
    assert "DOES NOT HOLD: must: the output of every run with a kill is lossless" in out
    assert "does not hold here: figure 14" in out


def test_a_part_of_another_paper_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "ecoc", "--quick", "--only", "theta"]) == 1
    assert "ecoc has parts failure-free, failures" in capsys.readouterr().err
