"""The receiver's folder: what was written comes back, and what is damaged costs no more than itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.receiver.world import SCHEMA, MemoryFolder, items_of

from spillway.errors import BackupError, ForeignBackupError, NewerFormatError, SetupError
from spillway.receiver.actions import Record, Save
from spillway.receiver.bounds import Bounds
from spillway.receiver.inbox import Inbox, Recovered
from spillway.receiver.ledger import Ledger, open_ledger
from spillway.receiver.wire.schema import ItemSchema

HELD_MAX = 1000


class Kept:
    """An inbox whose items are all made durable, in a folder."""

    def __init__(self) -> None:
        self.files = MemoryFolder()
        self.ledger = Ledger(self.files)
        self.inbox = Inbox(self.ledger.recover(SCHEMA, items_held_max=HELD_MAX), Bounds(items=0, unacked=1))
        self.ledger.write_record(self.inbox.record())

    def take(self, ids: list[int], *, first: int) -> None:
        actions = self.inbox.take(items_of(ids), sender="a", first=first, gaps=True, ticket=lambda action: None)
        (save,) = [action for action in actions if isinstance(action, Save)]
        self.ledger.write_segment(save)
        self.inbox.saved()

    def plan(self, upto: int) -> None:
        (record,) = self.inbox.plan(after=0, items_max=upto, ticket=lambda action: None)
        assert isinstance(record, Record)
        self.ledger.write_record(record.record)
        self.inbox.recorded(record)

    def again(self) -> Recovered:
        return Ledger(self.files).recover(SCHEMA, items_held_max=HELD_MAX)


def ids_of(recovered: Recovered) -> list[int]:
    return [id for chunk in recovered.chunks for id in chunk.rows["id"].to_pylist()]


def damage(files: MemoryFolder, name: str) -> None:
    data = bytearray(files.content[name])
    data[len(data) // 2] ^= 1
    files.content[name] = bytes(data)


def segments(files: MemoryFolder) -> list[str]:
    return [name for name in files.names() if name.startswith("items-")]


def records(files: MemoryFolder) -> list[str]:
    return [name for name in files.names() if name.startswith("ledger-")]


def test_what_was_saved_comes_back() -> None:
    kept = Kept()
    kept.take([1, 2, 3], first=1)
    kept.take([4], first=4)
    kept.plan(2)
    again = kept.again()
    assert ids_of(again) == [1, 2, 3, 4]
    # The first three are one chunk: whatever of it is planned, all of its numbers count as known.
    assert (again.record.planned, again.record.covered, again.record.senders["a"].number) == (2, 3, 3)
    assert [chunk.numbers for chunk in again.chunks] == [{"a": 3}, {"a": 4}]
    assert again.record.failures == 1, "nobody said it was stopped on purpose"
    assert len(records(kept.files)) == 2


def test_a_clean_stop_is_no_failure() -> None:
    kept = Kept()
    kept.ledger.write_record(kept.inbox.record(clean=True))
    again = kept.again()
    assert again.record.failures == 0
    assert not Inbox(again, Bounds(items=0, unacked=1)).record().clean, "the mark is good for one start"


def test_committed_segments_are_removed() -> None:
    kept = Kept()
    kept.take([1, 2], first=1)
    kept.take([3], first=3)
    kept.ledger.trim(2)
    assert ids_of(kept.again()) == [3]
    kept.ledger.trim(3)
    assert not segments(kept.files)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_segments_gathered_into_one_count_once_wherever_removing_them_stopped(left: int) -> None:
    kept = Kept()
    for number in range(1, 4):
        kept.take([number], first=number)
    kept.inbox.plan(after=0, items_max=1, ticket=lambda action: None)
    before = dict(list(kept.files.content.items()))
    rows = tuple(chunk.rows for chunk in kept.again().chunks)
    kept.ledger.write_segment(Save(first=2, last=3, rows=rows[1:], numbers={"a": 3}, replaces_all=True))
    gone = [name for name in before if name.startswith("items-")]
    kept.files.content |= {name: before[name] for name in gone[:left]}
    assert ids_of(kept.again()) == ([2, 3] if left == 0 else [1, 2, 3])


def test_a_damaged_segment_costs_its_items_and_is_named() -> None:
    kept = Kept()
    for number in range(1, 4):
        kept.take([number], first=number)
    damage(kept.files, segments(kept.files)[1])
    again = kept.again()
    assert ids_of(again) == [1, 3]
    assert again.damage == ("Items 2 to 2 in memory are damaged and lost.",)
    inbox = Inbox(again, Bounds(items=0, unacked=1))
    assert (inbox.in_doubt, inbox.taken) == (1, 3)


def test_a_damaged_record_leaves_no_number_to_be_given_twice() -> None:
    kept = Kept()
    kept.take([1, 2, 3], first=1)
    kept.plan(3)
    damage(kept.files, records(kept.files)[-1])
    again = kept.again()
    assert (again.record.planned, again.record.failures) == (0, 1), "the plan of 3 is forgotten"
    inbox = Inbox(again, Bounds(items=0, unacked=1))
    assert inbox.taken >= inbox.planned >= 3, "its numbers must not be used again"
    assert inbox.in_doubt == 0
    assert "damaged" in again.damage[0]
    for name in records(kept.files):
        kept.files.content[name] = b"{}"
    with pytest.raises(BackupError, match="No record"):
        kept.again()


def test_a_folder_of_other_items_is_refused() -> None:
    kept = Kept()
    with pytest.raises(ForeignBackupError, match="name:string"):
        Ledger(kept.files).recover(ItemSchema.parse("name:string"), items_held_max=1)


def test_a_newer_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    monkeypatch.setattr("spillway.receiver.ledger.FORMAT", 2)
    kept.ledger.write_record(kept.inbox.record())
    monkeypatch.undo()
    with pytest.raises(NewerFormatError, match="format 2"):
        kept.again()


def test_a_record_is_written_whole() -> None:
    kept = Kept()
    kept.take([1], first=1)
    wanted = replace(kept.inbox.record(), unsure=((3, 4), (7, 9)), lost=5)
    kept.ledger.write_record(wanted)
    again = kept.again().record
    assert again == replace(wanted, failures=1)
    assert json.loads(kept.files.read(records(kept.files)[-1]))["format"] == 1


def test_a_folder_has_one_receiver(tmp_path: Path) -> None:
    wanted = pytest.raises(SetupError, match="Another receiver")
    with open_ledger(tmp_path / "new" / "folder"), wanted, open_ledger(tmp_path / "new" / "folder"):
        pass
    with open_ledger(tmp_path / "new" / "folder"):
        pass


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot use"), open_ledger(tmp_path / "file"):
        pass
