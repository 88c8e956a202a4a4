"""A film shows what processes leave that really are killed, and sees every step that changes something."""

from pathlib import Path

import numpy as np
import pytest
from tests.state import processes
from tests.state.crash_film import File, Film, Still, files_below, lay_out, lay_over, scratch, torn_between
from tests.state.shards import open_shard
from tests.state.test_kill_points import STATE, WINDOWS, Subject

from spillway.seeds import generator

SEED = 9
KILLS = 25


@pytest.mark.kill
def test_a_still_is_what_a_process_leaves_that_is_killed_there() -> None:
    with scratch() as folder:
        # Steps are counted, and what is done once in a process, such as compiling, takes some.
        rehearsed = Subject(folder / "rehearsed", WINDOWS)
        for _ in range(3):
            rehearsed.apply()
        subject = Subject(folder / "shard", WINDOWS)
        subject.apply()
        subject.apply()
        with Film(subject.folder) as film:
            subject.apply()
        chosen = generator(SEED, "stills").choice(np.arange(1, len(film.stills)), KILLS, replace=False)
        for number, still in enumerate(film.stills[i] for i in sorted(chosen)):
            left = folder / str(number)
            left.mkdir()
            lay_out(film.stills[0].files, left)
            child = processes.start(lambda say, hear, still=still, left=left: die_in_a_batch(left, still))
            assert child.wait() == -9, f"the process came to its end, it should have been killed {still}"
            assert data_of(files_below(left)) == data_of(still.files), str(still)


def die_in_a_batch(folder: Path, still: Still) -> None:
    subject = Subject(folder, WINDOWS)
    with Film(folder, die_at=still.step):
        subject.apply()


def data_of(files: dict[str, File]) -> dict[str, bytes]:
    return {name: file.data for name, file in files.items()}


def test_who_has_a_file_mapped_sees_what_became_of_it(tmp_path: Path) -> None:
    """A file that was changed, one that was renamed, one that another took the place of, one that is new."""
    before = {name: File(inode, name.encode()) for inode, name in enumerate(["changed", "moved", "old", "removed"])}
    lay_out(before, tmp_path)
    mapped = {name: (tmp_path / name).open("rb") for name in before}
    after = {
        "changed": File(0, b"changed in place"),
        "moved.aside": before["moved"],
        "moved": File(10, b"in its place"),
        "old": File(11, b"new"),
        "below/made": File(12, b"made"),
    }
    lay_over(tmp_path, before, after)
    assert data_of(files_below(tmp_path)) == data_of(after)
    assert {name: stream.read() for name, stream in mapped.items()} == {
        "changed": b"changed in place",
        "moved": b"moved",
        "old": b"old",
        "removed": b"removed",
    }


def test_a_line_that_writes_several_words_may_be_cut_short_anywhere() -> None:
    words = np.arange(8)
    before = Still(after=("a",), before="b", files={"array": File(1, words.tobytes())}, batch=0, step=1)
    after = Still(after=("b",), before="c", files={"array": File(1, (words + 10).tobytes())}, batch=0, step=2)
    torn = list(torn_between(before, after, generator(SEED)))
    found = [np.frombuffer(still.files["array"].data, np.int64) for still in torn]
    assert [numbers.tolist() for numbers in found[:2]] == [[10, 11, 12, 13, 4, 5, 6, 7], [0, 1, 2, 3, 14, 15, 16, 17]]
    assert all(still.torn for still in torn) and set(found[2] - words) == {0, 10}


def test_a_film_sees_every_function_that_changes_a_shard() -> None:
    """If the tracer lost sight of the code, all tests that rest on it would pass for nothing."""
    with scratch() as folder:
        subject = Subject(folder / "shard", WINDOWS)
        with Film(subject.folder) as film:
            for _ in range(3):
                subject.apply(backup=True)
            subject.rollback()
            subject.recover()
            open_shard(folder / "shard", **STATE)
    seen = {place.rpartition(" ")[2] for still in film.stills for place in still.after}
    life = {"begin", "clear", "settle", "commit", "rollback", "announce", "stage", "promote"}
    recovery = {"reset", "load", "mend", "adopt", "recovered"}
    files = {"reserve", "replace", "set_aside", "take_back", "forget_aside"}
    assert life | recovery | files <= seen, sorted((life | recovery | files) - seen)
