"""A campaign's run directory: written as trials finish, read by scores and reports.

manifest.json             format, kind "campaign", declaration, graph, machine, how it ended, how long it took
parts/NAME-N.parquet      while it runs: rows of trials, golden or affected, as they came in
trials.parquet            once it has finished: every trial, sorted by its key
golden.parquet            every golden run, by number
affected.parquet          every affected section, by its key
result.json               the metrics, the declaration, and a digest of each table

A part appears whole or not at all, and one that cannot be read (a torn disk) counts as never written: its trials are
not among the finished ones, so they run again. The four files of the result depend on the declaration and the rows
alone, never on when, where, in which order or in how many pieces they came: a campaign killed at any moment and
resumed leaves the same bytes as one that was left in peace (under one version of pyarrow, which writes its own version
into each Parquet file). ``result.json`` is written last, so while it is there the tables belong to it.
"""

import fcntl
import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.files.durable import sync_folder, write_whole
from spillway.files.folders import LocalFolder
from spillway.records.campaign_rows import (
    AFFECTED_SCHEMA,
    GOLDEN_SCHEMA,
    TRIALS_SCHEMA,
    AffectedKey,
    AffectedRow,
    CampaignDeclaration,
    CampaignGraph,
    GoldenRow,
    MetricsRow,
    TrialKey,
    TrialRow,
    declaration_from_json,
    declaration_json,
    graph_from_json,
)
from spillway.records.figures import duration
from spillway.records.rundir import machine
from spillway.records.showing import small_table

FORMAT = 1
KIND = "campaign"

_SCHEMAS = {"golden": GOLDEN_SCHEMA, "affected": AFFECTED_SCHEMA, "trials": TRIALS_SCHEMA}
_PART = re.compile(r"(golden|affected|trials)-(\d{6})\.parquet")
_PARTS_MAX = 999_999

_Row = TypeVar("_Row", GoldenRow, AffectedRow, TrialRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecords:
    """A campaign as its directory tells it, finished or not; rows are sorted by their keys."""

    declaration: CampaignDeclaration
    graph: CampaignGraph
    golden: tuple[GoldenRow, ...]
    affected: tuple[AffectedRow, ...]
    trials: tuple[TrialRow, ...]
    metrics: tuple[MetricsRow, ...]  # as told when it finished; empty before
    finished: bool
    about: Mapping[str, Any]  # the manifest's other entries: machine, timing, ended

    @classmethod
    def read(cls, path: Path) -> Self:
        """What is in the directory; raises RunError if it is no campaign or has been changed by others."""
        manifest = read_manifest(path)
        if manifest.get("kind") != KIND:
            raise RunError(f"{path} holds a {manifest.get('kind', 'plain run')!r}, not a campaign.")
        try:
            return cls(**_read(path, manifest))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Our own writer leaves no such files; whoever changed them is told where, not shown our insides.
            raise RunError(f"{path} is not as a campaign is written: {type(error).__name__}: {error}.") from error

    def _repr_html_(self) -> str:
        """In a notebook: what faults did at the highest rate, as the metrics of a finished campaign tell it."""
        declared = self.declaration
        done = f"{len(self.trials):,} trials against {len(self.golden):,} golden runs"
        if not self.finished:
            done += ", not finished: metrics are told at the end"
        rows = [
            [
                row.target,
                _figure(row.coq),
                _figure(row.sigma),
                "–" if row.anova_accepted is None else "accepted" if row.anova_accepted else "rejected",
                duration(row.rlq_s),
                f"{row.ilq:,.2f}",
                _figure(row.qs),
            ]
            for row in self.metrics
            if row.rate == declared.rate_max and not row.plan
        ]
        columns = ("operator", "Coq", "σ", "ANOVA", "Rlq", "Ilq", f"QS at {declared.outage_max_s:g} s")
        return small_table(f"What {declared.fault} do to {declared.name}: {done}", columns, rows)


class CampaignWriter:
    """A campaign's directory being written, by one process at a time. Opening an existing one resumes it::

    with CampaignWriter(path, declaration=declaration, graph=graph) as writer:
        done = writer.finished_trials()
        for rows in trials_in_batches(skip=done):
            writer.append(trials=rows)
        writer.finish(evaluate(writer.records()), timing={"seconds": 41.2})
    """

    def __init__(self, path: Path, *, declaration: CampaignDeclaration, graph: CampaignGraph) -> None:
        self.path = path
        # Through JSON and back, so that what is compared with a manifest is what a manifest can hold.
        about = {"declaration": declaration_json(declaration), "graph": asdict(graph)}
        self._about: dict[str, Any] = json.loads(_json(about))
        try:
            (path / "parts").mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)
        except OSError as error:
            raise RunError(f"Campaign directory {path} cannot be made ({error.strerror}). Name another.") from error
        try:
            self._take_over()
            found = self.records()
            self._trials: set[TrialKey] = set()
            self._golden: set[int] = set()
            self._affected: set[AffectedKey] = set()
            self._remember(found.trials, found.golden, found.affected)
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def finished(self) -> bool:
        """Whether the result is written: nothing is left to do."""
        return _read_result(self.path) is not None

    def finished_trials(self) -> frozenset[TrialKey]:
        return frozenset(self._trials)

    def finished_golden(self) -> frozenset[int]:
        return frozenset(self._golden)

    def finished_affected(self) -> frozenset[AffectedKey]:
        return frozenset(self._affected)

    def records(self) -> CampaignRecords:
        """What is there so far."""
        return CampaignRecords.read(self.path)

    def append(
        self,
        *,
        trials: Sequence[TrialRow] = (),
        golden: Sequence[GoldenRow] = (),
        affected: Sequence[AffectedRow] = (),
    ) -> None:
        """Make rows durable; each kind appears whole or not at all, affected sections before the trials on them."""
        assert not self.finished, "a finished campaign takes no more rows"
        for name, rows in (("golden", golden), ("affected", affected), ("trials", trials)):
            if rows:
                self._write_part(name, [_row(row) for row in rows])
        self._remember(trials, golden, affected)

    def finish(self, metrics: Sequence[MetricsRow], *, timing: Mapping[str, Any] | None = None) -> None:
        """Write the result and remove the parts. Done again, or resumed in the middle, it gives the same bytes."""
        records = self.records()
        digests = {}
        for name, rows in (("golden", records.golden), ("affected", records.affected), ("trials", records.trials)):
            data = _parquet([_row(row) for row in rows], _SCHEMAS[name])
            write_whole(self.path / f"{name}.parquet", data)
            digests[f"{name}.parquet"] = hashlib.sha256(data).hexdigest()
        result = {
            "format": FORMAT,
            "declaration": self._about["declaration"],
            "metrics": [asdict(row) for row in metrics],
            "tables": digests,
        }
        write_whole(self.path / "result.json", _json(result))
        self._write_manifest("finished", timing=dict(timing or {}))
        self._remove_parts()

    def close(self) -> None:
        """Let others open the directory; what is unfinished can be resumed."""
        if self._lock < 0:
            return
        if not self.finished:
            self._write_manifest("stopped")
        os.close(self._lock)
        self._lock = -1

    def _take_over(self) -> None:
        """Start a new campaign here, or check that the one found is the same and clear what a crash left."""
        if not (self.path / "manifest.json").exists():
            self._next = dict.fromkeys(_SCHEMAS, 0)
            self._write_manifest("running")
            return
        found = read_manifest(self.path)
        for name in ("declaration", "graph"):
            if found.get("kind") != KIND or found[name] != self._about[name]:
                raise RunError(
                    f"{self.path} holds another campaign: {_difference(found.get(name), self._about[name])}. "
                    f"Name a new directory, or run the campaign that is there."
                )
        if self.finished:
            if found["ended"] != "finished":  # The crash came between the result and the clearing up.
                self._write_manifest("finished")
            self._remove_parts()
            return
        for folder in (self.path, self.path / "parts"):
            LocalFolder(folder).tidy(lambda name: False)
        self._next = {}
        for name in _SCHEMAS:
            _, unreadable = _read_parts(self.path, name)
            for part in unreadable:
                part.unlink()
            self._next[name] = 1 + max((number for number, _ in _parts(self.path, name)), default=-1)
        self._write_manifest("running")

    def _remember(
        self, trials: Sequence[TrialRow], golden: Sequence[GoldenRow], affected: Sequence[AffectedRow]
    ) -> None:
        self._trials.update(row.key for row in trials)
        self._golden.update(row.key for row in golden)
        self._affected.update(row.key for row in affected)

    def _write_part(self, name: str, rows: list[dict[str, Any]]) -> None:
        number = self._next[name]
        assert number <= _PARTS_MAX, "append many rows at a time, not one"
        write_whole(self.path / "parts" / f"{name}-{number:06d}.parquet", _parquet(rows, _SCHEMAS[name]))
        self._next[name] += 1

    def _write_manifest(self, ended: str, **more: Any) -> None:
        manifest = {"format": FORMAT, "kind": KIND, **self._about, "machine": machine(), "ended": ended, **more}
        write_whole(self.path / "manifest.json", _json(manifest))

    def _remove_parts(self) -> None:
        folder = self.path / "parts"
        if folder.exists():
            for part in folder.iterdir():
                part.unlink()
            folder.rmdir()
            sync_folder(self.path)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run directory of any kind."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        raise RunError(f"{path} is no run directory: it has no manifest.json.") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path / 'manifest.json'} cannot be read ({error}).") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise RunError(f"{path / 'manifest.json'} is not a manifest of ours: it names no format.")
    if manifest["format"] > FORMAT:
        raise RunError(f"{path} was written by a newer Spillway (format {manifest['format']}). Use that one.")
    return manifest


def _read(path: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a campaign's records."""
    result = _read_result(path)
    tables = {name: _read_final(path, name, result) if result else _read_parts(path, name)[0] for name in _SCHEMAS}
    return {
        "declaration": declaration_from_json(manifest["declaration"]),
        "graph": graph_from_json(manifest["graph"]),
        "golden": _merged(path, (GoldenRow(**row) for row in _rows(tables["golden"]))),
        "affected": _merged(path, (AffectedRow(**row) for row in _rows(tables["affected"]))),
        "trials": _merged(path, (TrialRow(**row) for row in _rows(tables["trials"]))),
        "metrics": tuple(MetricsRow(**row) for row in result["metrics"]) if result else (),
        "finished": result is not None,
        "about": {name: manifest[name] for name in manifest if name not in ("declaration", "graph")},
    }


def _read_result(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((path / "result.json").read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{path / 'result.json'} cannot be read ({error}).") from error
    return found


def _read_final(path: Path, name: str, result: Mapping[str, Any]) -> pa.Table:
    file = path / f"{name}.parquet"
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RunError(f"{file} cannot be read ({error.strerror}), though {path / 'result.json'} names it.") from error
    if hashlib.sha256(data).hexdigest() != result["tables"][file.name]:
        raise RunError(
            f"{file} is not the table that {path / 'result.json'} was computed from. Run the campaign again."
        )
    return pq.read_table(io.BytesIO(data), schema=_SCHEMAS[name])


def _parts(path: Path, name: str) -> list[tuple[int, Path]]:
    folder = path / "parts"
    names = os.listdir(folder) if folder.exists() else []
    matches = [match for match in map(_PART.fullmatch, names) if match and match[1] == name]
    return sorted((int(match[2]), folder / match[0]) for match in matches)


def _read_parts(path: Path, name: str) -> tuple[pa.Table, list[Path]]:
    """The rows of all parts that can be read, and the parts that cannot."""
    tables, unreadable = [_SCHEMAS[name].empty_table()], []
    for _, part in _parts(path, name):
        try:
            tables.append(pq.read_table(part, schema=_SCHEMAS[name], page_checksum_verification=True))
        except (OSError, pa.ArrowException):
            unreadable.append(part)
    return pa.concat_tables(tables), unreadable


def _parquet(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema=schema)
    # One row group: how rows came in is not to be seen.
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True, row_group_size=max(len(rows), 1))
    return sink.getvalue()


def _row(row: GoldenRow | AffectedRow | TrialRow) -> dict[str, Any]:
    return {one.name: getattr(row, one.name) for one in fields(row)}


def _rows(table: pa.Table) -> Iterable[dict[str, Any]]:
    for row in table.to_pylist():
        yield {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def _merged(path: Path, rows: Iterable[_Row]) -> tuple[_Row, ...]:
    """Rows sorted by their keys, each once: a trial that was run again has to give what it gave before."""
    by_key: dict[Any, _Row] = {}
    for row in rows:
        if by_key.setdefault(row.key, row) != row:
            raise RunError(
                f"{path}: {type(row).__name__} {row.key} was recorded twice with different results, so these trials "
                f"do not repeat. Look for a score or operator that depends on time, order or unseeded randomness."
            )
    return tuple(by_key[key] for key in sorted(by_key))


def _difference(found: Any, wanted: Any, name: str = "it") -> str:
    """Where two JSON values first differ, in words.

    >>> _difference({"targets": ["a"], "seed": 1}, {"targets": ["b"], "seed": 1})
    "targets is ['a'] there and ['b'] here"
    """
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in [*wanted, *(key for key in found if key not in wanted)]:
            if found.get(key) != wanted.get(key):
                return _difference(found.get(key), wanted.get(key), key)
    return f"{name} is {_shortened(found)} there and {_shortened(wanted)} here"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"


def _json(value: Any) -> bytes:
    """JSON text, the same for the same value; a number that JSON does not know has no place in records."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _figure(number: float | None) -> str:
    return "–" if number is None else f"{number:.3g}"


def _locked(path: Path) -> int:
    descriptor = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RunError(f"Campaign directory {path} is being written by another process. Wait for it.") from None
    return descriptor
