"""A campaign's directory: whole after any crash, the same bytes whichever way the rows came."""

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.records import campaigns

from spillway.errors import InputError, RunError, SpillwayError
from spillway.records import campaign as module
from spillway.records.campaign import CampaignRecords, CampaignWriter, read_manifest
from spillway.records.campaign_rows import CampaignDeclaration, GoldenRow, GraphNode
from spillway.score import evaluate
from spillway.seeds import generator

RESULT = ("golden.parquet", "affected.parquet", "trials.parquet", "result.json")
DECLARED = campaigns.declaration()
GOLDEN = campaigns.golden_rows(DECLARED)
AFFECTED = campaigns.affected_rows(DECLARED)
TRIALS = list(campaigns.trial_rows(DECLARED, GOLDEN))


METRICS = evaluate(
    CampaignRecords(
        declaration=DECLARED,
        graph=campaigns.graph(),
        golden=tuple(GOLDEN),
        affected=tuple(AFFECTED),
        trials=tuple(TRIALS),
        metrics=(),
        finished=False,
        about={},
    )
)

Write = Callable[[Path, bytes], None]


class Killed(BaseException):
    """Stands for the end of the process."""


def opened(path: Path) -> CampaignWriter:
    return CampaignWriter(path, declaration=DECLARED, graph=campaigns.graph())


def result_of(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RESULT}


@pytest.fixture(scope="module")
def in_peace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that nothing disturbed."""
    path = tmp_path_factory.mktemp("peace") / "run"
    campaigns.write(path)
    return path


def test_reads_back_what_was_written(in_peace: Path) -> None:
    records = CampaignRecords.read(in_peace)
    assert records.declaration == DECLARED
    assert records.graph == campaigns.graph()
    assert records.golden == tuple(GOLDEN)
    assert set(records.affected) == set(AFFECTED)
    assert set(records.trials) == set(TRIALS)
    assert [row.key for row in records.trials] == sorted(row.key for row in TRIALS)
    assert records.finished
    assert records.metrics == evaluate(records)
    assert records.about["timing"] == {"seconds": 12.5, "naive_seconds": 900.0}


def test_a_finished_directory_holds_the_result_and_no_parts(in_peace: Path) -> None:
    assert {path.name for path in in_peace.iterdir()} == {*RESULT, "manifest.json", ".lock"}


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_order_and_pieces_do_not_show(in_peace: Path, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = generator(seed, "pieces")
    path = tmp_path_factory.mktemp("pieces") / "run"
    trials = [TRIALS[i] for i in random.permutation(len(TRIALS))]
    while trials:
        with opened(path) as writer:
            assert len(writer.finished_trials()) == len(TRIALS) - len(trials)
            missing = [row for row in GOLDEN if row.repetition not in writer.finished_golden()]
            writer.append(
                golden=missing, affected=[row for row in AFFECTED if row.key not in writer.finished_affected()]
            )
            taken = int(random.integers(1, len(trials) + 1))
            writer.append(trials=trials[:taken])
            trials = trials[taken:]
    with opened(path) as writer:
        writer.finish(METRICS)
    assert result_of(path) == result_of(in_peace)
    shutil.rmtree(path)


def test_killed_at_every_write_and_resumed(in_peace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each durable write is a point at which the process may end: just before it, or just after."""
    path = tmp_path / "run"
    real = module.write_whole
    kills = 0
    for point in range(200):
        shutil.rmtree(path, ignore_errors=True)
        monkeypatch.setattr(module, "write_whole", dying(real, number=point // 2 + 1, after=bool(point % 2)))
        try:
            whole_campaign(path)
            break
        except Killed:
            kills += 1
        monkeypatch.setattr(module, "write_whole", real)
        whole_campaign(path)
        assert result_of(path) == result_of(in_peace), f"killed at point {point}"
        assert read_manifest(path)["ended"] == "finished"
        assert not (path / "parts").exists()
    assert kills >= 16


def dying(real: Write, *, number: int, after: bool) -> Write:
    """A writer of files during whose n-th file the process ends: before it is there, or just after."""
    written = 0

    def write(to: Path, data: bytes) -> None:
        nonlocal written
        written += 1
        if written == number and not after:
            raise Killed
        real(to, data)
        if written == number:
            raise Killed

    return write


def whole_campaign(path: Path) -> None:
    """What a campaign does, going on where another left off. A killed process loses its lock and writes no more."""
    writer = opened(path)
    try:
        if not writer.finished:
            golden, trials, affected = writer.finished_golden(), writer.finished_trials(), writer.finished_affected()
            writer.append(golden=[row for row in GOLDEN if row.repetition not in golden])
            writer.append(affected=[row for row in AFFECTED if row.key not in affected])
            left = [row for row in TRIALS if row.key not in trials]
            for start in range(0, len(left), 50):
                writer.append(trials=left[start : start + 50])
            writer.finish(METRICS)
    except Killed:
        module.os.close(writer._lock)
        raise
    writer.close()


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied"])
def test_a_torn_part_counts_as_never_written(in_peace: Path, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run"
    with opened(path) as writer:
        writer.append(golden=GOLDEN, affected=AFFECTED, trials=TRIALS[:40])
        writer.append(trials=TRIALS[40:])
    part = path / "parts" / "trials-000001.parquet"
    data = bytearray(part.read_bytes())
    if damage == "flipped":
        data[len(data) // 3] ^= 0xFF
    part.write_bytes({"cut": data[: len(data) // 2], "flipped": data, "emptied": b""}[damage])
    assert len(CampaignRecords.read(path).trials) == 40
    with opened(path) as writer:
        assert writer.finished_trials() == {row.key for row in TRIALS[:40]}
        writer.append(trials=TRIALS[40:])
        writer.finish(evaluate(writer.records()))
    assert result_of(path) == result_of(in_peace)


def test_a_half_written_part_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "run"
    opened(path).close()
    left = path / "parts" / ".part-trials-000000.parquet"
    left.write_bytes(b"half")
    opened(path).close()
    assert not left.exists()


def test_a_trial_recorded_twice_counts_once(tmp_path: Path) -> None:
    with opened(tmp_path / "run") as writer:
        writer.append(trials=TRIALS[:3])
        writer.append(trials=TRIALS[2:4])
        assert len(writer.records().trials) == 4


def test_a_trial_that_does_not_repeat_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "run") as writer:
        writer.append(trials=[TRIALS[0]])
        writer.append(trials=[replace(TRIALS[0], osf=TRIALS[0].osf + 1)])
        with pytest.raises(RunError, match="recorded twice with different results"):
            writer.records()


def test_another_campaign_is_not_written_over(in_peace: Path) -> None:
    before = result_of(in_peace)
    with pytest.raises(RunError, match=r"holds another campaign: repetitions is 3 there and 4 here\. Name a new"):
        CampaignWriter(in_peace, declaration=replace(DECLARED, repetitions=4), graph=campaigns.graph())
    assert result_of(in_peace) == before


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    with opened(tmp_path / "run"), pytest.raises(RunError, match="being written by another process"):
        opened(tmp_path / "run")
    opened(tmp_path / "run").close()


def test_a_table_changed_afterwards_is_noticed(in_peace: Path, tmp_path: Path) -> None:
    path = shutil.copytree(in_peace, tmp_path / "run")
    data = bytearray((path / "trials.parquet").read_bytes())
    data[100] ^= 1
    (path / "trials.parquet").write_bytes(data)
    with pytest.raises(RunError, match=r"trials\.parquet is not the table that .*result\.json was computed from"):
        CampaignRecords.read(path)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "it has no manifest.json"),
        (b"{", "cannot be read"),
        (b"[]", "names no format"),
        (b'{"format": 99}', "written by a newer Spillway"),
        (b'{"format": 1}', "holds a 'plain run', not a campaign"),
    ],
)
def test_other_directories_are_refused(tmp_path: Path, manifest: bytes | None, message: str) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(RunError, match=message):
        CampaignRecords.read(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "result.json"])
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_a_file_changed_by_others_is_refused_in_a_sentence(
    in_peace: Path, tmp_path_factory: pytest.TempPathFactory, name: str, seed: int
) -> None:
    """Any value anywhere in a file may be gone, or be of another kind: it is read as it is, or refused as ours is."""
    random = generator(seed, "changed")
    path = shutil.copytree(in_peace, tmp_path_factory.mktemp("changed") / "run")
    changed = json.loads((path / name).read_text())
    spoil(changed, random)
    (path / name).write_text(json.dumps(changed))
    with contextlib.suppress(SpillwayError):
        CampaignRecords.read(path)
    shutil.rmtree(path)


def spoil(value: Any, random: np.random.Generator) -> None:
    """Change one value somewhere inside."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[int(random.integers(len(keys)))]
        inside = value[key]
        if isinstance(inside, dict | list) and inside and random.random() < 0.8:
            value = inside
            continue
        if isinstance(value, dict) and random.random() < 0.3:
            del value[key]
        else:
            value[key] = [None, -1, "x", [], {}, 1e400, True][int(random.integers(7))]
        return


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be made"):
        opened(tmp_path / "file" / "run")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_never_gets_in(bad: float) -> None:
    with pytest.raises(InputError, match="every score has to be a finite number; got"):
        GoldenRow(repetition=0, seed=0, local_osf=(1.0, bad))
    with pytest.raises(InputError, match="Mend the score function"):
        replace(TRIALS[0], osf=bad)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": ()}, "at least one target"),
        ({"offsets_seq": (5, 5)}, "at least one offset, each once"),
        ({"rates": {"peak": 0.0}}, "rates above zero"),
        ({"repetitions": 0}, "at least one repetition"),
        ({"threshold": 0.0}, "its threshold lies above 0"),
    ],
)
def test_a_declaration_that_makes_no_sense(change: dict[str, Any], message: str) -> None:
    values = {name: getattr(DECLARED, name) for name in CampaignDeclaration.__dataclass_fields__}
    with pytest.raises(InputError, match=message):
        CampaignDeclaration(**{**values, **change})


def test_a_node_of_no_known_kind() -> None:
    with pytest.raises(InputError, match="its kind is source, operator or sink, not 'pipe'"):
        GraphNode(name="x", kind="pipe", type="X", chosen=False, reason="")


def test_the_result_is_plain_json(in_peace: Path) -> None:
    result = json.loads((in_peace / "result.json").read_text())
    assert [row["target"] for row in result["metrics"] if not row["plan"]] == list(campaigns.TARGETS)
    assert set(result["tables"]) == {"golden.parquet", "affected.parquet", "trials.parquet"}


def test_a_notebook_shows_the_metrics_of_the_highest_rate(in_peace: Path, tmp_path: Path) -> None:
    shown = CampaignRecords.read(in_peace)._repr_html_()
    rows = [row for row in METRICS if row.rate == DECLARED.rate_max and not row.plan]
    assert shown.count("<tr>") == 1 + len(rows) < 1 + len(METRICS)
    assert f"{len(TRIALS):,} trials" in shown
    assert "not finished" not in shown
    with opened(tmp_path) as writer:
        assert "0 trials against 0 golden runs, not finished" in writer.records()._repr_html_()
