"""Damaged, missing and misplaced files: they cost their own chunks, and it is said."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.backup.bench import KilledError
from tests.backup.stored import Content, Stored, content_of, moment, new_store

from spillway.backup.store import ShardStore
from spillway.files.folders import LocalFolder, open_folder
from spillway.soak.faulty_files import FaultyFiles, Trap
from spillway.state.kernels import CHUNK_BYTES

WHOLE: Content = {(array, chunk): 80 * array + chunk + 1 for array in (0, 1) for chunk in range(60)}
LAYERS: list[Content] = [WHOLE, {(0, 1): 200}, {(0, 2): 201, (1, 1): 202}, {(0, 1): 203, (1, 3): 204}]

Damage = Callable[[Path], None]


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"not an Arrow file" * 40)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def fill_with(byte: int) -> Damage:
    """Damage the payload of the one chunk that is filled with ``byte``."""

    def flip(path: Path) -> None:
        data = path.read_bytes()
        at = data.index(bytes([byte]) * CHUNK_BYTES)
        path.write_bytes(data[: at + 5] + b"\xaa" + data[at + 6 :])

    return flip


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """A whole backup and three changed ones, of batches 0 to 3."""
    stored = Stored(LocalFolder(tmp_path))
    for batch, layer in enumerate(LAYERS):
        assert stored.save(batch, layer).kind == ("changed" if batch else "whole")
    return stored


def segments(stored: Stored) -> list[str]:
    found = new_store(stored.files).manifest()
    assert found is not None
    return [record.name for record in found.records]


def overlay(*layers: Content) -> Content:
    return {key: value for layer in layers for key, value in layer.items()}


def reload(stored: Stored) -> ShardStore:
    """The store as a new process sees it."""
    stored.store = new_store(stored.files)
    return stored.store


@pytest.mark.parametrize("damage", [remove, empty, garble, cut])
@pytest.mark.parametrize("batch", range(4))
def test_a_lost_segment_costs_its_chunks(tmp_path: Path, stored: Stored, damage: Damage, batch: int) -> None:
    name = segments(stored)[batch]
    damage(tmp_path / name)
    restored = reload(stored).load(batch_max=9)
    assert content_of(restored) == overlay(*LAYERS[:batch], *LAYERS[batch + 1 :])
    assert restored.lost_chunks == len(LAYERS[batch]) and not restored.complete
    (sentence,) = restored.damage
    assert sentence.startswith(f"{name} is {'missing' if damage is remove else 'damaged'}: {len(LAYERS[batch])} of")


@pytest.mark.parametrize(
    ("batch", "key"), [(batch, key) for batch, layer in enumerate(LAYERS) for key in list(layer)[::7]], ids=str
)
def test_a_flipped_byte_costs_one_chunk(tmp_path: Path, stored: Stored, batch: int, key: tuple[int, int]) -> None:
    fill_with(LAYERS[batch][key])(tmp_path / segments(stored)[batch])
    damaged = [dict(layer) for layer in LAYERS]
    del damaged[batch][key]
    restored = reload(stored).load(batch_max=9)
    assert content_of(restored) == overlay(*damaged)
    assert restored.lost_chunks == 1 and not restored.complete and len(restored.damage) == 1


def test_damage_that_hits_no_chunk_costs_none_and_is_said(tmp_path: Path, stored: Stored) -> None:
    path = tmp_path / segments(stored)[0]
    path.write_bytes(path.read_bytes() + b"\0")  # Arrow reads a file from its end, and no longer finds it
    assert reload(stored).load(batch_max=9).lost_chunks == len(WHOLE)
    path.write_bytes(path.read_bytes()[:-1])
    data = path.read_bytes()
    padding = data.index(b"ARROW1\0\0") + 6
    path.write_bytes(data[:padding] + b"\x01" + data[padding + 1 :])
    restored = reload(stored).load(batch_max=9)
    assert content_of(restored) == stored.content
    assert restored.complete and restored.lost_chunks == 0 and len(restored.damage) == 1


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 2), (2, 3), (0, 3)])
def test_segments_that_changed_places_hold_nothing(tmp_path: Path, stored: Stored, one: int, other: int) -> None:
    names = segments(stored)
    first, second = tmp_path / names[one], tmp_path / names[other]
    first_data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(first_data)
    restored = reload(stored).load(batch_max=9)
    assert content_of(restored) == overlay(*(layer for i, layer in enumerate(LAYERS) if i not in (one, other)))
    assert restored.lost_chunks == len(LAYERS[one]) + len(LAYERS[other]) and len(restored.damage) == 2


def test_all_segments_in_another_order_hold_nothing(tmp_path: Path, stored: Stored) -> None:
    paths = [tmp_path / name for name in segments(stored)]
    data = [path.read_bytes() for path in paths]
    for path, other in zip(paths, data[1:] + data[:1], strict=True):
        path.write_bytes(other)
    restored = reload(stored).load(batch_max=9)
    assert content_of(restored) == {} and len(restored.damage) == 4


def test_a_segment_of_another_attempt_of_the_batch_holds_nothing(tmp_path: Path, stored: Stored) -> None:
    name = segments(stored)[3]
    earlier = (tmp_path / name).read_bytes()
    stored.after, stored.content = 2, overlay(*LAYERS[:3])
    stored.save(3, {(0, 1): 210})
    again = segments(stored)[3]
    assert again != name
    (tmp_path / again).write_bytes(earlier)
    assert content_of(reload(stored).load(batch_max=9)) == overlay(*LAYERS[:3])


def test_a_segment_of_another_shard_holds_nothing(tmp_path: Path, stored: Stored) -> None:
    other = ShardStore(
        LocalFolder(tmp_path / "other"),
        graph="graph",
        operator="flows",
        shard=1,
        meaning={"state": "Vector"},
        protection="Exact",
        arrays=2,
    )
    other.born()
    twin = Stored.__new__(Stored)
    twin.store, twin.content, twin.after, twin.files = other, {}, -1, LocalFolder(tmp_path / "other")
    name = twin.save(0, WHOLE).name
    assert name == segments(stored)[0]
    shutil.copy(tmp_path / "other" / name, tmp_path / name)
    assert content_of(reload(stored).load(batch_max=9)) == overlay(*LAYERS[1:])


def test_the_older_generation_stands_in_chunk_by_chunk(tmp_path: Path, stored: Stored) -> None:
    batch = 4
    while stored.save(batch, {(0, 0): 210 + batch}).kind != "whole":
        batch += 1
    before = overlay(*LAYERS, {(0, 0): 210 + batch - 1})
    fill_with(210 + batch)(tmp_path / segments(stored)[-1])
    restored = reload(stored).load(batch_max=99)
    assert content_of(restored) == before
    assert restored.lost_chunks == 1
    remove(tmp_path / segments(stored)[-1])
    assert content_of(reload(stored).load(batch_max=99)) == before


def test_nothing_stands_in_for_parts_of_a_fresh_backup(tmp_path: Path, stored: Stored) -> None:
    stored.save(4, {(0, 0): 210}, fresh=True)
    fill_with(210)(tmp_path / segments(stored)[-1])
    without = {key: value for key, value in stored.content.items() if key != (0, 0)}
    assert content_of(reload(stored).load(batch_max=9)) == without


def damage_newest_manifest(tmp_path: Path, damage: Damage) -> None:
    damage(sorted(tmp_path.glob("manifest-*"))[-1])


@pytest.mark.parametrize("damage", [remove, empty, garble, cut])
def test_a_lost_manifest_is_a_gap_until_a_fresh_backup(tmp_path: Path, stored: Stored, damage: Damage) -> None:
    damage_newest_manifest(tmp_path, damage)
    store = reload(stored)
    restored = store.load(batch_max=3)
    assert content_of(restored) == overlay(*LAYERS[:3])  # what the one before it says
    assert not restored.complete and "manifests" in restored.damage[-1]
    # It stays known, whatever is noted meanwhile and whoever looks.
    store.failed(batch_max=3, failures=7)
    assert not reload(stored).load(batch_max=3).complete
    reload(stored).truncate(3)
    coming = reload(stored).coming(batch=4, after=3, failures=0)
    assert coming.fresh and coming.whole
    assert stored.save(4, {(0, 0): 9}).fresh
    restored = reload(stored).load(batch_max=4)
    assert restored.complete and restored.damage == () and content_of(restored) == stored.content
    # If that batch is run again after all, what comes before it is as doubtful as it was.
    assert not reload(stored).load(batch_max=3).complete
    assert reload(stored).coming(batch=4, after=3, failures=0).fresh
    reload(stored).truncate(3)
    assert not reload(stored).load(batch_max=4).complete


def test_a_damaged_manifest_may_have_been_the_note_of_a_failure(tmp_path: Path, stored: Stored) -> None:
    stored.store.failed(batch_max=3, failures=1)
    damage_newest_manifest(tmp_path, garble)
    found = reload(stored).manifest()
    assert found is not None and (found.failures, found.damaged) == (2, 1)  # the note stands twice


@pytest.mark.parametrize("damage", [remove, empty])
def test_after_a_lost_manifest_its_number_is_not_used_again(tmp_path: Path, stored: Stored, damage: Damage) -> None:
    other = new_store(stored.files)
    other.manifest()
    damage_newest_manifest(tmp_path, damage)
    stored.store = new_store(stored.files)
    stored.save(4, {(0, 0): 9})
    # A process that remembers the manifest as it was must not take the new one for it.
    assert content_of(other.load(batch_max=4)) == stored.content


def test_both_manifests_lost_gives_nothing_back_and_says_so(tmp_path: Path, stored: Stored) -> None:
    for path in tmp_path.glob("manifest-*"):
        garble(path)
    restored = reload(stored).load(batch_max=9)
    assert restored.record is None and not restored.complete
    assert restored.damage == (f"2 newer manifests in {tmp_path} are damaged or missing",)
    found = reload(stored).manifest()
    assert found is not None and found.failures == 2, "each may have been the note of a failure"


def test_a_damaged_table_falls_back_to_the_one_before(tmp_path: Path) -> None:
    stored = Stored(LocalFolder(tmp_path))
    tables = [pa.table({"x": [batch]}) for batch in range(2)]
    for batch, table in enumerate(tables):
        stored.store.save_table(table, stored.store.coming(batch=batch, after=batch - 1, failures=0), moment(batch))
    names = segments(stored)
    garble(tmp_path / names[1])
    restored = reload(stored).load(batch_max=9)
    assert restored.table is not None and restored.table.equals(tables[0])
    assert not restored.complete and restored.lost_chunks == 1 and names[1] in restored.damage[0]
    remove(tmp_path / names[0])
    restored = reload(stored).load(batch_max=9)
    assert restored.record is None and restored.table is None and len(restored.damage) == 2


def test_a_table_never_stands_in_for_chunks(tmp_path: Path) -> None:
    stored = Stored(LocalFolder(tmp_path))
    stored.store.save_table(pa.table({"x": [1]}), stored.store.coming(batch=0, after=-1, failures=0), moment(0))
    stored.after = 0
    stored.save(1, {(0, 0): 210, (0, 1): 211})
    fill_with(210)(tmp_path / segments(stored)[-1])
    restored = reload(stored).load(batch_max=9)
    assert restored.table is None and content_of(restored) == {(0, 1): 211} and not restored.complete


def test_chunks_stand_in_for_a_table_as_chunks(tmp_path: Path) -> None:
    stored = Stored(LocalFolder(tmp_path))
    stored.save(0, WHOLE)
    stored.store.save_table(pa.table({"x": [1]}), stored.store.coming(batch=1, after=0, failures=0), moment(1))
    garble(tmp_path / segments(stored)[-1])
    restored = reload(stored).load(batch_max=9)
    assert restored.table is None and content_of(restored) == WHOLE and not restored.complete


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("operation", range(12))
def test_a_kill_at_any_file_operation_leaves_the_old_backups_or_the_new(operation: int, done: bool) -> None:
    disk = FaultyFiles(name="killed")
    stored = Stored(open_folder(disk.address, "shard"))
    batch = 12
    for earlier in range(batch):
        stored.save(earlier, {(0, 0): earlier})
    while stored.save(batch, {(0, 0): batch}).kind != "whole":  # so that the next one has something to remove
        batch += 1
    before, batch = dict(stored.content), batch + 1
    disk.arm(Trap(operation=operation, done=done, error=KilledError))
    try:
        stored.save(batch, {(0, 0): 201, (1, 1): 202})
        saved = True
    except KilledError:
        saved = False
    disk.arm(None)
    restored = reload(stored).load(batch_max=batch)
    named = (restored.record.batch if restored.record else -1) == batch
    assert content_of(restored) == (stored.content if named else before)
    assert named or not saved
    # A segment without a manifest is damage only once its batch is known to be committed.
    assert reload(stored).load(batch_max=batch - 1).complete
    assert content_of(reload(stored).load(batch_max=batch - 1)) == before
    # The batch is run again: with a backup, or without one.
    stored.after, stored.content = batch - 1, before
    if operation % 2:
        reload(stored).truncate(batch - 1)
    else:
        reload(stored)
        assert not stored.save(batch, {(1, 1): 203}).fresh
    restored = reload(stored).load(batch_max=batch)
    assert restored.complete and content_of(restored) == stored.content
    assert not any(".part-" in path for path in disk.content) or operation % 2
    FaultyFiles.clear_instance_cache()
