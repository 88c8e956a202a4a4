"""Backups of a shard whose process is killed at any step of writing, compacting or taking them back."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.backup.bench import Bench, Changes, total
from tests.state.crash_checks import check_no_leftovers, check_shard
from tests.state.crash_film import Film, Still, crash_points, lay_out, scratch

import spillway as sw
from spillway.backup import manifest as manifests
from spillway.backup.keeper import Step
from spillway.clock import ManualClock

SEED = 7
MINUTE = sw.Checkpoint(every=timedelta(minutes=1))
CHANGES: list[Changes] = [{1: 5, 2: 6, 20: 1}, {2: 3}, {2: 1, 40: 9}, {1: 1}, {41: 2, 2: -4}, {3: 3}, {3: 1}, {60: 8}]


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


def filmed(bench: Bench, folder: Path, batch: int) -> list[Still]:
    with Film(folder, batch=batch) as film:
        bench.apply(batch, CHANGES[batch])
    return film.stills


def go_on(still: Still, folder: Path, protect: sw.Protection, *, wiped: bool, now_s: float) -> set[str]:
    """Run the batch again and two more; everything holds after each. Returns the functions that changed something."""
    lay_out(still.files, folder)
    if wiped:
        shutil.rmtree(folder / "state", ignore_errors=True)
    bench = Bench(folder, protect)
    bench.clock.set_now(now_s)
    for batch in range(still.batch, still.batch + 3):
        if batch == still.batch + 2:
            bench.clock.advance(1000)  # so that a backup is written, which drops what is no longer needed
        bench.apply(batch, CHANGES[batch])
        check_shard(bench.shard, bench.store)
        found = bench.values
        if not wiped or isinstance(protect, sw.Exact):
            assert found == non_zero(total(*CHANGES[: batch + 1]))
        else:
            lost = range(bench.loss.backup_batch + 1, still.batch)
            assert found == non_zero(total(*(CHANGES[i] for i in range(batch + 1) if i not in lost)))
    assert bench.shard.failures >= wiped
    check_no_leftovers(folder)
    check_named(bench)
    return {place.rpartition(" ")[2] for place in still.after}


def check_named(bench: Bench) -> None:
    """Two manifests at most, and no segment that neither of them names."""
    names = bench.files.names()
    listed = manifests.manifest_names(names)
    assert len(listed) <= 2
    segments = {name for name in names if name not in listed}
    newest = {record.name for record in bench.manifest.records}
    before = {name for name in segments if any(name.encode() in bench.files.read(other) for other in listed)}
    assert newest <= segments == before


def non_zero(cells: dict[int, float]) -> dict[int, float]:
    return {cell: number for cell, number in cells.items() if number}


def judge(stills: list[Still], folder: Path, protect: sw.Protection, *, now_s: float = 1e9) -> set[str]:
    broken, functions = list[str](), set[str]()
    for still in crash_points(stills, seed=SEED):
        for wiped in (False, True):
            try:
                functions |= go_on(still, folder / "on", protect, wiped=wiped, now_s=now_s)
            except Exception as error:
                broken.append(f"{still}, memory {'lost' if wiped else 'kept'}: {type(error).__name__}: {error}")
            shutil.rmtree(folder / "on", ignore_errors=True)
    assert not broken, f"{len(broken)} kills broke a promise:\n" + "\n".join(broken[:12])
    return functions


def test_a_backup_that_is_not_due_when_its_batch_is_run_again(folder: Path) -> None:
    """By the clock of whoever goes on it is too early for one; that of the attempt that died is replaced."""
    bench = Bench(folder / "bench", MINUTE)
    bench.apply(0, CHANGES[0])
    bench.clock.advance(100)
    bench.apply(1, CHANGES[1])
    bench.apply(2, CHANGES[2])
    bench.clock.advance(100)
    bench.dies(3, CHANGES[3], Step.BACKED_UP)
    assert bench.backed_up == [1, 3]
    bench.clock = ManualClock(now_s=1e9)
    bench.open()
    stills = filmed(bench, folder / "bench", 3)
    assert bench.backed_up == [1, 3]
    assert {"_save", "rollback"} <= judge(stills, folder, MINUTE, now_s=bench.clock.now_s())


@pytest.mark.parametrize(("batch", "kind"), [(1, "changed"), (3, "whole")])
def test_a_backup(batch: int, kind: str, folder: Path) -> None:
    bench = Bench(folder / "bench", sw.Exact())
    for earlier in range(batch):
        bench.apply(earlier, CHANGES[earlier])
    stills = filmed(bench, folder / "bench", batch)
    assert bench.manifest.records[-1].kind == kind
    assert {"save", "promote", "stage", "tidy"} <= judge(stills, folder, sw.Exact())


def test_a_loss_that_is_noted(folder: Path) -> None:
    bench = Bench(folder / "bench", sw.Exact())
    for batch in range(2):
        bench.apply(batch, CHANGES[batch])
    bench.lose_memory()
    stills = filmed(bench, folder / "bench", 2)
    assert {"failed", "recovered", "reset"} <= judge(stills, folder, sw.Exact())
