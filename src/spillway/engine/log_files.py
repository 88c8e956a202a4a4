"""The files of a stream log: its header, one for every batch that it holds, and one each for where it begins and ends.

A log begins with batch 0 unless something else is said: one that was lost begins where its job goes on from.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spillway.errors import StateError
from spillway.files.arrow_files import ArrowFile, ArrowFiles
from spillway.files.envelope import seal, unseal
from spillway.files.folders import LocalFolder

FORMAT = 1
ROWS_PER_PART = 100_000
"""Tuples of a batch are read in parts of so many, each by a task of its own."""

_HEADER, _START, _END = "log.json", "start.json", "end.json"
KIND, DIGITS = "batch", (10, 14, 9, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where all logs of a run are, whichever job writes them."""

    root: Path
    run: str  # unlike that of any other run, so that nobody goes on with what an earlier one left


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch:
    """One batch in a log."""

    batch: int
    position: int  # of its first tuple
    tuples: int
    bytes: int
    file: ArrowFile

    @property
    def end(self) -> int:
        """The position behind its last tuple."""
        return self.position + self.tuples

    @property
    def parts(self) -> int:
        """In how many parts it is read; in one if it is empty."""
        return max(1, -(-self.tuples // ROWS_PER_PART))


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a log holds just now."""

    batches: tuple[LogBatch, ...]  # by their numbers; in between only those lack that no reader is to have
    start: int = 0  # the batch that it begins with
    start_position: int = 0
    ended: int | None = None  # how many batches there will ever be, if that is known

    def of(self, batch: int) -> LogBatch | None:
        """One of them."""
        return next((one for one in self.batches if one.batch == batch), None)

    @property
    def first(self) -> int:
        """The first batch that is there; that which is to come, if none is."""
        return self.batches[0].batch if self.batches else self.start

    @property
    def next(self) -> int:
        """The batch that comes next."""
        return self.batches[-1].batch + 1 if self.batches else self.start

    @property
    def position(self) -> int:
        """Of the tuple that comes next."""
        return self.batches[-1].end if self.batches else self.start_position


class LogFiles:
    """The files of one log, as all who use it see them."""

    def __init__(self, place: LogPlace, *, graph: str, stream: str, schema: pa.Schema, log: str) -> None:
        self.stream = stream
        self.schema = schema
        self.path = place.root / log
        self.folder = LocalFolder(self.path)
        self.files = ArrowFiles(self.folder, KIND, digits=DIGITS)
        schema_text = schema.to_string(show_field_metadata=False)
        self._about = {"graph": graph, "run": place.run, "stream": stream, "schema": schema_text}

    def begun(self) -> bool:
        """Whether there is a log; one that is another's is refused."""
        try:
            data = self.folder.read(_HEADER)
        except FileNotFoundError:
            return False
        body = unseal(data, format=FORMAT, what=f"Stream log {self.path}")
        if body != self._about:
            raise StateError(self._refusal(body))
        return True

    def begin(self) -> None:
        self.folder.write(_HEADER, seal(self._about, format=FORMAT))

    def begin_at(self, batch: int, position: int) -> None:
        """Begin anew, with a later batch than the first; what is there goes."""
        self.folder.tidy(lambda name: name != _HEADER)
        self.begin()
        self.folder.write(_START, seal({"batch": batch, "position": position}, format=FORMAT))

    def held(self) -> Held:
        """What there is."""
        found = self.files.found()
        batches = [
            LogBatch(batch=batch, position=position, tuples=tuples, bytes=size, file=file)
            for file in found
            for batch, position, tuples, size in (file.numbers,)
        ]
        start = self._noted(_START) or {"batch": 0, "position": 0}
        ended = self._noted(_END)
        return Held(
            batches=tuple(batches),
            start=int(start["batch"]),
            start_position=int(start["position"]),
            ended=None if ended is None else int(ended["batches"]),
        )

    def end(self, batches: int | None) -> None:
        """Say how many batches there will ever be; or, with None, that it is not known after all."""
        if batches is None:
            self.folder.remove(_END)
        else:
            self.folder.write(_END, seal({"batches": batches}, format=FORMAT))

    def _noted(self, name: str) -> Any:
        try:
            return unseal(self.folder.read(name), format=FORMAT, what=f"{name} of stream log {self.path}")
        except FileNotFoundError:
            return None

    def tuples_of(self, found: LogBatch) -> list[pa.RecordBatch] | None:
        """The tuples of a batch; None if they are gone or damaged."""
        parts = self.files.read(found.file)
        return None if parts is None else [tuples for part in parts for tuples in part.batches]

    def _refusal(self, found: object) -> str:
        advice = "Name another folder for this run, or remove that one."
        if not isinstance(found, dict) or found.keys() != self._about.keys():
            return f"Stream log {self.path} is damaged: it does not say what it is. {advice}"
        if found["graph"] != self._about["graph"]:
            return (
                f"Stream log {self.path} was written by graph {found['graph']!r}, and this is graph "
                f"{self._about['graph']!r}. {advice}"
            )
        if found["run"] != self._about["run"]:
            return (
                f"Stream log {self.path} was written by an earlier run of graph {found['graph']!r}, which had another "
                f"checkpoint. {advice}"
            )
        return (
            f"Stream log {self.path} holds tuples of {_one_line(found['schema'])}, and stream {self.stream} now has "
            f"{_one_line(self._about['schema'])}. {advice}"
        )


def _one_line(schema: str) -> str:
    return ", ".join(schema.splitlines())
