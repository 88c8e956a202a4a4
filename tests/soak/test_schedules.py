"""Random schedules of faults keep every promise, over graphs of every kind."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spillway.backup import store
from spillway.soak import kinds, world
from spillway.soak.choosing import KINDS
from spillway.soak.faults import Fault
from spillway.soak.schedules import ScheduleResult, run_schedule
from spillway.soak.totals import run_some
from spillway.state import folders

CHUNKS, PER_CHUNK = 6, 20


@pytest.mark.parametrize("chunk", range(2, CHUNKS))  # test_no_fault_is_chosen_in_vain has the first two
def test_schedules(chunk: int) -> None:
    results = [run_schedule(seed) for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK)]
    struck: Counter[Fault] = sum((result.faults for result in results), Counter())
    assert len(struck) > len(Fault) / 2
    assert len({kind for result in results for kind in result.operators}) > len(KINDS) / 2
    chosen = {text.partition("(")[0] for result in results for text in result.protections}
    assert {"Approximate", "Checkpoint", "Exact", "UpstreamBackup"} <= chosen
    assert {"Hopping", "none"} <= {window for result in results for window in result.windows}
    assert sum(result.backups for result in results) > PER_CHUNK
    assert sum(result.losses for result in results) > PER_CHUNK


@pytest.mark.parametrize(
    "seed", [10027, 10168, 11205, 200207, 400755, 401061, 401616, 401635, 402019, 402106, 602617, 7700483, 7701613]
)
def test_schedules_that_broke_something_once(seed: int) -> None:
    run_schedule(seed)


def test_no_fault_is_chosen_in_vain() -> None:
    totals = run_some(range(2 * PER_CHUNK))
    assert totals.backups > 2 * PER_CHUNK and totals.losses > 2 * PER_CHUNK
    assert set(totals.faults) == set(map(str, Fault)) and not totals.broken
    assert set(totals.operators) == {kind.__name__ for kind in KINDS}
    assert set(totals.protections) == {"Nothing", "Checkpoint", "Approximate", "Exact", "UpstreamBackup"}
    assert set(totals.windows) == {"none", "Hopping", "Sliding", "Decaying"} and totals.feedback


def test_a_contract_that_cannot_be_kept_is_found_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "obstacles", lambda graph, sink, contract, sources: ())  # as if nothing stood in the way
    broken = run_some(range(PER_CHUNK)).broken
    assert any("broke its contract in batch" in story and "Not lossless: of" in story for story in broken.values())


def test_a_schedule_follows_from_its_seed_alone() -> None:
    assert run_schedule(11) == run_schedule(11)
    assert run_schedule(11) != replace(run_schedule(12), seed=11)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "default_root", lambda: tmp_path)
    run_schedule(1)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(store.ShardStore, "load", None)
    assert run_some(range(20)).broken
    assert list(tmp_path.iterdir()) == []


def test_a_result_tells_what_happened() -> None:
    result: ScheduleResult = run_schedule(3)
    assert result.seed == 3 and result.batches >= 3
    assert len(result.operators) == len(result.protections) == len(result.windows) > 0
    assert set(result.operators) <= {kind.__name__ for kind in vars(kinds).values() if isinstance(kind, type)}
    assert sum(result.faults.values()) == sum(event.struck for event in result.events)
    assert all(0 <= event.batch < result.batches for event in result.events)
