"""Waiting for a lock may have a limit: then it is an error with a name, and not a task that hangs."""

from pathlib import Path

import pytest
from tests.state import processes

from spillway.errors import StateError
from spillway.state.locks import holding, lock_of


def take(lock: Path, *, seconds_max: float) -> None:
    with holding(lock, seconds_max=seconds_max):
        pass


def test_a_lock_that_is_not_let_go_of_is_an_error_that_names_it(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "0003")

    def hold(say: processes.Say, hear: processes.Hear) -> None:
        with holding(lock):
            say(b".")
            hear()

    holder = processes.start(hold)
    assert holder.hear() == b"."
    with pytest.raises(StateError, match=r"Another process has held .*\.0003\.lock for more than 0\.05 s"):
        take(lock, seconds_max=0.05)
    holder.tell()
    take(lock, seconds_max=60)  # as soon as the holder is gone
    assert holder.wait() == 0


def test_a_free_lock_is_taken_even_without_any_time(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "0003")
    with holding(lock, seconds_max=0), pytest.raises(StateError, match="Another process"):
        take(lock, seconds_max=0)


def test_a_lock_that_was_removed_meanwhile_is_not_the_lock(tmp_path: Path) -> None:
    lock = lock_of(tmp_path / "0003")
    with holding(lock, seconds_max=0):
        lock.unlink()
        with holding(lock, seconds_max=0):
            assert lock.exists()
