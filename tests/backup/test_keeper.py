"""The keeper's theory of operation, row by row: what a batch finds in memory, and what it does about it."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.backup.bench import Bench, listing, total

from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.backup.reach import NOT_NOTED
from spillway.errors import BackupError, BoundLostError, StaleAttemptError
from spillway.files.folders import LocalFolder
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection

A, B, C, D = {0: 1, 20: 5}, {0: 2, 21: 7}, {1: 4}, {63: 9}
"""What batches 0, 1, 2 and 3 add to which cells."""

PROTECTIONS = [Nothing(), Exact(), Checkpoint(every=1), Checkpoint(every=10**6), Approximate(0.0), Approximate(1e6)]


def names(protections: list[Protection]) -> list[str]:
    return [protection.describe() for protection in protections]


@pytest.fixture(params=PROTECTIONS, ids=names(PROTECTIONS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(tmp_path, request.param)


# -- version N-1: go on ---------------------------------------------------------------------------------------


def test_batch_after_batch(bench: Bench) -> None:
    for batch, changes in enumerate([A, B, {}, D]):
        progress = bench.apply(batch, changes)
        assert (progress.batch, progress.tuples) == (batch, len(changes))
        assert not progress.recovered and not progress.rolled_back and progress.failures == 0
    assert bench.values == total(A, B, D)


def test_steps_of_a_batch_with_a_backup_and_of_one_without(tmp_path: Path) -> None:
    exact = Bench(tmp_path / "exact", Exact())
    exact.apply(0, A)
    assert exact.steps == [Step.OPENED, Step.APPLYING, Step.BACKING_UP, Step.BACKED_UP, Step.COMMITTED]
    exact.dies(1, B, Step.BACKED_UP)
    assert exact.backed_up == [0, 1] and exact.shard.version == 0  # durable before it commits
    exact.dies(1, B, Step.COMMITTED)
    assert exact.shard.version == 1
    large = Bench(tmp_path / "large", Approximate(1e6))
    large.apply(0, A)
    assert large.steps == [Step.OPENED, Step.APPLYING, Step.COMMITTED]


def test_a_staged_backup_counts_only_when_the_next_batch_begins(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(10.0))
    assert bench.apply(0, A).backup  # 6 is more than 5
    assert (bench.shard.staged, bench.shard.backup_version) == (0, -1)
    assert bench.shard.divergence() == 6
    progress = bench.apply(1, {0: 1})
    assert (bench.shard.staged, bench.shard.backup_version) == (-1, 0)
    assert progress.divergence == 1 and not progress.backup


def test_a_batch_that_goes_on_and_needs_no_backup_leaves_the_store_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, Approximate(10.0))
    assert bench.apply(0, A).backup
    monkeypatch.setattr(bench.files, "names", None)
    for batch in range(1, 4):
        assert not bench.apply(batch, {0: 1}).backup


def test_the_record_of_a_backup(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.clock.advance(5.0)
    progress = bench.apply(1, B)
    record = bench.manifest.records[-1]
    assert (record.batch, record.seq, record.failures, record.divergence) == (1, 10, 0, 9.0)
    assert (record.time_s, record.counts) == (1e9 + 5, (64,))
    assert (progress.backup_bytes, progress.backup_chunks) == (record.bytes, record.chunks)


# -- version N, or torn: roll back ----------------------------------------------------------------------------


@pytest.mark.parametrize("step", SHARD_STEPS)
@pytest.mark.parametrize("new_process", [True, False])
@pytest.mark.parametrize("batch", [0, 2])
def test_an_attempt_that_died_is_undone_and_run_again(
    tmp_path: Path, step: Step, new_process: bool, batch: int
) -> None:
    bench = Bench(tmp_path, Exact())
    for earlier in range(batch):
        bench.apply(earlier, A)
    bench.dies(batch, B, step)
    if new_process:
        bench.open()
    progress = bench.apply(batch, B)
    assert progress.rolled_back and not progress.recovered and progress.failures == 0
    assert bench.values == total(*[A] * batch, B)
    bench.apply(batch + 1, D)
    assert bench.backed_up == list(range(batch + 2))
    bench.lose_memory()
    bench.apply(batch + 2, {})
    assert bench.values == total(*[A] * batch, B, D)


def test_a_batch_that_was_applied_is_not_applied_twice(bench: Bench) -> None:
    bench.apply(0, A)
    for _ in range(3):
        bench.apply(1, B)
        assert bench.values == total(A, B)
    assert bench.apply(1, B).rolled_back


def test_a_repeated_attempt_may_differ_and_its_backup_replaces_the_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.apply(1, B)
    bench.apply(1, C)
    assert bench.backed_up == [0, 1]
    bench.lose_memory()
    bench.apply(2, {})
    assert bench.values == total(A, C)


def test_a_repeated_attempt_replaces_the_firsts_backup_even_if_it_needs_none(tmp_path: Path) -> None:
    """That backup may be noted as one that must be there, and the first attempt be the one that was committed."""
    bench = Bench(tmp_path, Approximate(10.0))
    bench.apply(0, {0: 1})
    assert bench.apply(1, {0: 100}).backup
    assert bench.apply(1, {0: 1}).backup
    assert bench.backed_up == [1]
    bench.lose_memory()
    bench.apply(2, {})
    assert bench.values == {0: 2}


@pytest.mark.parametrize("step", [Step.OPENED, Step.APPLYING, Step.BACKING_UP])
def test_the_backup_of_a_batch_outlives_a_leftover_task_that_dies(tmp_path: Path, step: Step) -> None:
    # Spark gave the task up, another attempt was committed, and only then the first starts over.
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.apply(1, B)
    bench.dies(1, B, step)
    progress = bench.apply(2, C)
    assert progress.recovered and progress.recovered_from == 1 and progress.failures == 1
    assert bench.values == total(A, B, C)


def test_the_backup_of_a_batch_outlives_a_leftover_task_that_had_to_recover(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.apply(1, B)
    bench.lose_memory()
    bench.dies(1, B, Step.APPLYING)
    progress = bench.apply(2, C)
    assert (progress.recovered_from, progress.failures) == (1, 2)
    assert bench.values == total(A, B, C)


@pytest.mark.parametrize("again", [False, True], ids=["same process", "another process"])
def test_what_only_a_leftover_task_lost_is_told_by_the_batch_after_it(bench: Bench, again: bool) -> None:
    for batch, changes in enumerate([A, B]):
        bench.apply(batch, changes)
        bench.noted = bench.noted_after(batch)
    bench.lose_memory()
    left_over = bench.apply(1, B)  # nobody hears what it says
    assert left_over.recovered and left_over.failures == 1
    if again:
        bench.open()
    progress = bench.apply(2, C)
    assert progress.recovered and progress.failures == 1
    assert (progress.recovered_from, progress.loss_max) == (left_over.recovered_from, left_over.loss_max)
    bench.noted = replace(bench.noted, failures=1)
    assert not bench.apply(3, D).recovered
    bench.noted = NOT_NOTED  # a driver that notes nothing has heard everything, for all anyone knows
    bench.open()
    assert not bench.apply(4, A).recovered


def test_damage_that_only_a_leftover_task_saw_is_told_by_the_batch_after_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    for batch, changes in enumerate([A, B, C]):
        bench.apply(batch, changes)
        bench.noted = bench.noted_after(batch)
    (tmp_path / "backups" / bench.manifest.records[-2].name).write_bytes(b"")
    bench.lose_memory()
    left_over = bench.apply(2, C)
    assert left_over.damage and math.isinf(left_over.loss_max)
    bench.lose_memory()  # and what it mended is all there is to recover from
    progress = bench.apply(3, D)
    assert left_over.damage in progress.damage and math.isinf(progress.loss_max)


# -- nothing, or older: recover -------------------------------------------------------------------------------


def test_memory_lost(bench: Bench) -> None:
    for batch, changes in enumerate([A, B]):
        bench.apply(batch, changes)
    bench.lose_memory()
    progress = bench.apply(2, C)
    saves = isinstance(bench.protection, Exact) or bench.protection in (Checkpoint(every=1), Approximate(0.0))
    assert bench.values == (total(A, B, C) if saves else C)
    assert progress.recovered and progress.recovered_from == (1 if saves else -1) and progress.failures == 1
    assert (bench.loss.batch, bench.loss.backup_batch, bench.loss.damage) == (2, progress.recovered_from, "")


def test_memory_that_is_older_is_not_gone_on_with(bench: Bench, tmp_path: Path) -> None:
    bench.apply(0, A)
    shutil.copytree(bench.state, tmp_path / "kept")
    bench.apply(1, B)
    shutil.rmtree(bench.state)
    shutil.copytree(tmp_path / "kept", bench.state)
    bench.open()
    progress = bench.apply(2, C)
    assert progress.recovered and progress.failures == 1
    kept = progress.recovered_from == 1
    assert bench.values == (total(A, B, C) if kept else C)


def test_memory_lost_before_the_first_batch_is_committed_is_no_failure(bench: Bench) -> None:
    bench.apply(0, A)
    bench.lose_memory()
    progress = bench.apply(0, A)
    assert not progress.recovered and progress.failures == 0
    assert bench.values == A


def test_a_batch_run_again_after_its_backup_was_written_starts_from_the_one_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.apply(1, B)
    bench.apply(2, C)
    bench.lose_memory()
    progress = bench.apply(2, C)  # Spark had not committed batch 2
    assert progress.recovered_from == 1
    assert bench.values == total(A, B, C)
    bench.lose_memory()
    bench.apply(3, D)
    assert bench.values == total(A, B, C, D)


def test_the_first_backup_of_all_is_not_used_for_its_own_batch(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Checkpoint(every=4))
    bench.apply(0, A)
    assert bench.apply(1, B).backup
    bench.lose_memory()
    progress = bench.apply(1, B)
    assert progress.recovered and progress.recovered_from == -1
    assert bench.values == B


def test_memory_half_filled_by_another_run_is_emptied_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.apply(1, B)
    bench.lose_memory()
    bench.hooks.recovered = _die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        bench.apply(2, C)
    assert bench.values == total(A, B) and bench.shard.version == -1
    elsewhere = Bench(tmp_path, Exact())
    elsewhere.files = LocalFolder(tmp_path / "elsewhere")
    elsewhere.open()
    elsewhere.apply(0, D)
    assert elsewhere.values == D


def _die(loss: object) -> None:
    raise KeyboardInterrupt


# -- newer than N, or N without an undo: refuse -----------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_a_leftover_attempt_is_refused_and_changes_nothing(bench: Bench, tmp_path: Path, attempt: int) -> None:
    for batch, changes in enumerate([A, B, C, D]):
        bench.apply(batch, changes)
    before = listing(tmp_path)
    with pytest.raises(StaleAttemptError, match=f"batch {attempt} was to be applied.*contains batch 3"):
        bench.apply(attempt, A)
    assert listing(tmp_path) == before
    bench.apply(4, A)
    assert bench.values == total(A, B, C, D, A)


def test_a_leftover_attempt_finds_a_later_batch_torn(bench: Bench, tmp_path: Path) -> None:
    for batch, changes in enumerate([A, B, C]):
        bench.apply(batch, changes)
    bench.dies(3, D, Step.APPLYING)
    before = listing(tmp_path)
    with pytest.raises(StaleAttemptError):
        bench.apply(1, B)
    assert listing(tmp_path) == before
    # Of batch 2 it is not sure before the torn one is rolled back, as the next attempt has to do anyway.
    with pytest.raises(StaleAttemptError):
        bench.apply(2, C)
    assert bench.values == total(A, B, C)
    assert not bench.apply(3, D).recovered
    assert bench.values == total(A, B, C, D)


# -- stores that are wrong ------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", [1, 5])
def test_backups_of_an_earlier_run_are_refused(tmp_path: Path, newest: int) -> None:
    bench = Bench(tmp_path, Exact())
    for batch in range(newest + 1):
        bench.apply(batch, A)
    bench.lose_memory()
    before = listing(bench.backups)
    with pytest.raises(BackupError, match=f"asks for batch 0, but the backups already contain batch {newest}"):
        bench.apply(0, A)
    assert listing(bench.backups) == before


def test_backups_later_than_what_spark_asks_for_are_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    for batch in range(6):
        bench.apply(batch, A)
    bench.lose_memory()
    before = listing(bench.backups)
    with pytest.raises(BackupError, match="belong to an earlier run"):
        bench.apply(3, A)
    assert listing(bench.backups) == before


def test_a_folder_that_knows_nothing_of_the_shard_is_not_taken_for_a_fresh_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    bench.apply(0, A)
    bench.lose_memory()
    bench.files = LocalFolder(tmp_path / "elsewhere")
    bench.open()
    with pytest.raises(BoundLostError, match="has no record of it, though the run is at batch 1"):
        bench.apply(1, B)
    assert not (tmp_path / "elsewhere").exists()
