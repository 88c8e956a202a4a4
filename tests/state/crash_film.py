"""What a process leaves behind if it is killed: at every step, and in the middle of one.

A *film* runs Spillway's code under a tracer and copies the folder of a run whenever a line has changed something in it.
Shards are memory-mapped files and backups are files, so such a copy is what a kill between two lines leaves: nothing
that would come after it has run, no ``finally`` and no ``except``, and only locks, which the kernel releases, are
missing. ``test_crash_film`` holds this against processes that really end.

One line may write many words: a slice that is assigned, a kernel. A kill can come in its middle, and a compiler may
have changed the order of stores, so any part of the words may be written by then; *torn* stills are samples of that.

Files keep their identity: a still can be laid out anew, as a process finds it that was not there before, or over the
folder of one that has it mapped, in which files are then changed, renamed and replaced as the process did that died.
"""

import os
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import spillway
from spillway.seeds import generator
from spillway.state.folders import default_root

_SOURCE = Path(spillway.__file__).parent
_ENGINE = tuple(f"engine/{name}.py" for name in ("opened", "task", "turn", "feedback", "rescaling"))
_WATCHED = ("state", "backup", "files", *_ENGINE)
assert all((_SOURCE / watched).exists() for watched in _WATCHED), "a film of code that is not there shows nothing"
_WORD_BYTES = 8
_PLACES_MAX = 6

PER_PLACE = int(os.environ.get("SPILLWAY_CRASH_POINTS", "1"))
"""How many stills of each place are judged, chosen at random; a large number means all of them."""


@dataclass(frozen=True, slots=True)
class File:
    """A file's identity and content."""

    inode: int
    data: bytes


Files = dict[str, File]  # by path below the folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A folder as a kill leaves it."""

    after: tuple[str, ...]  # the line that changed something last, and those that called it
    before: str  # the line that comes next
    files: Files
    batch: int  # the one that was being run
    step: int  # how many steps of watched code came before
    torn: bool = False  # the kill came within the line

    def __str__(self) -> str:
        where = f"{'inside' if self.torn else 'after'} {' < '.join(self.after)}, before {self.before}"
        return f"batch {self.batch}, killed {where}"


class Film:
    """Everything the code inside ``with`` did to a folder, still by still; the first shows it as it was before.

    With ``die_at`` nothing is kept, and the process is killed after so many steps.
    """

    def __init__(self, folder: Path, *, batch: int = 0, die_at: int | None = None) -> None:
        self.stills: list[Still] = []
        self._steps = 0
        self._die_at = die_at
        self.batch = batch
        self._watch = Watch(folder)
        self._at = ("the start",)
        self._traced_before: Any = None

    def __enter__(self) -> "Film":
        self.stills.append(Still(after=self._at, before="", files=self._watch.files(), batch=self.batch, step=0))
        self._traced_before = sys.gettrace()
        sys.settrace(self._enter_function)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._traced_before)
        self._look(("the end",))
        self._watch.close()

    def _enter_function(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._step if is_watched(frame.f_code.co_filename) else None

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._look(places(frame))
        elif event == "return":
            # What the line that called does after this is its own doing.
            self._look(places(frame.f_back))
        return self._step

    def _look(self, at: tuple[str, ...]) -> None:
        self._steps += 1
        if self._die_at is not None:
            if self._steps == self._die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return
        last = self.stills[-1]
        files = self._watch.files()
        if files != last.files:
            still = Still(after=self._at, before=at[0], files=files, batch=self.batch, step=self._steps)
            self.stills.append(still)
        elif self.batch != last.batch:
            self.stills.append(replace(last, after=("the start",), batch=self.batch))
        self._at = at


class Watch:
    """A folder that is looked at again and again; files stay open, so that no number of one is given to another."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._descriptors: dict[int, int] = {}
        self._files: Files = {}

    def files(self) -> Files:
        """All files as they are now; what is as it was at the last look is the same object."""
        files = dict(self._below(self._folder, ""))
        if files != self._files:
            self._files = files
        return self._files

    def _below(self, folder: str, prefix: str) -> Iterator[tuple[str, File]]:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    yield from self._below(entry.path, f"{name}/")
                else:
                    yield name, self._file(name, entry)

    def _file(self, name: str, entry: os.DirEntry[str]) -> File:
        inode = entry.inode()
        descriptor = self._descriptors.get(inode)
        if descriptor is None:
            descriptor = self._descriptors[inode] = os.open(entry.path, os.O_RDONLY)
        known = self._files.get(name)
        size = len(known.data) if known is not None else 0
        data = os.pread(descriptor, size + 1, 0)
        if len(data) > size:  # it has grown
            data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return known if known is not None and known.inode == inode and known.data == data else File(inode, data)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def files_below(folder: Path) -> Files:
    watch = Watch(folder)
    try:
        return watch.files()
    finally:
        watch.close()


@cache
def is_watched(path: str) -> bool:
    """Whether a file of code has a part in keeping state, so that its steps are crash points."""
    return any(Path(path).is_relative_to(_SOURCE / watched) for watched in _WATCHED)


def places(frame: FrameType | None) -> tuple[str, ...]:
    """Where a frame is, and where the watched ones are that called it, innermost first."""
    found: list[str] = []
    while frame is not None and len(found) < _PLACES_MAX:
        if is_watched(frame.f_code.co_filename):
            path, name = frame.f_code.co_filename.rpartition(os.sep)[2], frame.f_code.co_name
            found.append(f"{path}:{frame.f_lineno} {name}")
        frame = frame.f_back
    return tuple(found) or ("code that is not watched",)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in shared memory, where shards lie and syncing costs nothing."""
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="crash-", dir=default_root()) as folder:
        yield Path(folder)


def lay_out(files: Files, folder: Path) -> None:
    """The files anew, in a folder that does not exist."""
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)


def lay_over(folder: Path, before: Files, after: Files) -> None:
    """Do to ``folder``, which holds ``before``, what led from there to ``after``, for those who have it mapped."""
    moved = folder / ".laid-over"
    moved.mkdir()
    for file in {before[name].inode: name for name in before}.items():
        os.rename(folder / file[1], moved / str(file[0]))
    for name, file in after.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = moved / str(file.inode)
        if not kept.exists():
            path.write_bytes(file.data)
            continue
        with kept.open("r+b") as stream:
            stream.write(file.data)
        os.rename(kept, path)
    for left in moved.iterdir():
        left.unlink()
    moved.rmdir()


def crash_points(stills: list[Still], *, seed: int, depth: int = 1) -> list[Still]:
    """Stills to judge, torn ones among them: for every place in the code where something was changed, some.

    A place is a line, in a batch; with a ``depth`` of 2 also the line that called it. Which of its stills are taken is
    chosen. The first of all is the start, which nobody died at.
    """
    random = generator(seed, "crash points")
    found: dict[tuple[object, ...], list[Still]] = defaultdict(list)
    for before, after in pairwise(stills):
        found[after.batch, after.after[:depth], False].append(after)
        for torn in torn_between(before, after, random):
            found[after.batch, after.after[:depth], True].append(torn)
    chosen = [random.permutation(len(group))[:PER_PLACE] for group in found.values()]
    return [group[i] for group, places in zip(found.values(), chosen, strict=True) for i in sorted(places)]


def torn_between(before: Still, after: Still, random: np.random.Generator) -> Iterator[Still]:
    """Samples of what a kill inside the line between two stills leaves; none if it wrote one word or only files."""
    places = [
        (name, int(word))
        for name, file in after.files.items()
        if _changed_in_place(before.files.get(name), file)
        for word in np.flatnonzero(_words(before.files[name].data) != _words(file.data))
    ]
    if len(places) < 2:
        return
    half = len(places) // 2
    chosen = [place for place, taken in zip(places, random.random(len(places)) < 0.5, strict=True) if taken]
    for written in (places[:half], places[half:], chosen):
        files = dict(before.files)
        for name in {name for name, _ in written}:
            words = _words(before.files[name].data).copy()
            chosen = [word for other, word in written if other == name]
            words[chosen] = _words(after.files[name].data)[chosen]
            tail = before.files[name].data[words.nbytes :]
            files[name] = File(before.files[name].inode, words.tobytes() + tail)
        yield replace(after, files=files, torn=True)


def _changed_in_place(before: File | None, after: File) -> bool:
    return (
        before is not None
        and before.inode == after.inode
        and len(before.data) == len(after.data)
        and before.data != after.data
    )


def _words(data: bytes) -> Any:
    return np.frombuffer(data[: len(data) // _WORD_BYTES * _WORD_BYTES], np.int64)
