"""Promises in numbers: how failures count, when a backup is due, and what a partial one may leave out."""

import math
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.backup.bench import Bench, Changes, total

from spillway.backup.keeper import Step
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing, Protection

A, B = {0: 1, 20: 5}, {0: 2, 21: 7}


# -- failures and thresholds ----------------------------------------------------------------------------------


def test_thresholds_halve_with_every_failure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(64.0), shards=2)
    allowed = [bench.apply(0, {}).threshold]
    for batch in range(1, 5):
        bench.lose_memory()
        allowed.append(bench.apply(batch, {}).threshold)
    assert allowed == [16.0, 8.0, 4.0, 2.0, 1.0]
    assert bench.manifest.failures == 4


def test_two_failures_in_a_row_are_two_even_with_no_backup_between(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(64.0))
    bench.apply(0, {0: 30})
    bench.lose_memory()
    bench.dies(1, {}, Step.OPENED)
    bench.lose_memory()
    progress = bench.apply(1, {0: 9})
    assert (progress.failures, progress.threshold, progress.backup) == (2, 8.0, True)


def test_a_failure_is_durable_before_anything_is_rebuilt(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(64.0))
    bench.apply(0, {0: 30})
    bench.lose_memory()
    noted: list[int] = []
    reset = bench.shard.reset

    def note_and_reset() -> None:
        noted.append(bench.manifest.failures)
        reset()

    bench.shard.reset = note_and_reset  # type: ignore[method-assign]
    bench.apply(1, {})
    assert noted == [1]


def test_what_is_lost_is_bounded_by_the_failures_since_the_backup(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(64.0))
    bench.apply(0, {0: 30})
    bench.lose_memory()
    bench.dies(1, {}, Step.OPENED)
    assert bench.loss.divergence_max == 32.0
    bench.lose_memory()
    bench.apply(1, {0: 9})  # is backed up, with two failures on record
    assert bench.loss.divergence_max == 32.0 + 16.0
    bench.apply(2, {0: 7})
    bench.lose_memory()
    bench.apply(3, {})
    assert (bench.loss.failures, bench.loss.backup_batch, bench.loss.divergence_max) == (3, 1, 8.0)
    assert bench.values == {0: 9}


@pytest.mark.parametrize(
    ("protection", "expected"), [(Exact(), 0.0), (Checkpoint(every=10), math.inf), (Nothing(), math.inf)]
)
def test_what_other_protections_say_of_a_loss(tmp_path: Path, protection: Protection, expected: float) -> None:
    bench = Bench(tmp_path, protection)
    bench.apply(0, A)
    bench.lose_memory()
    bench.apply(1, B)
    assert bench.loss.divergence_max == expected


# -- when a backup is due -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("divergence", "due"), [(0.0, False), (5.0, False), (5.000001, True), (math.inf, True), (math.nan, True)]
)
def test_approximate_backs_up_what_nothing_bounds(tmp_path: Path, divergence: float, due: bool) -> None:
    bench = Bench(tmp_path, Approximate(10.0), divergence=divergence)
    assert bench.apply(0, {0: 1}).backup is due
    second = bench.apply(1, {40: 1})
    assert second.backup is due
    if due:  # all that changed, because an operator's own idea of divergence says nothing of chunks
        bench.lose_memory()
        bench.apply(2, {})
        assert bench.values == {0: 1, 40: 1}


def test_exact_backs_up_every_change_and_nothing_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact())
    assert bench.apply(0, A).backup
    assert not bench.apply(1, {}).backup
    with bench.shard.lock():  # a change that came with no tuple, such as one made at the end of a batch
        bench.keeper.begin(2)
        bench.vector.add(np.array([5]), 1)
        assert bench.keeper.commit(seq=0, tuples=0).backup
    bench.lose_memory()
    assert not bench.apply(3, {}).backup
    assert bench.values == total(A, {5: 1})


def test_checkpoint_counts_tuples_since_the_last_backup(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Checkpoint(every=3))
    one: Changes = {0: 1}
    assert [bench.apply(batch, one).backup for batch in range(7)] == [False, False, True, False, False, True, False]
    assert [bench.apply(7, one).backup, bench.apply(7, one).backup] == [False, False]  # run again
    assert bench.apply(8, one).backup


def test_checkpoint_watches_the_clock(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Checkpoint(every=timedelta(seconds=10)))
    due = []
    for batch, pause_s in enumerate([0, 9, 1, 9.5, 0.5, 3]):
        bench.clock.advance(pause_s)
        due.append(bench.apply(batch, {0: 1}).backup)
    assert due == [False, False, True, False, True, False]


@pytest.mark.parametrize("set_by_s", [-27.0, -3600.0, 3600.0])
def test_checkpoint_does_not_mind_the_date(tmp_path: Path, set_by_s: float) -> None:
    bench = Bench(tmp_path, Checkpoint(every=timedelta(seconds=30)))
    bench.apply(0, {0: 1})
    bench.clock.set_now(bench.clock.now_s() + set_by_s)
    due = []
    for batch in range(1, 8):
        bench.clock.advance(10)
        if batch == 4:
            bench.open()  # in another process, which knows only what memory says
        due.append(bench.apply(batch, {0: 1}).backup)
    assert due == [False, False, True, False, False, True, False]


# -- partial backups ------------------------------------------------------------------------------------------


def test_only_what_makes_the_state_diverge_is_saved(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(80.0), length=4096)
    bench.apply(0, dict.fromkeys(range(0, 4096, 16), 30))  # the whole backup
    light = dict.fromkeys(range(0, 160, 16), 1)
    progress = bench.apply(1, {**light, 1000: 50})
    assert progress.backup and 1 <= progress.backup_chunks <= 2
    bench.lose_memory()
    bench.apply(2, {})
    left_out = sum(light.values())
    assert 0 < left_out <= 40 / 2
    assert bench.values == total(dict.fromkeys(range(0, 4096, 16), 30), {1000: 50})


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
def test_what_a_partial_backup_leaves_out_is_half_of_what_is_allowed_at_most(tmp_path: Path, metric: str) -> None:
    bench = Bench(tmp_path, Approximate(100.0), metric=metric, length=2048)  # type: ignore[arg-type]
    bench.apply(0, dict.fromkeys(range(2048), 1000))
    bench.apply(1, {cell: 10 + cell % 7 for cell in range(0, 2048, 3)} | {5: 200})
    assert bench.backed_up == [0, 1] and bench.manifest.records[-1].kind == "changed"
    bench.apply(2, {})
    assert bench.shard.divergence() <= 25.0
