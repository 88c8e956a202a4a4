"""Durable files: written whole or not at all.

On a local file system a file is written under a temporary name, synced, renamed, and the folder synced. Anywhere else
fsspec writes it under a temporary name and moves it. Names are never reused, so a reader sees the whole file or none.

``slow://2ms/path`` is the local folder ``/path``, every write of which takes 2 ms longer: a stand-in for disks that are
further away, to see what they would cost.
"""

import contextlib
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from spillway.files.durable import UNFINISHED, make_folder, write_whole

_SLOW = re.compile(r"slow://(\d{1,5})ms(/.+)")


class Folder(Protocol):
    """A folder of durable files."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def write(self, name: str, data: Any) -> None:
        """Make ``data`` durable under ``name``."""

    def read(self, name: str) -> bytes: ...

    def names(self) -> list[str]:
        """All files, without half-written ones; empty if the folder does not exist."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone already is no error."""

    def tidy(self, unwanted: Callable[[str], bool]) -> None:
        """Remove the files of these names, and half-written ones, which a process left that died."""

    def remove_all(self) -> None:
        """Remove the folder with all that is in it; one that is gone already is no error."""


def open_folder(root: str, *parts: str) -> Folder:
    """The folder ``parts`` below ``root``, a local path or any fsspec URL."""
    if root.startswith("/") and "::" not in root and "://" not in root:
        # What fsspec would say too; only what needs it loads it.
        return LocalFolder(Path(root, *parts))
    if slow := _SLOW.fullmatch(root):
        return SlowFolder(Path(slow[2], *parts), delay_s=int(slow[1]) / 1000)
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    file_system, path = fsspec.core.url_to_fs(root)
    if isinstance(file_system, LocalFileSystem):
        return LocalFolder(Path(path, *parts))
    return RemoteFolder(file_system, "/".join([path.rstrip("/"), *parts]))


class LocalFolder:
    """A folder on a local file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def place(self) -> str:
        return str(self._folder)

    def write(self, name: str, data: Any) -> None:
        make_folder(self._folder)
        write_whole(self._folder / name, data)

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def names(self) -> list[str]:
        return sorted(name for name in self._entries() if not name.startswith(UNFINISHED))

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def tidy(self, unwanted: Callable[[str], bool]) -> None:
        for name in self._entries():
            if name.startswith(UNFINISHED) or unwanted(name):
                self.remove(name)

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError):  # another may remove it, too
            shutil.rmtree(self._folder)

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []


class SlowFolder(LocalFolder):
    """A local folder whose writes are durable some time later than they would be."""

    def __init__(self, folder: Path, *, delay_s: float) -> None:
        super().__init__(folder)
        self._delay_s = delay_s

    def write(self, name: str, data: Any) -> None:
        super().write(name, data)
        time.sleep(self._delay_s)


@contextlib.contextmanager
def _as_os_error(doing: str) -> Iterator[None]:
    """Whatever a file system of fsspec raises is an error of the system to us: each has exceptions of its own."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(errno.EIO, f"{doing}: {type(error).__name__}: {error}") from error


class RemoteFolder:
    """A folder on any fsspec file system."""

    def __init__(self, file_system: Any, folder: str) -> None:
        self._fs = file_system
        self._folder = folder

    @property
    def place(self) -> str:
        return str(self._fs.unstrip_protocol(self._folder))

    def write(self, name: str, data: Any) -> None:
        with _as_os_error(f"writing {name}"):
            self._fs.makedirs(self._folder, exist_ok=True)
            temporary = f"{self._folder}/{UNFINISHED}{name}"
            self._fs.pipe_file(temporary, bytes(data))
            self._fs.mv(temporary, f"{self._folder}/{name}")

    def read(self, name: str) -> bytes:
        with _as_os_error(f"reading {name}"):
            return bytes(self._fs.cat_file(f"{self._folder}/{name}"))

    def names(self) -> list[str]:
        return sorted(name for name in self._entries() if not name.startswith(UNFINISHED))

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), _as_os_error(f"removing {name}"):
            self._fs.rm_file(f"{self._folder}/{name}")

    def tidy(self, unwanted: Callable[[str], bool]) -> None:
        for name in self._entries():
            if name.startswith(UNFINISHED) or unwanted(name):
                self.remove(name)

    def remove_all(self) -> None:
        with contextlib.suppress(FileNotFoundError), _as_os_error("removing the folder"):
            self._fs.rm(self._folder, recursive=True)

    def _entries(self) -> list[str]:
        try:
            with _as_os_error("listing the folder"):
                self._fs.invalidate_cache(self._folder)
                found = self._fs.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in found]
