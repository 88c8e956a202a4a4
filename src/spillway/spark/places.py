"""The two folders a run on Spark needs, its state and Spark's checkpoint: whose they are, and when they go.

A folder that was named stays. One that was not is temporary: it stays for as long as somebody may look into it, and
goes when the run is stopped, when nobody holds the run any more, or when the process ends. A run that does not start
leaves what was there before, and nothing else.

Both folders are claimed for as long as the run goes on, so that no other run works on them. Spark itself would stop the
first of two queries on one checkpoint without a word.
"""

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spillway.errors import RunError, SpillwayError, StateMemoryError
from spillway.spark.memory_place import MemoryPlace
from spillway.state.folders import TEMPORARY_CHECKPOINT, claim, default_root, other_user, release, wipe
from spillway.tls import TLS


class Running(Protocol):
    """A run, as far as its folders are concerned."""

    @property
    def active(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A run of this process, and its folders."""

    places: "Places"
    run: Running
    graph: str


class Places:
    """Where one run keeps its memory and its checkpoint."""

    def __init__(self, graph: str, *, state: Path | None, checkpoint: str | None) -> None:
        self._graph = graph
        temporary: list[Path] = []
        self._folder: Path | None  # of the checkpoint; None if it is elsewhere, where nothing of ours can hold it
        if checkpoint is None:
            # Spark makes its folder itself, so it gets one inside ours.
            own = Path(tempfile.mkdtemp(prefix=TEMPORARY_CHECKPOINT))
            temporary.append(own)
            self.checkpoint, self._folder = str(own / "checkpoint"), own
        else:
            local = local_folder(checkpoint)
            # A relative path would mean another folder after the process changed its own.
            self.checkpoint = str(local) if local is not None and ":" not in checkpoint else checkpoint
            self._folder = local
        self._resumes_from = self.checkpoint if checkpoint is not None else ""
        self.state = state.absolute() if state is not None else default_root() / state_name(graph, self.checkpoint)
        self._named_state = state is not None
        self._keeps_state = state is not None or checkpoint is not None
        if not self._keeps_state:
            temporary.append(self.state)
        self._made = [path for path in (self.state, self._folder) if path is not None and not path.exists()]
        self._claimed = False
        self._leave = weakref.finalize(self, _remove, temporary)

    @property
    def resumes_from(self) -> str:
        """The checkpoint, if another run may resume from it."""
        return self._resumes_from

    @property
    def temporary(self) -> bool:
        """Whether the state is, and is still there."""
        return not self._keeps_state and self._leave.alive

    @property
    def state_is_gone(self) -> bool:
        """Whether the state was temporary and has been removed."""
        return not self._keeps_state and not self._leave.alive

    @property
    def local_checkpoint(self) -> bool:
        """Whether Spark's checkpoint is a folder of this machine, which a claim of ours holds."""
        return self._folder is not None

    def memory(self, *, one_machine: bool, tls: TLS | None = None) -> MemoryPlace:
        """Where tasks find the run's memory: on a cluster each host has a root of its own, unless one was named."""
        if one_machine or self._named_state:
            return MemoryPlace(root=str(self.state), name="", tls=tls)
        return MemoryPlace(root=None, name=self.state.name, tls=tls)

    def shares(self, other: "Places") -> str:
        """Which of its folders another run has too: ``checkpoint``, ``state``, or none."""
        if self.checkpoint == other.checkpoint or (self._folder is not None and self._folder == other._folder):
            return "checkpoint"
        return "state" if self.state.resolve() == other.state.resolve() else ""

    def refuse(self, folder: str, user: str) -> SpillwayError:
        """The sentence for a folder that somebody else uses."""
        if folder == "checkpoint":
            return RunError(
                f"Checkpoint {self.checkpoint} is in use by {user}. Stop that run first, or name another folder with "
                f"checkpoint=."
            )
        return StateMemoryError(
            f"State folder {self.state} is in use by {user}. Stop that run first, or name another folder with state=."
        )

    def take(self, others: Iterable[Holder]) -> None:
        """Make the folders this run's, unless another of this process, or another process, uses them."""
        for other in others:
            shared = self.shares(other.places)
            if shared and other.run.active:
                raise self.refuse(shared, f"a run of graph {other.graph!r} in this process")
            if shared:
                other.places.hand_over()
        self.claim()

    def claim(self) -> None:
        """Make both folders this run's; refuse those that another living process uses."""
        if self._folder is not None:
            user = other_user(self._folder)
            if user is not None:
                raise self.refuse("checkpoint", f"process {user.pid}, which runs graph {user.graph!r}")
        self._claimed = True  # what turns out to be another's is not released
        claim(self.state, graph=self._graph, checkpoint=self._resumes_from)
        if self._folder is not None:
            try:
                claim(self._folder, graph=self._graph)
            except StateMemoryError as error:
                reason = getattr(error.__cause__, "strerror", None) or error
                raise RunError(
                    f"Checkpoint {self.checkpoint} cannot be written ({reason}). Name another folder with checkpoint=."
                ) from error

    def begin(self, batch: int) -> None:
        """A run begins with this batch: if it is the first of its checkpoint, memory is of one that was removed."""
        if batch == 0 and not self._named_state:
            wipe(self.state)

    def release(self) -> None:
        """The run has ended: others may have the folders that were named; temporary ones stay its own until they go."""
        if self._claimed:
            self._claimed = False
            if self._keeps_state:
                release(self.state)
            if self._resumes_from and self._folder is not None:
                release(self._folder)

    def hand_over(self) -> None:
        """Another run of this process goes on in these folders, so they are no longer this one's to release."""
        self._claimed = False

    def leave(self) -> None:
        """Remove what is temporary."""
        self._leave()

    def keep(self) -> None:
        """Keep the state even if the run does not start: something may come into it that is nowhere else."""
        self._made = [path for path in self._made if path != self.state]

    def give_up(self) -> None:
        """The run did not start: have the folders as they were before."""
        self.release()
        _remove(self._made)
        self._leave()


def absolute(url: str) -> str:
    """The same folder, by a name that means it in whatever folder a process is."""
    return url if "://" in url or "::" in url else str(Path(url.removeprefix("file:")).absolute())


def local_folder(url: str) -> Path | None:
    """The absolute path of a folder on this machine; None if it is elsewhere."""
    path = url.removeprefix("file://") if url.startswith("file:///") else url.removeprefix("file:")
    return Path(path).resolve() if "://" not in path else None


def state_name(graph: str, checkpoint: str) -> str:
    """The same for the same checkpoint, so that a restarted driver finds its shards again."""
    return f"{graph}-{hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()}"


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
