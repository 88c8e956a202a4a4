"""Backups that are written while further batches run: what counts when, who waits, and what a failure costs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backup.bench import Bench, KilledError

from spillway.backup.behind import in_thread
from spillway.backup.keeper import Step
from spillway.errors import BoundLostError
from spillway.files.folders import LocalFolder
from spillway.graph.protections import Approximate, Checkpoint, Exact
from spillway.state.folders import default_root


class Held:
    """Writes that are done when that is said, or when somebody waits for them."""

    def __init__(self) -> None:
        self.held: list[OneHeld] = []
        self.at_once = False

    def __call__(self, work: Callable[[], None]) -> "OneHeld":
        one = OneHeld(work)
        self.held.append(one)
        if self.at_once:
            one.go()
        return one

    @property
    def waiting(self) -> list["OneHeld"]:
        return [one for one in self.held if not one.done]

    def go(self) -> None:
        for one in self.waiting:
            one.go()

    def die(self) -> None:
        """End the process that was writing, before it wrote anything."""
        for one in self.waiting:
            one.die()


class OneHeld:
    def __init__(self, work: Any) -> None:
        self.done = False
        self._work = work

    def go(self) -> None:
        self.done = True
        self._work()

    def die(self) -> None:
        self.done = True
        self._work.let_go()

    def wait(self, seconds_max: float | None) -> bool:
        if seconds_max != 0.0 and not self.done:
            self.go()
        return self.done


class Breaking(LocalFolder):
    """A folder whose writes raise something, if that was said."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.error: BaseException | None = None
        self.after = 0  # so many writes go well before

    def write(self, name: str, data: Any) -> None:
        if self.error is not None:
            if self.after == 0:
                raise self.error
            self.after -= 1
        super().write(name, data)


@pytest.fixture
def held() -> Held:
    return Held()


def bench_of(tmp_path: Path, held: Held, every: int = 1, **options: Any) -> Bench:
    """A shard that has been there for a batch: what happens in the first one is done when it ends."""
    bench = Bench(tmp_path, Checkpoint(every=every), writing=held, **options)
    bench.apply(0, {})
    return bench


def test_a_batch_does_not_wait_and_the_backup_counts_once_it_is_durable(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    assert not bench.apply(1, {0: 1}).backup
    assert bench.backed_up == [] and bench.shard.version == 1 and bench.shard.backup_version == -1
    first = held.waiting
    assert not bench.apply(2, {0: 10}).backup  # it is due, and one is under way: there is no second
    assert held.waiting == first and bench.backed_up == []
    held.go()
    assert bench.backed_up == [1]
    after = bench.apply(3, {20: 5})
    assert (after.backup, after.backup_batch) == (True, 1) and after.backup_bytes > 0
    assert bench.shard.backup_version == 1 and len(held.waiting) == 1
    held.go()
    bench.lose_memory()
    bench.apply(4, {})
    assert bench.values == {0: 11, 20: 5}  # of batch 3: what batch 2 changed was in it too


def test_what_is_written_is_what_was_copied(tmp_path: Path, held: Held) -> None:
    """The copy does not alias memory, and memory that goes back to an older value is still told apart from it."""
    bench = bench_of(tmp_path, held)
    held.at_once = True
    bench.apply(1, {0: 1})
    bench.apply(2, {0: 1})
    held.at_once = False
    bench.apply(3, {0: 1, 40: 7})
    bench.apply(4, {0: -1})  # now as in the last backup that counts, and not as in the one being written
    held.go()
    bench.apply(5, {})
    held.go()
    bench.lose_memory()
    bench.apply(6, {})
    assert bench.loss.backup_batch == 5 and bench.values == {0: 2, 40: 7}


@pytest.mark.parametrize("protection", [Exact(), Approximate(0.0)], ids=str)
def test_no_other_protection_writes_behind(tmp_path: Path, held: Held, protection: Any) -> None:
    bench = Bench(tmp_path, protection, writing=held)
    for batch in range(3):
        assert bench.apply(batch, {batch: 1}).backup
        assert bench.backed_up[-1] == batch
    assert held.held == []


def test_another_process_goes_on_while_one_writes(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    bench.apply(1, {0: 1})
    bench.open()
    bench.apply(2, {0: 10, 30: 3})  # neither looks at the folder nor writes to it
    assert len(held.held) == 1 and bench.backed_up == []
    held.go()
    bench.open()  # and this one reads what was written
    told = bench.apply(3, {0: 100})
    assert (told.backup, told.backup_batch, told.damage) == (True, 1, "")
    held.go()
    bench.lose_memory()
    bench.apply(4, {})
    assert bench.values == {0: 111, 30: 3}


def test_a_write_that_was_cut_short_is_made_good_at_once(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held, every=3)
    bench.apply(1, {0: 1, 1: 1, 2: 1})
    held.die()
    bench.open()
    told = bench.apply(2, {})  # nothing came, and it is due all the same: it was when its batch ended
    assert told.backup and told.backup_batch == 2 and bench.backed_up == [2]
    assert "the backup of batch 1 was cut short" in told.damage
    bench.lose_memory()
    assert bench.apply(3, {}).damage == ""
    assert bench.values == {0: 1, 1: 1, 2: 1}


def test_a_segment_without_a_manifest_is_no_damage(tmp_path: Path, held: Held) -> None:
    files = Breaking(tmp_path / "backups")
    bench = bench_of(tmp_path, held, every=2, files=files)
    held.at_once = True
    bench.apply(1, {0: 1, 1: 1})
    held.at_once = False
    bench.apply(2, {0: 1, 1: 1})
    files.error, files.after = KilledError(), 1  # the segment, and no manifest
    with pytest.raises(KilledError):
        held.go()
    files.error = None
    assert [name for name in files.names() if name.startswith("behind-0000000002")]
    bench.lose_memory()
    told = bench.apply(3, {5: 1})
    assert (told.recovered_from, told.damage) == (1, "") and bench.values == {0: 1, 1: 1, 5: 1}
    bench.apply(4, {5: 1})
    bench.apply(5, {})
    held.go()
    bench.apply(6, {})
    assert not [name for name in files.names() if name.startswith("behind-0000000002")]


def test_a_full_disk_is_told_by_the_next_batch_until_it_is_mended(tmp_path: Path, held: Held) -> None:
    files = Breaking(tmp_path / "backups")
    bench = bench_of(tmp_path, held, files=files)
    bench.apply(1, {0: 1})
    files.error = OSError(28, "No space left on device")
    held.go()
    for _ in range(3):
        with pytest.raises(BoundLostError, match=r"writing its backup in .* failed: No space left on device"):
            bench.apply(2, {1: 1})
    bench.open()
    with pytest.raises(BoundLostError, match="No space left on device"):
        bench.apply(2, {1: 1})
    files.error = None
    told = bench.apply(2, {1: 1})
    assert told.backup_batch == 2 and bench.backed_up == [2]
    bench.lose_memory()
    bench.apply(3, {})
    assert bench.values == {0: 1, 1: 1}


def test_a_mistake_of_ours_is_not_hidden_in_a_thread(tmp_path: Path, held: Held) -> None:
    files = Breaking(tmp_path / "backups")
    bench = bench_of(tmp_path, held, files=files)
    bench.apply(1, {0: 1})
    files.error = ZeroDivisionError("ours")
    held.go()
    with pytest.raises(ZeroDivisionError, match="ours"):
        bench.apply(2, {1: 1})


def test_a_batch_that_is_run_again_waits_and_replaces_its_backup(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    bench.apply(1, {0: 1})
    bench.apply(1, {0: 2})  # Spark died before it noted the batch: the write ends first, and its backup is replaced
    assert held.waiting == [] and bench.backed_up == [1]
    bench.lose_memory()
    bench.apply(2, {})
    assert bench.values == {0: 2}


def test_a_batch_run_again_by_another_process_never_takes_the_first_ones_copy(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    bench.apply(1, {0: 1})
    one = vars(bench).copy()
    held.go()
    bench.open()
    bench.apply(1, {0: 2})
    held.go()
    vars(bench).update(one)  # which still has the copy of its own attempt
    bench.apply(2, {9: 1})
    held.go()
    bench.lose_memory()
    bench.apply(3, {})
    assert bench.values == {0: 2, 9: 1}


def test_a_process_never_takes_its_own_copy_for_another_ones(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    bench.apply(1, {0: 1})
    one = vars(bench).copy()
    held.go()
    bench.open()
    bench.apply(2, {0: 1})  # finds the backup of batch 1, and has that of batch 2 written
    held.go()
    vars(bench).update(one)
    bench.apply(3, {0: -1})  # as the copy that this one has, and not as the backup that there is
    held.go()
    bench.lose_memory()
    bench.apply(4, {})
    assert bench.loss.backup_batch == 3 and bench.values == {0: 1}


def test_a_batch_that_is_torn_meanwhile_takes_nothing_back(tmp_path: Path, held: Held) -> None:
    bench = bench_of(tmp_path, held)
    bench.apply(1, {0: 1})
    bench.dies(2, {0: 5}, Step.APPLYING)
    held.go()
    told = bench.apply(2, {0: 10})
    assert (told.backup_batch, told.damage) == (2, "")
    assert [record.kind for record in bench.manifest.records] == ["whole", "changed"]


@pytest.mark.parametrize("reopened", [False, True])
def test_an_operators_own_table_is_written_behind_as_it_was(tmp_path: Path, held: Held, reopened: bool) -> None:
    bench = bench_of(tmp_path, held, custom=True)
    bench.apply(1, {0: 1})
    bench.apply(2, {0: 10})
    held.go()
    if reopened:
        bench.open()
    told = bench.apply(3, {})  # it counts, and the next one is begun: batch 2 had a tuple
    assert told.backup_batch == 1 and len(held.waiting) == 1
    held.die()
    bench.lose_memory()
    bench.apply(4, {})
    assert bench.loss.backup_batch == 1 and bench.values == {0: 1}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["apply", "apply", "apply", "again", "go", "reopen", "die", "lose"]),
            st.dictionaries(st.integers(0, 63), st.integers(-2, 2), max_size=4),
        ),
        max_size=30,
    ),
    st.integers(1, 4),
)
@settings(max_examples=150, deadline=None)
def test_a_recovery_gives_back_the_state_of_the_backup_it_names(
    events: list[tuple[str, dict[int, float]]], every: int
) -> None:
    """Whatever is written when, cut short, run again or opened elsewhere: what comes back is one batch's state."""
    held, cells = Held(), [dict.fromkeys(range(64), 0.0) for _ in range(2)]  # after each batch, from none on
    with TemporaryDirectory(dir=default_root().parent) as folder:
        bench = bench_of(Path(folder), held, every=every)
        batch = 1

        def apply(number: int, changes: dict[int, float]) -> None:
            told = bench.apply(number, changes)
            before = cells[number]
            if told.recovered:
                before = cells[told.recovered_from + 1]
            del cells[number + 1 :]
            cells.append({cell: before[cell] + changes.get(cell, 0) for cell in before})
            assert bench.values == {cell: value for cell, value in cells[-1].items() if value}
            assert len(held.waiting) <= 1

        for event, changes in events:
            if event == "apply":
                apply(batch, changes)
                batch += 1
            elif event == "again" and batch and bench.shard.can_roll_back:
                held.go()  # a write that nobody does would be waited for by this very thread
                apply(batch - 1, changes)
            elif event == "go":
                held.go()
            elif event == "reopen":
                bench.open()
            elif event == "die":
                held.die()
                bench.open()
            elif event == "lose" and batch:
                held.go()
                bench.lose_memory()
        held.go()
        if batch:
            bench.lose_memory()
            apply(batch, {})
            assert bench.loss.divergence_max == float("inf") and not bench.loss.damage


CHILD = r"""
import os, sys, threading
from pathlib import Path
from tests.backup.bench import Bench
from spillway.backup.behind import in_thread
from spillway.backup.keeper import Step
from spillway.files.folders import LocalFolder
from spillway.graph.protections import Checkpoint

class Stuck(LocalFolder):
    def write(self, name, data):
        if name.startswith(sys.argv[2]):
            os.write(1, b"stuck\n")  # in one piece: the other thread says something, too
            threading.Event().wait()
        super().write(name, data)

folder = Path(sys.argv[1])
bench = Bench(folder, Checkpoint(every=1), files=LocalFolder(folder / "backups"), writing=in_thread)
bench.apply(0, {0: 1})
bench.keeper.end()
bench.apply(1, {})
bench.files = Stuck(folder / "backups")
bench.open()
bench.apply(2, {0: 1})
os.write(1, b"committed\n")
threading.Event().wait()
"""


@pytest.mark.parametrize("at", ["behind-", "manifest-"])
def test_a_process_killed_while_its_thread_writes(tmp_path: Path, at: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), at], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        said = {child.stdout.readline().strip(), child.stdout.readline().strip()}
        assert said == {"stuck", "committed"}  # the batch did not wait
        bench = Bench(tmp_path, Checkpoint(every=1), writing=in_thread)
        bench.apply(3, {0: 1})  # while the other one hangs: nobody waits for it
        assert bench.backed_up == [0]
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    told = bench.apply(4, {0: 1})
    assert told.backup_batch == 4 and "was cut short" in told.damage
    bench.lose_memory()
    told = bench.apply(5, {})
    assert (told.recovered_from, told.damage) == (4, "") and bench.values == {0: 4}
