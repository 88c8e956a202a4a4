"""Progress reports of Spark's streaming queries, as Spark itself writes them down: what ``explaining`` works from.

They come as JSON (of ``query.recentProgress`` or ``query.lastProgress``: objects one after the other, or arrays of
them), or in an event log, one event a line, of which those with a report are picked. A log may be a folder of files,
may be packed, and may end in the middle of a line: its application still runs, or was killed.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from spillway.errors import InputError

REPORTS_MAX = 10_000  # of one query, the last ones
_QUERIES_MAX = 1_000
_CHUNK_BYTES = 1 << 13  # what is lost of a packed file at the most that ends in the middle
_BYTES_MAX = 64 << 20  # of a line, and of a file of reports as a whole

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
_JOINED, _LEFT = "SparkListenerExecutorAdded", "SparkListenerExecutorRemoved"
_WANTED = tuple(name.encode() for name in (_PROGRESS, _JOINED, _LEFT))
# What files begin with that are packed, and what pyarrow calls it, if it can read it.
_PACKED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip", b"LZ4Block": "", b"\x82SNAPPY": "", b"ZV": ""}
_PART = re.compile(r"events_(\d+)_")
_WHAT_IS_WANTED = (
    "Progress reports of a streaming query are wanted, as JSON (in Python: for report in query.recentProgress: "
    "print(report.json)), or a Spark event log"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What one query reported, in the order it did."""

    query: str  # its name, or its identity if it has none
    reports: tuple[Mapping[str, Any], ...]
    cores: int | None = None  # how many tasks run at a time, if that is known


@dataclass(slots=True)
class _Found:
    """What was found so far."""

    by_query: dict[str, deque[Mapping[str, Any]]] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)  # of executors that are there
    cores_max: int = 0

    def add(self, report: object, where: str) -> None:
        if not isinstance(report, dict) or not isinstance(report.get("durationMs"), dict) or "batchId" not in report:
            raise InputError(f"{where} is no progress report: it has no batchId and durationMs. {_WHAT_IS_WANTED}.")
        query = str(report.get("name") or report.get("id") or "query")
        if query not in self.by_query and len(self.by_query) == _QUERIES_MAX:
            raise InputError(f"{where}: there are more than {_QUERIES_MAX:,} queries.")
        self.by_query.setdefault(query, deque(maxlen=REPORTS_MAX)).append(report)

    def add_event(self, event: Mapping[str, Any], where: str) -> None:
        kind = event.get("Event")
        if kind == _PROGRESS:
            self.add(event.get("progress"), where)
        elif kind == _JOINED:
            self.cores[str(event.get("Executor ID"))] = int(event.get("Executor Info", {}).get("Total Cores", 0))
            self.cores_max = max(self.cores_max, sum(self.cores.values()))
        elif kind == _LEFT:
            self.cores.pop(str(event.get("Executor ID")), None)

    def reports(self) -> list[Reports]:
        return [
            Reports(query=query, reports=tuple(reports), cores=self.cores_max or None)
            for query, reports in self.by_query.items()
        ]


def gathered(reports: Iterable[object], *, cores: int | None = None) -> list[Reports]:
    """Reports, as JSON has them, by query.

    >>> gathered([{"name": "clicks", "batchId": 3, "durationMs": {"addBatch": 20}}])[0].query
    'clicks'
    """
    found = _Found(cores_max=cores or 0)
    for place, report in enumerate(reports):
        found.add(report, f"Report {place}")
    return found.reports()


def read_reports(path: Path) -> list[Reports]:
    """The reports in a file, or in the files of an event log, by query; refused if there are none."""
    found = _Found()
    try:
        for part in _parts(path):
            _read(part, found)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not found.by_query:
        raise InputError(f"{path} has no progress report of a streaming query. {_WHAT_IS_WANTED}.")
    return found.reports()


def _parts(path: Path) -> list[Path]:
    """The file; or of a folder the parts of an event log, in order."""
    if not path.is_dir():
        return [path]
    numbered = {part: match for part in path.iterdir() if (match := _PART.match(part.name))}
    if not numbered:
        raise InputError(f"{path} is a folder without parts of an event log (events_1_…). {_WHAT_IS_WANTED}.")
    return sorted(numbered, key=lambda part: int(numbered[part][1]))


def _read(path: Path, found: _Found) -> None:
    with _opened(path) as file:
        lines = _lines(file, path)
        first = next((line for line in lines if line.strip()), b"")
        if _event(first) is None:
            _read_text(path, chain([first], lines), found)
            return
        torn = 0
        for number, line in enumerate(chain([first], lines), 1):
            if torn:
                raise InputError(f"{path}, event {torn} is no JSON: the log is damaged.")
            if any(wanted in line for wanted in _WANTED) and not _take(found, line, f"{path}, event {number}"):
                torn = number  # which only the last may be


def _take(found: _Found, line: bytes, where: str) -> bool:
    event = _event(line)
    if event is not None:
        found.add_event(event, where)
    return event is not None


def _event(line: bytes) -> Mapping[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "Event" in event else None


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        begin = file.read(8)
    packed = next((name for magic, name in _PACKED.items() if begin.startswith(magic)), None)
    if packed is None:
        return path.open("rb")
    if not packed:
        raise InputError(
            f"{path} is packed in a way that only Spark reads. Have Spark write it plainly "
            f"(spark.eventLog.compress=false) or with zstd (spark.eventLog.compression.codec=zstd)."
        )
    return pa.input_stream(str(path), compression=packed)  # type: ignore[no-any-return]


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Line by line, as far as what is packed has been written."""
    rest = b""
    while True:
        try:
            chunk = file.read(_CHUNK_BYTES)
        except OSError as error:
            if "Truncated" in str(error):
                chunk = b""
            else:
                raise InputError(f"{path} is damaged: {error}.") from error
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in whole)
        if len(rest) > _BYTES_MAX:
            raise InputError(f"{path} has a line of more than {_BYTES_MAX >> 20} MB. {_WHAT_IS_WANTED}.")
        if not chunk:
            if rest:
                yield rest
            return


def _read_text(path: Path, lines: Iterable[bytes], found: _Found) -> None:
    """JSON values one after the other, commas between them or not; arrays are taken apart."""
    data = bytearray()
    for line in lines:
        data += line
        if len(data) > _BYTES_MAX:
            raise InputError(f"{path} has more than {_BYTES_MAX >> 20} MB of reports; take the last ones.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text. {_WHAT_IS_WANTED}.") from error
    decoder, place, count = json.JSONDecoder(), 0, 0
    while place < len(text):
        if text[place].isspace() or text[place] == ",":
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except ValueError as error:
            number = text.count("\n", 0, place) + 1
            raise InputError(f"{path}, line {number}: this is no JSON. {_WHAT_IS_WANTED}.") from error
        for report in value if isinstance(value, list) else [value]:
            count += 1
            found.add(report, f"{path}, report {count}")
