"""Random schedules of faults keep every promise, and a broken promise is noticed."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spillway.backup import promise, store, thresholds
from spillway.backup.manifest import Manifest
from spillway.soak import schedules
from spillway.soak.judge import PromiseBrokenError
from spillway.soak.schedules import Fault, ScheduleResult, run_schedule

CHUNKS, PER_CHUNK = 10, 32


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_schedules(chunk: int) -> None:
    results = [run_schedule(seed) for seed in range(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK)]
    struck: Counter[Fault] = sum((result.faults for result in results), Counter())
    assert set(struck) == set(Fault)  # none is chosen in vain
    kinds = {result.protection.partition("(")[0] for result in results}
    assert {"Approximate", "Checkpoint"} <= kinds
    assert sum(result.backups for result in results) > PER_CHUNK
    assert sum(sum(result.losses) for result in results) > PER_CHUNK


def test_a_schedule_follows_from_its_seed_alone() -> None:
    assert run_schedule(11) == run_schedule(11)
    assert run_schedule(11) != replace(run_schedule(12), seed=11)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "default_root", lambda: tmp_path)
    run_schedule(1)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(store.ShardStore, "load", None)
    assert until_broken()
    assert list(tmp_path.iterdir()) == []


def until_broken(seeds: int = 150) -> str:
    """The message of the first broken promise among some schedules."""
    for seed in range(seeds):
        message = broken(seed)
        if message:
            assert f"Schedule {seed}:" in message
            assert f"spillway soak --seed {seed} --schedules 1" in message
            return message
    raise AssertionError(f"{seeds} schedules did not notice")


def broken(seed: int) -> str:
    try:
        run_schedule(seed)
    except PromiseBrokenError as error:
        return str(error)
    return ""


def test_thresholds_twice_as_high_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = thresholds.threshold
    monkeypatch.setattr(promise, "threshold", lambda limit, **given: 2 * right(limit, **given))
    assert "is allowed" in until_broken()


def test_failures_that_are_not_made_durable_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.ShardStore, "failed", lambda self, **given: None)
    assert until_broken()


def test_backups_of_the_batch_itself_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    load = store.ShardStore.load
    monkeypatch.setattr(store.ShardStore, "load", lambda self, batch_max: load(self, batch_max=batch_max + 1))
    assert until_broken()


def test_lost_backups_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(found: Manifest, batch_max: int) -> Manifest:
        return replace(found, records=())

    monkeypatch.setattr(store, "_up_to", forgetful)
    assert until_broken()


def test_a_result_tells_what_happened(tmp_path: Path) -> None:
    result: ScheduleResult = run_schedule(3)
    assert result.seed == 3 and result.batches >= 3 and len(result.losses) == result.shards
    assert sum(result.faults.values()) == sum(event.struck for event in result.events)
    assert all(0 <= event.batch < result.batches for event in result.events)
