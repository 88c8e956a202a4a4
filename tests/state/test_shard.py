"""The protocol of a shard, move by move: what it contains after each, and which moves are refused."""

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.shards import FINGERPRINT, Opened, open_shard

from spillway.errors import GraphError, StateError
from spillway.state import HashTable, Number, Shard, Vector
from spillway.state.header import ARRAYS_MAX
from spillway.state.shard import NO_UNDO, NONE

STATE = {"table": HashTable(), "total": Number(dtype="int64")}


class Story:
    """A shard driven by the names of moves; batch N adds N to a key of its own and to the total."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened = self.reopened()

    def reopened(self) -> Opened:
        return open_shard(self.folder, **STATE)

    def tell(self, *moves: str) -> "Story":
        for move in moves:
            getattr(self, move.replace(" ", "_"))()
        return self

    def begin(self) -> None:
        self.opened.begin()

    def apply(self) -> None:
        batch = self.opened.shard.version + 1
        self.opened["table"].add(np.array([batch]), batch)
        self.opened["total"].write(self.opened["total"].read() + batch)

    def settle(self) -> None:
        self.opened.shard.settle(seq=10 * (self.opened.shard.version + 1), tuples=5)

    def back_up(self) -> None:
        self.opened.back_up()

    def commit(self) -> None:
        self.opened.shard.commit()

    def batch(self) -> None:
        self.tell("begin", "apply", "settle", "commit")

    def batch_with_backup(self) -> None:
        self.tell("begin", "apply", "settle", "back up", "commit")

    def roll_back(self) -> None:
        self.opened.shard.rollback()

    def reopen(self) -> None:
        self.opened = self.reopened()

    def promote(self) -> None:
        self.opened.shard.promote()

    def unstage(self) -> None:
        self.opened.shard.unstage()

    def reset(self) -> None:
        self.opened.shard.reset()

    def recovered(self) -> None:
        self.opened.shard.recovered(version=NONE, backup_version=NONE, failures=1, time_s=0)


def applied(*batches: int) -> dict[str, Any]:
    return {"table": {batch: batch for batch in batches}, "total": sum(batches)}


@pytest.mark.parametrize(
    ("moves", "version", "content", "torn", "can_roll_back"),
    [
        ([], NONE, applied(), False, False),
        (["begin"], NONE, applied(), True, True),
        (["begin", "apply"], NONE, applied(0), True, True),
        (["batch"], 0, applied(0), False, True),
        (["batch", "reopen"], 0, applied(0), False, True),
        (["batch", "roll back"], NONE, applied(), False, False),
        (["batch", "reopen", "roll back"], NONE, applied(), False, False),
        (["batch", "batch", "roll back"], 0, applied(0), False, False),
        (["batch", "batch", "roll back", "batch"], 1, applied(0, 1), False, True),
        (["batch", "begin", "apply", "roll back"], 0, applied(0), False, False),
        (["batch", "begin", "apply", "reopen"], 0, applied(0, 1), True, True),
        (["batch", "begin", "apply", "reopen", "roll back"], 0, applied(0), False, False),
        (["batch", "begin", "apply", "reopen", "roll back", "batch"], 1, applied(0, 1), False, True),
        (["batch", "begin", "apply", "settle", "reopen", "roll back"], 0, applied(0), False, False),
        (["batch", "begin", "apply", "settle", "back up", "reopen", "roll back"], 0, applied(0), False, False),
        (["batch with backup", "promote"], 0, applied(0), False, False),
        (["batch with backup", "roll back"], NONE, applied(), False, False),
        (["batch", "batch", "reset"], NONE, applied(), False, False),
        (["batch", "reset", "recovered", "batch"], 0, applied(0), False, True),
    ],
)
def test_what_a_shard_contains(
    moves: list[str], version: int, content: dict[str, Any], torn: bool, can_roll_back: bool, tmp_path: Path
) -> None:
    opened = Story(tmp_path).tell(*moves).opened
    assert opened.contents() == content
    assert (opened.shard.version, opened.shard.torn, opened.shard.can_roll_back) == (version, torn, can_roll_back)


@pytest.mark.parametrize(
    ("moves", "staged", "backup_version", "divergence", "tuples"),
    [
        (["batch"], NONE, NONE, 0, 5),
        (["batch", "batch"], NONE, NONE, 2, 10),
        (["batch", "batch with backup"], 1, NONE, 2, 10),
        (["batch", "batch with backup", "promote"], NONE, 1, 0, 0),
        (["batch", "batch with backup", "roll back"], NONE, NONE, 0, 5),
        (["batch", "batch with backup", "reopen", "roll back"], NONE, NONE, 0, 5),
        (["batch", "batch with backup", "unstage"], NONE, NONE, 2, 10),
        (["batch", "batch with backup", "batch"], NONE, 1, 4, 5),
        (["batch", "batch with backup", "batch", "roll back"], NONE, 1, 0, 0),
        (["batch", "batch with backup", "batch with backup", "roll back"], NONE, 1, 0, 0),
    ],
)
def test_what_a_backup_counts_for(
    moves: list[str], staged: int, backup_version: int, divergence: float, tuples: int, tmp_path: Path
) -> None:
    shard = Story(tmp_path).tell(*moves).opened.shard
    assert (shard.staged, shard.backup_version) == (staged, backup_version)
    assert (shard.divergence(), shard.tuples_since_backup) == (divergence, tuples)


@pytest.mark.parametrize(
    ("moves", "seq"),
    [
        ([], None),
        (["batch"], 0),
        (["batch", "batch"], 10),
        (["batch", "batch", "roll back"], 0),
        (["batch", "reset"], None),
    ],
)
def test_seq_goes_with_the_content(moves: list[str], seq: int | None, tmp_path: Path) -> None:
    assert Story(tmp_path).tell(*moves).opened.shard.seq == seq


@pytest.mark.parametrize(
    ("moves", "refused"),
    [
        ([], "roll back"),
        ([], "commit"),
        (["begin"], "begin"),
        (["batch", "roll back"], "roll back"),
        (["batch", "batch", "roll back"], "roll back"),
        (["batch"], "commit"),
        (["batch", "reset"], "roll back"),
        (["batch", "reset"], "begin"),
        # The backup of batch 0 counts, so going back behind it would leave divergence measured from the future.
        (["batch with backup", "promote"], "roll back"),
    ],
)
def test_a_move_out_of_turn_is_a_mistake_and_changes_nothing(moves: list[str], refused: str, tmp_path: Path) -> None:
    story = Story(tmp_path).tell(*moves)
    before = files(tmp_path)
    with pytest.raises(AssertionError):
        story.tell(refused)
    assert files(tmp_path) == before


def test_a_batch_may_not_be_older_than_the_content(tmp_path: Path) -> None:
    story = Story(tmp_path).tell("batch", "batch")
    for batch in (0, 1):
        with pytest.raises(AssertionError):
            story.opened.shard.begin(batch)


def test_a_rollback_may_be_repeated(tmp_path: Path) -> None:
    """Each snapshot is of a rollback cut short after another array."""
    story = Story(tmp_path / "shard").tell("batch", "begin", "apply", "settle")
    arrays = story.opened.shard.arrays
    for number, array in enumerate(arrays):
        array.rollback()
        shutil.copytree(tmp_path / "shard", tmp_path / f"cut {number}")
    for number in range(len(arrays)):
        cut = open_shard(tmp_path / f"cut {number}", **STATE)
        cut.shard.rollback()
        assert cut.contents() == applied(0)
        assert cut.shard.divergence() == 0


def test_an_untracked_shard_rolls_back_and_measures_nothing(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, tracked=False, **STATE)
    for batch in range(2):
        with opened.batch():
            opened["table"].add(np.array([batch]), 1)
    assert opened.shard.divergence() == 0
    opened.shard.rollback()
    assert opened.contents()["table"] == {0: 1}


def test_recovery_words(tmp_path: Path) -> None:
    story = Story(tmp_path).tell("batch", "batch")
    shard = story.opened.shard
    shard.reset()
    shard.adopt()
    assert shard.version == NONE
    story.opened["total"].write(3)  # as a hook that compensates for the loss does
    shard.recovered(version=6, backup_version=4, failures=2, time_s=1.5)
    assert (shard.version, shard.backup_version, shard.failures, shard.seq) == (6, 4, 2, None)
    assert (shard.backup_time_s, shard.can_roll_back) == (1.5, False)
    assert shard.divergence() == 3, "what was added after the recovery is not in the backup"
    story.tell("batch", "roll back")
    assert (story.opened.contents(), shard.version, shard.seq) == ({"table": {}, "total": 3}, 6, None)


# -- refusals -----------------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def overwrite_word(word: int, value: int) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        words = np.fromfile(folder / "header", np.int64)
        words[word] = value
        words.tofile(folder / "header")

    return spoil


def replace_header(content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / "header").write_bytes(content) and None


# Six words for each of 256 arrays, and seven.
FORMAT_3 = np.array([0x5350_494C_4C57_4159, 3] + [0] * (30 + 256 * 6), np.int64).tobytes()
FORMAT_5 = np.array([0x5350_494C_4C57_4159, 5] + [0] * (30 + 256 * 7), np.int64).tobytes()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (overwrite_word(2, FINGERPRINT + 1), "holds the state of another graph"),
        (overwrite_word(1, 9), r"not written by this version of Spillway \(format 9, wanted 5\)"),
        (replace_header(FORMAT_3), r"not written by this version of Spillway \(format 3, wanted 5\)"),
        (replace_header(FORMAT_5[:-8]), "not the header of a shard"),
        (overwrite_word(0, 5), "not the header of a shard"),
        (replace_header(b"a note"), "not the header of a shard"),
        (replace_header(b"a note of more than one word, from someone else"), "not the header of a shard"),
    ],
    ids=[
        "other fingerprint",
        "other format",
        "a shorter format",
        "one word too few",
        "no magic",
        "a short file",
        "a longer file",
    ],
)
def test_foreign_memory_is_refused_untouched(spoil: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    Story(tmp_path).tell("batch")
    spoil(tmp_path)
    before = files(tmp_path)
    with pytest.raises(StateError, match=said):
        open_shard(tmp_path, **STATE)
    assert files(tmp_path) == before


def test_a_shard_whose_folder_was_made_anew_is_refused(tmp_path: Path) -> None:
    mine = Story(tmp_path / "shard").tell("batch")
    shutil.rmtree(tmp_path / "shard")
    with pytest.raises(StateError, match="removed or made anew"), mine.opened.shard.lock():
        pass
    theirs = Story(tmp_path / "shard").tell("batch")
    before = files(tmp_path / "shard")
    assert not mine.opened.shard.current() and theirs.opened.shard.current()
    with pytest.raises(StateError, match="removed or made anew"), mine.opened.shard.lock():
        pass
    assert files(tmp_path / "shard") == before


def test_a_name_is_bound_once(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, **STATE)
    with pytest.raises(AssertionError, match="twice"):
        Number().bind(opened.shard, "total")


def test_the_number_of_arrays_is_limited(tmp_path: Path) -> None:
    shard = Shard(tmp_path, fingerprint=0, tracked=False)
    for number in range(ARRAYS_MAX):
        shard.appended(f"a{number}", dtype=np.int64)
    with pytest.raises(GraphError, match="Split the operator"):
        shard.appended("one more", dtype=np.int64)


def test_binding_leaves_the_declaration_alone(tmp_path: Path) -> None:
    declaration = Vector(10)
    described = copy.deepcopy(vars(declaration))
    declaration.bind(Shard(tmp_path, fingerprint=0, tracked=True), "vector")
    assert vars(declaration) == described


def test_no_undo_is_not_a_version() -> None:
    assert NO_UNDO not in (NONE, *range(100))
