"""The permanent checkpoint of a job, made durable: what it had read and written, and the stream logs saved with it.

Beside the backups of the job's shards, which hold its state at that batch, lie

    permanent.json      the batch, how far each stream was read and written, and what of each log was saved
    log-STREAM/         the batches of a stream log that were, in the files that they are in memory

The files of the log come first and the note last, so a note is only ever about what is there. What an earlier note
named and this one does not, goes after it. A file that is there already is not written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spillway.engine.log_files import DIGITS, KIND
from spillway.errors import BackupError
from spillway.files.arrow_files import ArrowFiles
from spillway.files.envelope import seal, unseal
from spillway.files.folders import Folder, open_folder
from spillway.protocols.checkpoint_events import Checkpoint

NAME = "permanent.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Permanent:
    """What is noted of a permanent checkpoint."""

    checkpoint: Checkpoint
    starts: Mapping[str, int]  # by stream that is written: the first batch of its log that was saved
    positions: Mapping[str, int]  # behind the last tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToSave:
    """What of a stream's log goes into a checkpoint."""

    start: int  # the first batch
    position: int  # behind the last tuple that was written
    files: Mapping[str, bytes]


class PermanentStore:
    """Where the permanent checkpoint of one job is; ``graph`` is the graph of the job alone."""

    def __init__(self, graph: str, *, backups: str) -> None:
        self._graph = graph
        self._backups = backups
        self._folder = open_folder(backups, graph)

    @property
    def place(self) -> str:
        return self._folder.place

    def read(self) -> Permanent | None:
        """The one that counts; None if there was none yet. A damaged note is refused: nobody could tell."""
        try:
            data = self._folder.read(NAME)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("Reading", error) from error
        body = unseal(data, format=FORMAT, what=f"The note {NAME} in {self._folder.place}")
        if body is None:
            raise BackupError(
                f"The note {NAME} in {self._folder.place} is damaged: it says what a job goes back to. Put an intact "
                f"one back; if there is none, name new folders with backups= and checkpoint= and begin anew."
            )
        checkpoint = Checkpoint(
            batch=int(body["batch"]), read=body["read"], written=body["written"], log_start=body["log_start"]
        )
        return Permanent(checkpoint=checkpoint, starts=body["starts"], positions=body["positions"])

    def write(self, checkpoint: Checkpoint, logs: Mapping[str, LogToSave]) -> int:
        """Have a checkpoint be the permanent one, with these logs by stream; returns the bytes of log written."""
        written_bytes = 0
        try:
            for stream, log in logs.items():
                folder = self._log(stream)
                there = {*folder.names()}
                for name, data in log.files.items():
                    if name not in there:
                        folder.write(name, data)
                        written_bytes += len(data)
            body = {
                "batch": checkpoint.batch,
                "read": dict(checkpoint.read),
                "written": dict(checkpoint.written),
                "log_start": dict(checkpoint.log_start),
                "starts": {stream: log.start for stream, log in logs.items()},
                "positions": {stream: log.position for stream, log in logs.items()},
            }
            self._folder.write(NAME, seal(body, format=FORMAT))
            for stream, log in logs.items():
                self._log(stream).tidy(lambda name, kept=log.files: name not in kept)  # type: ignore[misc]
        except OSError as error:
            raise self._failed("Making", error) from error
        return written_bytes

    def log(self, stream: str, *, start: int, end: int) -> dict[str, bytes]:
        """The files of a stream's log from one batch up to another, as they were saved; refused if one is damaged."""
        folder = self._log(stream)
        files = ArrowFiles(folder, KIND, digits=DIGITS)
        try:
            found = {file.numbers[0]: file for file in files.found()}
            damaged = [batch for batch in range(start, end) if batch not in found or files.read(found[batch]) is None]
            if damaged:
                raise BackupError(
                    f"Batch {damaged[0]} of stream {stream}, saved with a checkpoint in {folder.place}, is damaged or "
                    f"missing, and other jobs may need it. Put it back, or begin anew with other folders."
                )
            return {found[batch].name: folder.read(found[batch].name) for batch in range(start, end)}
        except OSError as error:
            raise self._failed("Reading", error) from error

    def _log(self, stream: str) -> Folder:
        return open_folder(self._backups, self._graph, f"log-{stream}")

    def _failed(self, doing: str, error: OSError) -> BackupError:
        return BackupError(
            f"{doing} the checkpoint of a job in {self._folder.place} failed: {error.strerror or error}. Mend the "
            f"folder and run again: the job goes on from the checkpoint before."
        )
