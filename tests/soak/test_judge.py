"""A product that is broken on purpose is found out: the judge can fail."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spillway.backup import reach, store, thresholds
from spillway.backup.manifest import Manifest
from spillway.backup.policies import CheckpointPolicy, Committing
from spillway.engine import feedback, opened
from spillway.operators.sketch import CountMin
from spillway.soak.contents import differing, same
from spillway.soak.memories import PromiseBrokenError
from spillway.soak.schedules import run_schedule
from spillway.state.arrays import Cells
from spillway.state.shard import Shard

SEEDS = 150


def until_broken(*said: str, first: int = 0) -> str:
    """The message of the first broken promise, from a seed on, that has one of these words in it.

    ``first`` is the one that noticed when the test was written: those before it would run only to notice nothing.
    """
    for seed in range(first, first + SEEDS):
        message = broken(seed)
        if message and (not said or any(word in message for word in said)):
            assert f"Schedule {seed}:" in message
            assert f"spillway soak --seed {seed} --schedules 1" in message
            assert "What happened:" in message
            return message
    raise AssertionError(f"{SEEDS} schedules did not notice")


def broken(seed: int) -> str:
    try:
        run_schedule(seed)
    except PromiseBrokenError as error:
        return str(error)
    return ""


def test_thresholds_twice_as_high_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = thresholds.threshold
    monkeypatch.setattr(thresholds, "threshold", lambda limit, **given: 2 * right(limit, **given))
    until_broken("is allowed", "is off by", first=6)


def test_thresholds_that_do_not_halve_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = thresholds.threshold
    monkeypatch.setattr(thresholds, "threshold", lambda limit, **given: right(limit, **given | {"failures": 0}))
    until_broken("is allowed", "is off by", first=74)


def test_failures_that_are_not_made_durable_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.ShardStore, "failed", lambda self, **given: None)
    until_broken("failures are on record", first=39)


def test_backups_of_the_batch_itself_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    load = store.ShardStore.load
    monkeypatch.setattr(store.ShardStore, "load", lambda self, batch_max: load(self, batch_max=batch_max + 1))
    until_broken(first=1)


def test_lost_backups_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(found: Manifest, batch_max: int) -> Manifest:
        return replace(found, records=())

    monkeypatch.setattr(store, "_up_to", forgetful)
    until_broken(first=1)


def test_a_window_whose_end_is_not_backed_up_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "cleared", property(lambda self: False))
    until_broken(first=5)


def test_a_rollback_that_undoes_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: Cells) -> None:
        self._scalars[2] = 0  # how many chunks the undo holds

    right = Cells.rollback

    def rollback(self: Cells) -> None:
        forgets(self)
        right(self)

    monkeypatch.setattr(Cells, "rollback", rollback)
    until_broken("is not as it should be", "put out something else", first=23)


def test_items_that_are_not_replayed_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened.OpenOperator, "replay", lambda self, **given: ())
    until_broken("is not as it should be", "put out something else", first=1)


def test_a_sketch_that_is_not_compensated_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountMin, "recovered", lambda self, loss: None)
    until_broken("too low", first=51)


def test_feedback_that_is_not_told_to_be_lost_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = feedback.Mailbox.take

    def silent(self: feedback.Mailbox, edge: Any, *, batch: int) -> feedback.Taken:
        return replace(take(self, edge, batch=batch), lost=0)

    monkeypatch.setattr(feedback.Mailbox, "take", silent)
    until_broken("was fed back something else", first=22)


def test_checkpoints_that_come_late_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = CheckpointPolicy.is_due

    def late(self: CheckpointPolicy, batch: Committing) -> bool:
        return right(self, replace(batch, tuples_since_backup=0, since_backup_s=0.0))

    monkeypatch.setattr(CheckpointPolicy, "is_due", late)
    until_broken("lost batches", first=16)


def test_damage_that_is_kept_secret_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    load = store.ShardStore.load

    def secretive(self: store.ShardStore, *, batch_max: int) -> store.Restored:
        return replace(load(self, batch_max=batch_max), complete=True, lost_chunks=0, damage=())

    monkeypatch.setattr(store.ShardStore, "load", secretive)
    until_broken("is not as it should be", "put out", "is off by", first=53)


def test_a_recovery_that_starts_one_window_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    remember = Shard.remember

    def backwards(self: Shard, *, window: int, forgotten: int, failed_at: int) -> None:
        remember(self, window=window - (window > 0), forgotten=forgotten, failed_at=failed_at)

    monkeypatch.setattr(Shard, "remember", backwards)
    until_broken("ends the windows", "is not as it should be", first=5)


def test_a_replay_that_takes_all_batches_for_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "next_replayed", lambda self: None)
    until_broken("batches is", "put out", first=53)


def test_an_older_copy_of_backups_that_is_believed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach.Reached, "backup_before", lambda self, batch: -1)
    until_broken("is not as it should be", "put out", "is off by", first=18)


def test_contents_are_compared_number_by_number() -> None:
    assert same({"a": np.array([1, 2]), "b": {1: 2}}, {"a": np.array([1, 2]), "b": {1: 2}})
    assert not same({"a": np.array([1, 2])}, {"a": np.array([1, 3])})
    assert same({"a": 1, "b": 2}, {"a": 1, "b": 3}, left_out=("b",))


def test_a_difference_is_told_by_what_differs() -> None:
    alike = {f"word {number}": number for number in range(100)}
    assert differing({"a": alike | {"x": 1}, "b": 1}, {"a": alike | {"x": 2}, "b": 1}) == (
        "a is {'x': 1} and should be {'x': 2}"
    )
    assert differing({"a": {1, 2}}, {"a": {1, 3}}) == "a is {2} and should be {3}"
