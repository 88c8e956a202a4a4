"""The store of one shard's backups while all is well: what is kept, for how long, and what comes back."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.backup.bench import listing
from tests.backup.stored import Content, Stored, content_of, moment, new_store, save

from spillway.backup.generations import CHANGED_MAX, GENERATIONS
from spillway.files.folders import Folder, LocalFolder, open_folder
from spillway.soak.faulty_files import FaultyFiles

BIG: Content = {(array, chunk): 1 for array in (0, 1) for chunk in range(500)}


@pytest.fixture
def files() -> Iterator[Folder]:
    """Files in memory: no waiting for a disk."""
    yield open_folder(FaultyFiles(name="store").address, "shard")
    FaultyFiles.clear_instance_cache()


@pytest.fixture
def stored(files: Folder) -> Stored:
    return Stored(files)


def test_a_shard_that_was_born_has_no_backup(stored: Stored) -> None:
    restored = stored.store.load(batch_max=100)
    assert restored.record is None and restored.complete and restored.damage == ()
    assert stored.files.names() == ["manifest-00000001.json"]


def test_a_folder_that_nothing_was_born_in(files: Folder) -> None:
    assert new_store(files).manifest() is None
    with pytest.raises(FileNotFoundError):
        new_store(files).load(batch_max=0)
    coming = new_store(files).coming(batch=5, after=3, failures=2)
    assert (coming.whole, coming.fresh, coming.base.failures, coming.base.records) == (True, True, 2, ())
    assert files.names() == []


Steps = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "save", "again", "truncate", "fail", "other process"]),
        st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 20)), st.integers(0, 255), max_size=6),
    ),
    max_size=25,
)


@given(steps=Steps)
def test_any_history_reads_back_as_the_last_backup_of_each_batch(steps: list[tuple[str, Content]]) -> None:
    files = open_folder(FaultyFiles(name="history").address, "shard")
    stored = Stored(files)
    history: dict[int, Content] = {-1: {}}  # the content after each batch that has a backup
    batch, failures = 0, 0
    certain = True  # whether it is certain that the last batch is committed; otherwise it may be run again
    for what, changed in steps:
        if what == "fail":
            failures += 1
            stored.store.failed(batch_max=batch - 1, failures=failures)
        elif what == "other process":
            stored.store = new_store(files)
        elif what == "truncate" and not certain:  # the last batch is run again, and needs no backup this time
            stored.store.truncate(batch - 2)
            history.pop(batch - 1, None)
            certain = True
        else:
            if what == "again" and not certain:
                batch -= 1
                history.pop(batch, None)
            stored.after = max(history)
            stored.content = dict(history[stored.after])
            stored.save(batch, changed)
            history[batch] = stored.content
            batch, certain = batch + 1, False
        restored = new_store(files).load(batch_max=batch)
        assert restored.complete and restored.damage == ()
        assert content_of(restored) == history[max(history)]
        assert (restored.record.batch if restored.record else -1) == max(history)
        if not certain:
            before_last = max(saved for saved in history if saved < batch - 1)
            assert content_of(new_store(files).load(batch_max=batch - 2)) == history[before_last]
        found = new_store(files).manifest()
        assert found is not None and found.failures == failures
    FaultyFiles.clear_instance_cache()


def test_changed_backups_hold_what_changed_until_they_outweigh_the_whole_one(stored: Stored) -> None:
    whole = stored.save(0, BIG)
    assert whole.kind == "whole" and whole.chunks == len(BIG)
    changed_bytes, batch = 0, 1
    while changed_bytes <= whole.bytes:
        record = stored.save(batch, {(0, chunk): batch for chunk in range(100)})
        assert record.kind == "changed" and record.chunks == 100
        changed_bytes += record.bytes
        batch += 1
    assert stored.save(batch, {(0, 0): batch}).kind == "whole"
    assert stored.save(batch + 1, {(0, 0): 0}).kind == "changed"
    assert content_of(stored.store.load(batch_max=batch + 1)) == stored.content


def test_changed_backups_are_never_too_many(stored: Stored) -> None:
    huge = {(0, chunk): 1 for chunk in range(4000)}
    kinds = [stored.save(0, huge).kind]
    kinds += [stored.save(batch, {(0, batch): batch}).kind for batch in range(1, CHANGED_MAX + 3)]
    assert kinds == ["whole"] + ["changed"] * CHANGED_MAX + ["whole", "changed"]
    assert content_of(stored.store.load(batch_max=10**6)) == stored.content


def test_two_generations_are_kept_and_no_more(stored: Stored) -> None:
    for batch in range(40):
        stored.save(batch, {(0, 0): batch, (1, batch % 3): batch})
    found = stored.store.manifest()
    assert found is not None
    assert sum(record.starts_generation for record in found.records) == GENERATIONS
    assert found.records[0].starts_generation
    assert set(stored.files.names()) >= {record.name for record in found.records}


def test_files_stay_few_over_a_thousand_backups(stored: Stored) -> None:
    most = 0
    for batch in range(1000):
        stored.save(batch, {(0, batch % 50): batch % 256})
        most = max(most, len(stored.files.names()))
    # The generations of the newest manifest and those of the one before, which may reach back one further.
    assert most <= (GENERATIONS + 1) * (CHANGED_MAX + 1) + 2
    assert content_of(new_store(stored.files).load(batch_max=1000)) == stored.content


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    notes = {"notes.txt": b"mine", "manifest-1.json": b"mine", "segment.arrow": b"mine"}
    for name, data in notes.items():
        (tmp_path / name).write_bytes(data)
    stored = Stored(LocalFolder(tmp_path))
    for batch in range(6):
        stored.save(batch, {(0, 0): batch})
    assert {name: (tmp_path / name).read_bytes() for name in notes} == notes


def test_numbers_are_never_used_twice(stored: Stored) -> None:
    seen: set[str] = set()
    for batch in range(30):
        before = set(stored.files.names())
        stored.save(batch // 3, {(0, 0): batch})  # every batch is run three times
        stored.after = batch // 3 - (batch % 3 < 2)
        fresh = set(stored.files.names()) - before
        assert len(fresh) == 2 and not fresh & seen
        seen |= fresh


def test_truncate_drops_later_batches_and_nothing_else(stored: Stored) -> None:
    contents = []
    for batch in range(3):
        stored.save(batch, {(0, batch): 7})
        contents.append(dict(stored.content))
    stored.store.truncate(1)
    assert content_of(stored.store.load(batch_max=9)) == contents[1]
    names = stored.files.names()
    stored.store.truncate(1)
    stored.store.truncate(5)
    assert stored.files.names() == names
    stored.store.truncate(-1)
    assert stored.store.load(batch_max=9).record is None


def test_a_backup_of_an_earlier_attempt_is_replaced(stored: Stored) -> None:
    stored.save(0, {(0, 0): 1})
    stored.save(1, {(0, 1): 2})
    stored.after, stored.content = 0, {(0, 0): 1}  # batch 1 was rolled back
    stored.save(1, {(0, 2): 3})
    found = stored.store.manifest()
    assert found is not None and [record.batch for record in found.records] == [0, 1]
    assert content_of(stored.store.load(batch_max=1)) == {(0, 0): 1, (0, 2): 3}
    assert content_of(stored.store.load(batch_max=0)) == {(0, 0): 1}


def test_two_processes_take_turns(stored: Stored) -> None:
    other = new_store(stored.files)
    for batch in range(60):
        store = (stored.store, other)[batch % 2]
        assert stored.save(batch, {(0, batch % 7): batch}, store=store).fresh is False
        if batch % 5 == 0:
            (other, stored.store)[batch % 2].failed(batch_max=batch, failures=batch)
    for store in (stored.store, other, new_store(stored.files)):
        assert content_of(store.load(batch_max=100)) == stored.content
        found = store.manifest()
        assert found is not None and found.failures == 55


def test_loading_changes_nothing(tmp_path: Path) -> None:
    stored = Stored(LocalFolder(tmp_path))
    for batch in range(5):
        stored.save(batch, {(0, batch): batch})
    before = listing(tmp_path)
    for batch_max in range(-1, 6):
        stored.store.load(batch_max=batch_max)
        stored.store.coming(batch=batch_max + 1, after=2, failures=0)
    assert listing(tmp_path) == before


def test_a_table_of_the_operators_own(stored: Stored) -> None:
    tables = [pa.table({"x": [batch] * 3, "y": ["a", None, "c"]}) for batch in range(4)]
    for batch, table in enumerate(tables):
        record = stored.store.save_table(
            table, stored.store.coming(batch=batch, after=batch - 1, failures=0), moment(batch)
        )
        assert record.kind == "custom"
    for batch_max, batch in [(9, 3), (3, 3), (2, 2)]:
        restored = stored.store.load(batch_max=batch_max)
        assert restored.table is not None and restored.table.equals(tables[batch])
        assert restored.record is not None and restored.record.batch == batch
    # Two are kept, so that the last batch can be run again.
    assert stored.store.load(batch_max=1).record is None


def test_chunks_after_tables_start_anew(stored: Stored) -> None:
    stored.store.save_table(pa.table({"x": [1]}), stored.store.coming(batch=0, after=-1, failures=0), moment(0))
    stored.after = 0
    assert stored.save(1, {(0, 0): 1}).kind == "whole"
    assert content_of(stored.store.load(batch_max=1)) == {(0, 0): 1}
    assert stored.store.load(batch_max=0).table is not None


def test_memory_compared_with_another_backup_than_the_newest_starts_anew(stored: Stored) -> None:
    stored.save(0, BIG)
    assert not stored.store.coming(batch=1, after=0, failures=0).whole
    for after in (-1, 5):
        coming = stored.store.coming(batch=1, after=after, failures=0)
        assert coming.whole and coming.fresh


def test_valid_counts_say_how_long_each_array_was(stored: Stored) -> None:
    stored.save(0, {(0, 0): 1, (0, 1): 1, (1, 0): 1})
    coming = stored.store.coming(batch=1, after=0, failures=0)
    save(stored.store, coming, 1, {(0, 1): 2}, {(0, 2): 0, (1, 0): 0})
    restored = stored.store.load(batch_max=1)
    assert restored.counts == (48, 16)
    assert [valid.tolist() for valid in restored.valid_counts] == [[32, 48], [16]]
    assert all(part.payload.dtype == np.uint8 for part in restored.chunks)
