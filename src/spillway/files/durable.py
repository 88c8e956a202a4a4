"""Files that are there whole or not at all, even after a crash."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

UNFINISHED = ".part-"
"""How the name of a half-written file begins, which a process left that died."""

REMOVED = ".gone-"
"""How the name of a folder begins that is being removed."""


def write_whole(path: Path, data: Any, *, private: bool = True) -> None:
    """Write bytes under another name, make durable, rename: nobody ever sees half of the file.

    One process at a time writes a file. Unless it is ``private``, others may read it as far as the user lets them.
    """
    temporary = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        _write_synced(temporary, data, mode=0o600 if private else 0o666)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):  # what went wrong first is what matters
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def create_whole(path: Path, data: Any) -> None:
    """As ``write_whole``, for a file that is never written over: if it is there, FileExistsError is raised.

    Of several processes that create the same file one does.
    """
    temporary = path.with_name(f"{UNFINISHED}{os.getpid()}-{path.name}")
    try:
        _write_synced(temporary, data, mode=0o600)
        os.link(temporary, path)  # unlike a rename it does not replace
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder durable."""
    _sync(folder)


def sync_file(path: Path) -> None:
    """Make what another library wrote into a file durable."""
    _sync(path)


def make_folder(folder: Path) -> None:
    """Make a folder and whatever is missing above it, each durable in the one that holds it."""
    missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_folder(each.parent)


def move_folder(folder: Path, to: Path) -> None:
    """Give a folder another place on its file system, where there is none: it is there whole, or still here."""
    make_folder(to.parent)
    os.rename(folder, to)
    sync_folder(to.parent)
    sync_folder(folder.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder and all in it, if it is there: whoever is killed meanwhile leaves it whole, or none of its name.

    What is then left under a hidden name goes with the next that is removed. One process at a time removes a folder.
    """
    hidden = folder.with_name(f"{REMOVED}{folder.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        move_folder(folder, hidden)
        shutil.rmtree(hidden)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, data: Any, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(data).cast("B")
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
