"""Durable files that fail when told to: an fsspec file system in memory, for simulated faults.

Every operation that changes a file is numbered, and so is every one that reads. Simulations arm one of them: it then
raises instead of being done, or right after it was done, as a full disk or a killed process would have it. Files can
also be damaged where they lie.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

PROTOCOL = "spillway-faulty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """An operation that will not go well."""

    operation: int  # counted from the one that comes next, of those that change files or of those that read
    done: bool  # whether it is done before the error
    error: Callable[[], BaseException]
    reads: bool = False


class Damage(StrEnum):
    """What can happen to a file where it lies."""

    FLIP = "flip"  # one bit
    TRUNCATE = "truncate"
    DELETE = "delete"


class FaultyFiles(MemoryFileSystem):  # type: ignore[misc]
    """One folder of files per name; ``FaultyFiles(name=n)`` and the address ``spillway-faulty://n`` are the same."""

    protocol = PROTOCOL

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(global_store=False, **options)
        self.name = name
        self.operations = 0  # that changed something
        self.reads = 0
        self._trap: Trap | None = None

    @property
    def address(self) -> str:
        return f"{PROTOCOL}://{self.name}"

    @property
    def content(self) -> dict[str, bytes]:
        """Every file and what is in it."""
        return {path: bytes(file.getvalue()) for path, file in self.store.items()}

    def arm(self, trap: Trap | None) -> None:
        """Let one of the coming operations fail; None to let all go well."""
        self.operations = self.reads = 0
        self._trap = trap

    def damage(self, path: str, damage: Damage, *, place: float) -> None:
        """Damage a file at ``place``, a part of its length from 0 to below 1."""
        if damage is Damage.DELETE:
            del self.store[path]
            return
        data = bytearray(self.store[path].getvalue())
        at = int(place * len(data))
        if damage is Damage.TRUNCATE:
            del data[at:]
        elif data:
            data[at] ^= 1 << int(place * 8 * len(data)) % 8
        super().pipe_file(path, bytes(data))

    def put_back(self, folder: str, copy: dict[str, bytes]) -> None:
        """Let a folder be again what it is in a copy of all files (see ``content``)."""
        for path in [path for path in self.store if path.startswith(f"{folder}/")]:
            del self.store[path]
        for path, data in copy.items():
            if path.startswith(f"{folder}/"):
                super().pipe_file(path, data)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._change(lambda: super(FaultyFiles, self).pipe_file(path, value, mode, **options))

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self._change(lambda: self.store.update({target: self.store.pop(source)}))

    def rm_file(self, path: str) -> None:
        self._change(lambda: super(FaultyFiles, self).rm_file(path))

    def cat_file(self, path: str, **options: Any) -> Any:
        self._read()
        return super().cat_file(path, **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._read()
        return super().ls(path, detail=detail, **options)

    def _change(self, change: Callable[[], object]) -> None:
        trap, number = self._trap, self.operations
        self.operations += 1
        sprung = trap is not None and not trap.reads and trap.operation == number
        if trap is None or not sprung or trap.done:
            change()
        if trap is not None and sprung:
            raise trap.error()

    def _read(self) -> None:
        trap, number = self._trap, self.reads
        self.reads += 1
        if trap is not None and trap.reads and trap.operation == number:
            raise trap.error()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        inside = path.removeprefix(f"{PROTOCOL}://").strip("/")
        return f"/{inside}" if inside else ""

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"name": path.removeprefix(f"{PROTOCOL}://").split("/", 1)[0]}


fsspec.register_implementation(PROTOCOL, FaultyFiles, clobber=True)
