"""Where a task finds the memory of its run, on whichever host it is."""

from dataclasses import dataclass
from pathlib import Path

from spillway.state.folders import default_root, memory_id
from spillway.tls import TLS


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlace:
    """A folder below a root that is the same everywhere, or that each host has for itself."""

    root: str | None  # None: the host's own (``state.folders.default_root``)
    name: str  # of the folder below it; empty if it is the root
    tls: TLS | None = None  # how it is handed to another host; None: not encrypted

    @property
    def folder(self) -> Path:
        """The run's folder, here."""
        return self._root / self.name if self.name else self._root

    def memory_id(self) -> str:
        """The id of the memory that this folder is in."""
        return memory_id(self._root)

    @property
    def _root(self) -> Path:
        return default_root() if self.root is None else Path(self.root)
