"""A process killed between any two writes to the header, or to the folder, leaves a shard that can go on.

The folder is copied before and after every single word that is written to the header and every file that is made
larger or replaced: each copy is what a kill at that point leaves behind. All of them are opened again, and each must
be the content of the version it says it has, or, if it is torn, roll back to it. Kills inside a kernel are left to
``test_kills``; they publish nothing before they return.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.state.shards import Opened, as_keys, open_shard

from spillway.state import HashTable, Vector
from spillway.state.conformance import metric_distance
from spillway.state.memory import Region
from spillway.state.shard import NONE

STATE = {
    "words": HashTable(key="string", metric="l1"),
    "counts": HashTable(metric="max"),
    "sums": Vector(40, metric="l1"),
}
BATCHES = 3

Files = dict[str, bytes]


class Watched(npt.NDArray[np.int64]):
    """Header words that tell of every write, one word at a time."""

    tell: Callable[[], None] = staticmethod(lambda: None)

    def __array_finalize__(self, parent: Any) -> None:
        self.tell = getattr(parent, "tell", Watched.tell)

    def __setitem__(self, place: Any, value: Any) -> None:
        places = np.atleast_1d(np.arange(len(self))[place])
        for one, number in zip(places, np.broadcast_to(value, places.shape), strict=True):
            self.tell()
            super().__setitem__(one, number)
            self.tell()


def keys_of(batch: int) -> npt.NDArray[np.int64]:
    """Old keys and new ones; batch 2 has so many that the index and every array have to grow."""
    return np.concatenate([np.arange(5), np.arange(900) + 1000 if batch == 2 else np.arange(20) + 100 * batch])


def content_after(batch: int) -> dict[str, Any]:
    """What the shard must contain after batches 0 to ``batch``."""
    counts: dict[int, int] = {}
    sums = [0.0] * 40
    for earlier in range(batch + 1):
        for key in keys_of(earlier).tolist():
            counts[key] = counts.get(key, 0) + 1
        for cell in range(0, 40, 3 + earlier):
            sums[cell] += 0.5
    words = dict(zip(as_keys(STATE["words"], list(counts)).to_pylist(), counts.values(), strict=True))
    return {"words": words, "counts": counts, "sums": sums}


CONTENTS = {batch: content_after(batch) for batch in range(-1, BATCHES)}


@dataclass
class Filmed:
    """A shard and a copy of its folder from before and after everything it wrote."""

    opened: Opened
    copies: list[Files]
    rolling: bool = False

    def apply(self, batch: int, *, backup: bool = False) -> None:
        shard = self.opened.shard
        assert shard.version == batch - 1
        with self.opened.batch(backup=backup):
            self.opened["words"].add(as_keys(STATE["words"], keys_of(batch)), 1)
            self.opened["counts"].add(keys_of(batch), 1)
            self.opened["sums"].add(np.arange(0, 40, 3 + batch), 0.5)

    def begin_and_stop(self, batch: int) -> None:
        """All of a batch but its commit."""
        self.opened.begin()
        self.opened["words"].add(as_keys(STATE["words"], keys_of(batch)), 1)
        self.opened["sums"].add(np.arange(0, 40, 3 + batch), 0.5)
        self.opened.shard.settle(seq=0, tuples=1)
        self.opened.back_up()

    def recover(self) -> None:
        """Lose everything, and come back with the content of batch 1, from a backup of everything at batch 1."""
        shard = self.opened.shard
        saved = [(array.all_chunks(), array.payload(array.all_chunks()), array.count) for array in shard.arrays]
        version = shard.version
        shard.reset()
        for array, (ids, payload, count) in zip(shard.arrays, saved, strict=True):
            array.load(ids, payload, count)
        shard.mend([np.full(len(ids), count, np.int64) for ids, _, count in saved])
        shard.adopt()
        shard.recovered(version=version, backup_version=version, failures=1, time_s=0)


@pytest.fixture
def film(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Filmed:
    opened = open_shard(tmp_path / "shard")
    filmed = Filmed(opened, [])

    def copy_folder() -> None:
        if filmed.rolling:
            files = {path.name: path.read_bytes() for path in sorted((tmp_path / "shard").iterdir())}
            if [files] != filmed.copies[-1:]:
                filmed.copies.append(files)

    def watched(method: str) -> None:
        original = getattr(Region, method)

        def act(self: Region, *arguments: Any) -> Any:
            copy_folder()
            result = original(self, *arguments)
            copy_folder()
            return result

        monkeypatch.setattr(Region, method, act)

    words = opened.shard._header.array.view(Watched)
    words.tell = copy_folder
    opened.shard._header.array = words
    opened.state.update({name: primitive.bind(opened.shard, name) for name, primitive in STATE.items()})
    for method in ("reserve", "replace", "adopt"):
        watched(method)
    return filmed


def check_copy(files: Files, folder: Path) -> tuple[bool, int]:
    """Open a copy as the next attempt does; returns whether it was torn, and the version it was brought to."""
    opened = open_copy(files, folder)
    shard = opened.shard
    with shard.lock():
        torn = shard.torn
        if torn:
            shard.rollback()
        elif shard.can_roll_back:
            check_rollback(open_copy(files, folder / "again"))
        version = shard.version
        if shard.staged == version != NONE:
            shard.promote()
        check_content(opened)
    with opened.batch():
        opened["counts"].add(np.arange(2000), 1)
        opened["sums"].add(np.arange(40), 1)
    assert opened["counts"].get(np.arange(5)).tolist() == [CONTENTS[version]["counts"].get(i, 0) + 1 for i in range(5)]
    opened.shard.rollback()
    check_content(opened)
    return torn, version


def open_copy(files: Files, folder: Path) -> Opened:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return open_shard(folder, **STATE)


def check_rollback(opened: Opened) -> None:
    """A batch that was committed may be run again."""
    opened.shard.rollback()
    assert opened.contents() == CONTENTS[opened.shard.version]


def check_content(opened: Opened) -> None:
    content = opened.contents()
    assert content == CONTENTS[opened.shard.version]
    saved = CONTENTS[opened.shard.backup_version]
    for name, primitive in opened.state.items():
        assert primitive.divergence() == metric_distance(primitive.metric, content[name], saved[name]), name


def outcomes(filmed: Filmed) -> set[tuple[bool, int]]:
    """Check what a kill at every point leaves; returns all that is found there."""
    filmed.rolling = False
    found = set()
    for point, files in enumerate(filmed.copies):
        try:
            found.add(check_copy(files, filmed.opened.shard.folder.parent / "copy"))
        except Exception as error:
            error.add_note(f"killed at point {point} of {len(filmed.copies)}")
            raise
    return found


def test_a_batch(film: Filmed) -> None:
    film.apply(0)
    film.rolling = True
    film.apply(1)
    assert outcomes(film) == {(False, 0), (True, 0), (False, 1)}


def test_a_first_batch(film: Filmed) -> None:
    film.rolling = True
    film.apply(0)
    assert outcomes(film) == {(False, NONE), (True, NONE), (False, 0)}


def test_a_batch_that_grows_everything(film: Filmed) -> None:
    film.apply(0)
    film.apply(1)
    film.rolling = True
    film.apply(2)
    assert len(film.copies) > 100
    assert outcomes(film) == {(False, 1), (True, 1), (False, 2)}


def test_a_batch_with_a_backup_and_the_one_that_promotes_it(film: Filmed) -> None:
    film.apply(0)
    film.rolling = True
    film.apply(1, backup=True)
    film.apply(2)
    assert outcomes(film) == {(False, 0), (True, 0), (False, 1), (True, 1), (False, 2)}


def test_the_rollback_of_a_torn_batch(film: Filmed) -> None:
    film.apply(0)
    film.apply(1)
    film.begin_and_stop(2)
    film.rolling = True
    film.opened.shard.rollback()
    assert outcomes(film) == {(True, 1), (False, 1)}


def test_the_rollback_of_a_committed_batch(film: Filmed) -> None:
    film.apply(0)
    film.apply(1)
    film.apply(2, backup=True)
    film.rolling = True
    film.opened.shard.rollback()
    assert outcomes(film) == {(False, 2), (True, 1), (False, 1)}


def test_a_recovery(film: Filmed) -> None:
    film.apply(0)
    film.apply(1)
    film.rolling = True
    film.recover()
    # Until it is complete the shard counts as empty, and only then as what the backup holds.
    assert outcomes(film) == {(False, 1), (False, NONE)}


def test_the_making_of_a_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of the header are written in order, so a header cut short is one that ends in zeros, magic first."""
    opened = open_shard(tmp_path / "whole", **STATE)
    words = np.array(opened.shard._header.array)
    for cut in range(1, 16):
        shutil.copytree(tmp_path / "whole", tmp_path / str(cut))
        partly = words.copy()
        partly[cut:] = 0
        partly[0] = 0
        partly.tofile(tmp_path / str(cut) / "header")
        assert open_shard(tmp_path / str(cut), **STATE).contents() == CONTENTS[NONE]
