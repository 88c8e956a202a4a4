"""A process killed at any step of a shard's life leaves a shard that can go on.

Every sequence is filmed (see ``crash_film``): a still is what a kill at that point leaves behind. Each is opened again,
and must have the content of the version it says it has, or, if it is torn, roll back to it. Kills at random moments,
of real processes, are left to ``test_kills``.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.state.crash_checks import check_cells, check_indexes
from tests.state.crash_film import Film, Still, crash_points, lay_out, lay_over, scratch
from tests.state.shards import Opened, as_keys, content_of, open_shard

from spillway.state import HashTable, KeySet, Sample, Vector, Window
from spillway.state.arrays import Cells
from spillway.state.conformance import metric_distance
from spillway.state.shard import NONE

SEED = 3
STATE = {
    "words": HashTable(key="string", metric="l1"),
    "counts": HashTable(metric="max"),
    "sums": Vector(40, metric="l1"),
    "seen": KeySet(key="string"),
    "recent": Window(3, 1, metric="max"),
    "sampled": Sample(rate=0.5),
}

Content = dict[str, Any]
Life = list[list[list[int]]]
"""The keys of each batch, apart by the window they belong to; between two windows the shard is cleared."""

PLAIN: Life = [[[0, 1, 2, 3, 4]], [[3, 4, 5, *range(20, 40)]], [[0, 5, 50]]]
GROWING: Life = [[[0, 1, 2]], [[1, 2, *range(100, 1000)]], [[3]]]
WINDOWS: Life = [[[0, 1, 2, 3]], [[1, 2, 9], [2, 10]], [[11], [3, 12], [4, 4, 13]], [[4, 14]], [[14, 15]]]


def add(opened: Opened, keys: list[int]) -> None:
    numbers = np.array(keys, np.int64)
    opened["words"].add(as_keys(STATE["words"], keys), numbers % 3 + 1)
    opened["counts"].add(numbers, 1)
    opened["sums"].add(numbers % 40, 0.5)
    opened["seen"].add(as_keys(STATE["seen"], keys))
    opened["recent"].push(numbers, numbers[:, None].astype(np.float64))
    opened["sampled"].add(numbers, numbers)


def content(opened: Opened) -> Content:
    state = opened.state
    groups = state["recent"].keys()
    plain = {name: content_of(state[name]) for name in ("words", "counts", "sums", "seen")}
    totals = dict(zip(groups.to_pylist(), state["recent"].totals(groups).tolist(), strict=True))
    rows = dict(zip(groups.to_pylist(), state["recent"].newest(groups)[0].tolist(), strict=True))
    keys, numbers = state["sampled"].items()
    sampled = dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))
    return plain | {"recent": totals, "rows": rows, "sampled": sampled}


def contents_of(life: Life) -> dict[int, Content]:
    """What the shard must contain after each batch, by plain Python."""
    contents, held = {NONE: naive([])}, list[int]()
    for batch, windows in enumerate(life):
        held = windows[-1] if len(windows) > 1 else held + windows[0]
        contents[batch] = naive(held)
    return contents


def naive(keys: list[int]) -> Content:
    words: dict[str, int] = {}
    counts: dict[int, int] = {}
    sums, rows = [0.0] * 40, dict[int, list[int]]()
    strings = dict(zip(keys, as_keys(STATE["words"], keys).to_pylist(), strict=True))
    for key in keys:
        words[strings[key]] = words.get(strings[key], 0) + key % 3 + 1
        counts[key] = counts.get(key, 0) + 1
        sums[key % 40] += 0.5
        rows[key] = [*rows.get(key, []), key][-3:]
    chosen = set(STATE["sampled"].chosen(np.array(list(counts), np.int64)).tolist())
    return {
        "words": words,
        "counts": counts,
        "sums": sums,
        "seen": set(words),
        "recent": counts,
        "rows": {key: [[float(row)] for row in ring] + [[0.0]] * (3 - len(ring)) for key, ring in rows.items()},
        "sampled": {key: count for i, (key, count) in enumerate(counts.items()) if i in chosen},
    }


class Subject:
    """A shard that lives a life, batch by batch."""

    def __init__(self, folder: Path, life: Life) -> None:
        self.folder = folder
        self.life = life
        self.contents = contents_of(life)
        self.opened = open_shard(folder, **STATE)

    def apply(self, *, backup: bool = False, commit: bool = True) -> None:
        """The next batch; one in which the shard is cleared is always backed up, and whole."""
        shard = self.opened.shard
        batch = shard.version + 1
        with shard.lock():
            self.opened.begin()
            for place, keys in enumerate(self.life[batch]):
                if place:
                    shard.clear()
                add(self.opened, keys)
            shard.settle(seq=batch, tuples=1)
            if backup or shard.cleared:
                shard.announce(batch, time_s=0)
                whole = [array.all_chunks() for array in shard.arrays]
                shard.stage(whole if shard.cleared else [array.changed_chunks() for array in shard.arrays])
            if commit:
                shard.commit()

    def rollback(self) -> None:
        with self.opened.shard.lock():
            self.opened.shard.rollback()

    def recover(self) -> None:
        """Lose everything, and come back from a backup of all there was."""
        shard = self.opened.shard
        with shard.lock():
            saved = [(array.all_chunks(), array.payload(array.all_chunks()), array.count) for array in shard.arrays]
            version = shard.version
            shard.reset()
            for array, (ids, payload, count) in zip(shard.arrays, saved, strict=True):
                array.load(ids, payload, count)
            shard.mend([np.full(len(ids), count, np.int64) for ids, _, count in saved])
            shard.adopt()
            shard.recovered(version=version, backup_version=version, failures=1, time_s=0)

    # -- after a kill ---------------------------------------------------------------------------------------------

    def check(self, still: Still, start: Still) -> tuple[bool, int]:
        """Go on as the next attempt does; returns whether the shard was torn, and the version it was brought to."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        lay_out(still.files, self.folder)
        outcome = self._go_on(open_shard(self.folder, **STATE), still)
        if not still.torn and start.files:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
            lay_out(start.files, self.folder)
            mapped = open_shard(self.folder, **STATE)
            lay_over(self.folder, start.files, still.files)
            assert self._go_on(mapped, still) == outcome
        return outcome

    def _go_on(self, opened: Opened, still: Still) -> tuple[bool, int]:
        shard = opened.shard
        with shard.lock():
            torn = shard.torn
            if torn:
                shard.rollback()
            elif shard.can_roll_back:
                self._check_rollback(still)
            version = shard.version
            if shard.staged == version != NONE:
                shard.promote()
            self._check_content(opened)
        with opened.batch():
            opened["counts"].add(np.arange(1000), 1)  # so many that the index grows
            add(opened, list(range(30)))
        with opened.shard.lock():
            opened.shard.rollback()
            self._check_content(opened)
        with opened.batch():
            pass
        # A file that was to replace another is replaced itself when the batch is run again; here it is not.
        left = [path.name for path in self.folder.iterdir() if path.name.endswith(".aside")]
        assert not left, f"left over: {left}"
        return torn, version

    def _check_rollback(self, still: Still) -> None:
        """A batch that was committed may be run again."""
        folder = self.folder.with_name("again")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        lay_out(still.files, folder)
        again = open_shard(folder, **STATE)
        again.shard.rollback()
        assert content(again) == self.contents[again.shard.version]

    def _check_content(self, opened: Opened) -> None:
        shard, found = opened.shard, content(opened)
        assert found == self.contents[shard.version]
        saved = self.contents[shard.backup_version]
        for name, primitive in opened.state.items():
            assert primitive.divergence() == metric_distance(primitive.metric, found[name], saved[name]), name
        check_indexes(shard)
        for array in shard.arrays:
            if isinstance(array, Cells):
                check_cells(array, staged=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


def killed(subject: Subject, *acts: Callable[[], object]) -> set[tuple[bool, int]]:
    """Kill the subject everywhere in what it does; returns all that is found then: see ``Subject.check``."""
    with Film(subject.folder) as film:
        for film.batch, act in enumerate(acts):
            act()
    stills = film.stills
    found, broken = set(), list[str]()
    for still in crash_points(stills, seed=SEED, depth=2):
        try:
            found.add(subject.check(still, stills[0]))
        except Exception as error:
            broken.append(f"{still}: {type(error).__name__}: {error}")
    assert not broken, f"{len(broken)} kills left something wrong:\n" + "\n".join(broken[:10])
    return found


def subject_at(folder: Path, life: Life, *, batches: int, backups: Iterable[int] = ()) -> Subject:
    subject = Subject(folder / "shard", life)
    for batch in range(batches):
        subject.apply(backup=batch in backups)
    return subject


def test_a_first_batch(folder: Path) -> None:
    subject = subject_at(folder, PLAIN, batches=0)
    assert killed(subject, subject.apply) == {(False, NONE), (True, NONE), (False, 0)}


def test_a_batch(folder: Path) -> None:
    subject = subject_at(folder, PLAIN, batches=1)
    assert killed(subject, subject.apply) == {(False, 0), (True, 0), (False, 1)}


def test_a_batch_that_grows_everything(folder: Path) -> None:
    subject = subject_at(folder, GROWING, batches=1)
    assert killed(subject, subject.apply) == {(False, 0), (True, 0), (False, 1)}


def test_a_batch_with_a_backup_and_the_one_that_promotes_it(folder: Path) -> None:
    subject = subject_at(folder, PLAIN, batches=1)
    found = killed(subject, lambda: subject.apply(backup=True), subject.apply)
    assert found == {(False, 0), (True, 0), (False, 1), (True, 1), (False, 2)}


@pytest.mark.parametrize("batch", [1, 2], ids=["one ends", "two end"])
def test_a_batch_in_which_windows_end(batch: int, folder: Path) -> None:
    subject = subject_at(folder, WINDOWS, batches=batch)
    assert killed(subject, subject.apply) == {(False, batch - 1), (True, batch - 1), (False, batch)}


def test_the_batch_after_windows_have_ended(folder: Path) -> None:
    """It promotes a backup in which positions mean something else than in the one before."""
    subject = subject_at(folder, WINDOWS, batches=3)
    assert killed(subject, subject.apply) == {(False, 2), (True, 2), (False, 3)}


@pytest.mark.parametrize(("life", "batch"), [(PLAIN, 1), (GROWING, 1), (WINDOWS, 1), (WINDOWS, 2), (WINDOWS, 3)])
@pytest.mark.parametrize("committed", [False, True], ids=["torn", "committed"])
def test_a_rollback(life: Life, batch: int, committed: bool, folder: Path) -> None:
    subject = subject_at(folder, life, batches=batch)
    subject.apply(backup=True, commit=committed)
    assert killed(subject, subject.rollback) == {(True, batch - 1), (False, batch - 1)}


def test_a_recovery(folder: Path) -> None:
    subject = subject_at(folder, PLAIN, batches=2)
    # Until it is complete the shard counts as empty, and only then as what the backup holds.
    assert killed(subject, subject.recover) == {(False, 1), (False, NONE)}


def test_the_making_of_a_shard(folder: Path) -> None:
    subject = Subject(folder / "shard", PLAIN)
    shutil.rmtree(subject.folder)
    subject.folder.mkdir()
    assert killed(subject, lambda: open_shard(subject.folder, **STATE)) == {(False, NONE)}
