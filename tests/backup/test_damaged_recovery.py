"""A shard that recovers from damaged backups: what it keeps, what it says, and how it gets whole again."""

import math
from pathlib import Path

import numpy as np
import pytest
from tests.backup.bench import Bench, total

from spillway.backup.keeper import Step
from spillway.graph.protections import Approximate, Exact

BASE = dict.fromkeys(range(640), 1)  # 40 chunks
LENGTH = 640


def segments(bench: Bench) -> list[Path]:
    return [bench.backups / record.name for record in bench.manifest.records]


def flip_payload(path: Path, *, cell_value: int) -> None:
    """Damage the chunk that holds a cell of this value."""
    data = bytearray(path.read_bytes())
    data[data.index(cell_value.to_bytes(8, "little")) + 1] ^= 0x10
    path.write_bytes(data)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A whole backup of batch 0 and changed ones of batches 1 and 2."""
    bench = Bench(tmp_path, Exact(), length=LENGTH)
    bench.apply(0, BASE)
    bench.apply(1, {0: 76})
    bench.apply(2, {100: 87})
    assert [record.kind for record in bench.manifest.records] == ["whole", "changed", "changed"]
    return bench


def test_damage_costs_its_chunks_is_reported_and_replaced(bench: Bench) -> None:
    flip_payload(segments(bench)[2], cell_value=88)
    damaged = segments(bench)[2].name
    bench.lose_memory()
    progress = bench.apply(3, {})
    assert bench.values == total(BASE, {0: 76})
    assert (progress.recovered_from, progress.lost_chunks) == (2, 1)
    assert progress.damage == f"{damaged} is damaged: 1 of 1 chunks lost"
    assert bench.loss.divergence_max == math.inf
    # What is in memory is on disk again, whole, and known not to build on the damaged ones.
    record = bench.manifest.records[-1]
    assert (record.batch, record.kind, record.fresh, record.seq, record.chunks) == (2, "whole", True, 20, 40)
    bench.apply(4, {1: 5})
    assert (bench.manifest.records[-1].kind, bench.manifest.records[-1].seq) == ("changed", 40)
    bench.lose_memory()
    progress = bench.apply(5, {})
    assert (progress.lost_chunks, progress.damage, progress.failures) == (0, "", 2)
    assert bench.loss.divergence_max == 0.0
    assert bench.values == total(BASE, {0: 76, 1: 5})


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_segment(bench: Bench, which: int) -> None:
    segments(bench)[which].unlink()
    bench.lose_memory()
    progress = bench.apply(3, {})
    changes = [BASE, {0: 76}, {100: 87}]
    if which:
        expected = total(*changes[:which], *changes[which + 1 :])
    else:  # only the chunks of the changed ones are left
        expected = dict.fromkeys([*range(16), *range(96, 112)], 1.0) | {0: 77.0, 100: 88.0}
    assert bench.values == expected
    assert "is missing" in progress.damage and progress.lost_chunks == (40 if which == 0 else 1)
    bench.lose_memory()
    assert bench.apply(4, {}).damage == ""
    assert bench.values == expected


def test_what_is_mended_is_backed_up_and_is_mended_once(bench: Bench) -> None:
    segments(bench)[2].unlink()
    bench.lose_memory()
    bench.hooks.mend = lambda: bench.vector.set(np.array([5]), 40)  # type: ignore[method-assign]
    bench.apply(3, {})
    assert bench.manifest.records[-1].batch == 2, "the next recovery is from what this one saved"
    bench.lose_memory()
    bench.apply(4, {})
    assert bench.values == total(BASE, {0: 76, 5: 39})
    assert (bench.hooks.mended, bench.loss.damage) == (0, "")


@pytest.mark.parametrize("damaged", [False, True])
def test_only_what_is_damaged_is_mended(bench: Bench, damaged: bool) -> None:
    if damaged:
        flip_payload(segments(bench)[2], cell_value=88)
    bench.lose_memory()
    bench.apply(3, {})
    assert bench.hooks.mended == damaged


def test_damage_is_reported_though_the_attempt_that_recovered_died(bench: Bench) -> None:
    segments(bench)[2].unlink()
    bench.lose_memory()
    bench.dies(3, {0: 1}, Step.APPLYING)
    progress = bench.apply(3, {0: 1})
    assert progress.rolled_back and progress.recovered and "is missing" in progress.damage
    assert not bench.apply(4, {0: 1}).recovered


def test_damage_is_reported_again_if_the_recovery_dies_before_it_is_replaced(bench: Bench) -> None:
    newest = bench.backups / bench.manifest.name
    newest.write_bytes(b"torn")
    bench.lose_memory()
    bench.hooks.custom_backup = _die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        bench.apply(3, {})
    assert not newest.exists()  # the note of the failure has taken its place
    bench.open()
    progress = bench.apply(3, {})
    assert "manifests" in progress.damage and bench.loss.divergence_max == math.inf
    assert progress.failures == 3  # two recoveries, and one more that the torn manifest may have noted


def _die() -> None:
    raise KeyboardInterrupt


def test_damage_outside_of_all_chunks_does_not_end_the_bound(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Approximate(8.0), length=LENGTH)
    bench.apply(0, BASE)
    (path,) = segments(bench)
    data = path.read_bytes()
    path.write_bytes(data[:6] + b"\x01" + data[7:])  # padding
    bench.lose_memory()
    progress = bench.apply(1, {})
    assert bench.values == BASE
    assert progress.lost_chunks == 0 and "0 of 40 chunks lost" in progress.damage
    assert bench.loss.divergence_max == 4.0


@pytest.mark.parametrize("how", ["torn", "missing"])
def test_a_lost_manifest_with_memory_alive_makes_it_be_backed_up_anew(bench: Bench, how: str) -> None:
    newest = bench.backups / bench.manifest.name
    if how == "torn":
        newest.write_bytes(newest.read_bytes()[:100])
    else:
        newest.unlink()
    bench.open()
    assert "memory was whole" in bench.apply(3, {200: 5}).damage
    anew = bench.manifest.records[-2]
    assert (anew.batch, anew.kind, anew.fresh) == (2, "whole", True)
    bench.lose_memory()
    progress = bench.apply(4, {})
    assert progress.damage == ""
    assert bench.values == total(BASE, {0: 76}, {100: 87}, {200: 5})


def test_a_lost_manifest_of_a_fresh_backup(bench: Bench) -> None:
    flip_payload(segments(bench)[2], cell_value=88)
    bench.lose_memory()
    bench.apply(3, {})  # the fresh backup is of batch 2, as the damaged one is
    (bench.backups / bench.manifest.name).write_bytes(b"torn")
    bench.open()
    bench.apply(4, {1: 5})
    anew = bench.manifest.records[-2]
    assert (anew.batch, anew.kind, anew.fresh) == (3, "whole", True)
    bench.lose_memory()
    assert bench.apply(5, {}).damage == ""
    assert bench.values == total(BASE, {0: 76, 1: 5})


def test_a_lost_manifest_and_lost_memory(bench: Bench) -> None:
    (bench.backups / bench.manifest.name).unlink()
    bench.lose_memory()
    progress = bench.apply(3, {})
    assert "manifests" in progress.damage and progress.recovered_from == 1
    assert bench.values == total(BASE, {0: 76})


def test_a_backup_that_died_before_its_manifest_is_no_damage(tmp_path: Path, bench: Bench) -> None:
    bench.dies(3, {300: 1}, Step.BACKED_UP)
    (bench.backups / bench.manifest.name).unlink()  # as if it had died a moment earlier
    bench.lose_memory()
    progress = bench.apply(3, {300: 1})
    assert progress.damage == ""
    assert bench.values == total(BASE, {0: 76}, {100: 87}, {300: 1})


def test_what_is_damaged_twice_does_not_come_back_from_before(bench: Bench) -> None:
    for path in segments(bench):
        path.write_bytes(b"")
    bench.lose_memory()
    bench.apply(3, {0: 5})
    assert bench.values == {0: 5}
    (fresh,) = [bench.backups / record.name for record in bench.manifest.records if record.fresh]
    fresh.unlink()
    bench.lose_memory()
    progress = bench.apply(4, {})
    assert bench.values == {0: 5}  # of batch 3, which has a backup of its own
    assert fresh.name in progress.damage


def test_a_damaged_table_of_the_operators_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Exact(), custom=True)
    bench.apply(0, {0: 1})
    bench.apply(1, {1: 1})
    segments(bench)[-1].write_bytes(b"")
    bench.lose_memory()
    progress = bench.apply(2, {2: 1})
    assert bench.values == {0: 1, 2: 1}
    assert progress.lost_chunks == 1 and "is damaged" in progress.damage
    assert [record.kind for record in bench.manifest.records] == ["custom", "custom"]
    bench.lose_memory()
    assert bench.apply(3, {}).damage == ""
    assert bench.values == {0: 1, 2: 1}


def test_a_manifest_that_only_noted_a_failure_and_was_deleted(tmp_path: Path) -> None:
    """Otherwise one threshold would be used twice."""
    bench = Bench(tmp_path, Approximate(80.0))
    bench.apply(0, {0: 30})
    bench.lose_memory()
    assert bench.apply(1, {0: 1}).threshold == 20.0
    (bench.backups / bench.manifest.name).unlink()
    bench.lose_memory()
    progress = bench.apply(2, {0: 1})
    assert (progress.threshold, progress.failures) == (10.0, 2)


@pytest.mark.parametrize("step", [Step.OPENED, Step.APPLYING, Step.BACKED_UP])
@pytest.mark.parametrize("damaged", [True, False])
def test_a_recovery_is_told_by_whoever_commits_the_batch(bench: Bench, step: Step, damaged: bool) -> None:
    """The attempt that recovered died, with its process, before it could tell."""
    if damaged:
        segments(bench)[2].unlink()
    bench.lose_memory()
    bench.dies(3, {0: 1}, step)
    bench.open()
    progress = bench.apply(3, {0: 1})
    assert progress.recovered and progress.failures == 1
    assert ("is missing" in progress.damage, progress.loss_max == math.inf) == (damaged, damaged)
    bench.open()
    assert not bench.apply(4, {0: 1}).recovered


def test_damage_is_told_though_the_backup_that_replaced_it_is_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments(bench)[2].unlink()
    bench.lose_memory()
    with monkeypatch.context() as patched:
        patched.setattr(type(bench.shard), "recovered", lambda *given, **named: _die())
        with pytest.raises(KeyboardInterrupt):
            bench.apply(3, {})
    bench.open()
    progress = bench.apply(3, {})
    assert progress.recovered and "is missing" in progress.damage and progress.loss_max == math.inf
