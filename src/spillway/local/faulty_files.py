"""Durable files that fail when told to: an fsspec file system in memory, for simulated faults.

Every operation that changes a file is numbered. Simulations arm one of them: it then raises instead of being done, or
right after it was done, as a full disk or a killed process would have it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

PROTOCOL = "spillway-faulty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """An operation that will not go well."""

    operation: int  # counted from the one that comes next
    done: bool  # whether it is done before the error
    error: Callable[[], BaseException]


class FaultyFiles(MemoryFileSystem):  # type: ignore[misc]
    """One folder of files per name; ``FaultyFiles(name=n)`` and the address ``spillway-faulty://n`` are the same."""

    protocol = PROTOCOL

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(global_store=False, **options)
        self.name = name
        self.operations = 0
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
        self.operations = 0
        self._trap = trap

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        self._do(lambda: super(FaultyFiles, self).pipe_file(path, value, mode, **options))

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self._do(lambda: self.store.update({target: self.store.pop(source)}))

    def rm_file(self, path: str) -> None:
        self._do(lambda: super(FaultyFiles, self).rm_file(path))

    def _do(self, change: Callable[[], object]) -> None:
        trap, number = self._trap, self.operations
        self.operations += 1
        sprung = trap is not None and trap.operation == number
        if trap is None or not sprung or trap.done:
            change()
        if trap is not None and sprung:
            raise trap.error()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        inside = path.removeprefix(f"{PROTOCOL}://").strip("/")
        return f"/{inside}" if inside else ""

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"name": path.removeprefix(f"{PROTOCOL}://").split("/", 1)[0]}


fsspec.register_implementation(PROTOCOL, FaultyFiles, clobber=True)
