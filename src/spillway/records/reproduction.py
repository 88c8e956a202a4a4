"""What the reproduction of a paper's experiments found: a manifest and one Parquet table for each figure."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.records.rundir import machine

FORMAT = 1
KIND = "reproduction"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that a paper says, or that must hold, beside what was found: a number of each, or words."""

    name: str
    holds: bool
    ours: float | str | None
    paper: float | str | None  # None if the paper says nothing of it
    decides: bool = True  # whether a reproduction in which it does not hold has failed


@dataclass(slots=True, kw_only=True)
class Reproduction:
    """Rows of each figure by its name, the paper's own figures beside them, and checks that hold or do not."""

    paper: str
    settings: Row = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    published: dict[str, Row] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    @property
    def all_hold(self) -> bool:
        """Whether all hold that decide."""
        return all(check.holds for check in self.checks if check.decides)

    def add(self, table: str, row: Row) -> None:
        self.tables.setdefault(table, []).append(row)

    def write(self, path: Path) -> None:
        """Write the run directory; the manifest last, so that one without it is unfinished."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, rows in self.tables.items():
                sink = pa.BufferOutputStream()
                columns = dict.fromkeys(column for row in rows for column in row)
                whole = [{column: row.get(column) for column in columns} for row in rows]
                pq.write_table(pa.Table.from_pylist(whole), sink)
                write_whole(path / f"{name}.parquet", sink.getvalue().to_pybytes())
            manifest = {
                "format": FORMAT,
                "kind": KIND,
                "paper": self.paper,
                "settings": self.settings,
                "tables": sorted(self.tables),
                "published": self.published,
                "checks": [asdict(check) for check in self.checks],
                "machine": machine(),
            }
            write_whole(path / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be written ({error.strerror}). Name another.") from error

    @classmethod
    def read(cls, path: Path, manifest: Row) -> "Reproduction":
        if manifest.get("format") != FORMAT:
            raise RunError(f"{path} has records of format {manifest.get('format')}; this version reads {FORMAT}.")
        try:
            tables = {name: pq.read_table(path / f"{name}.parquet").to_pylist() for name in manifest["tables"]}
            return cls(
                paper=manifest["paper"],
                settings=manifest["settings"],
                tables=tables,
                published=manifest["published"],
                checks=_checks(manifest["checks"]),
            )
        except (OSError, KeyError, TypeError, pa.ArrowException) as error:
            raise RunError(f"The records in {path} are damaged or incomplete: {error}.") from error


def _checks(written: Any) -> list[Check]:
    """Checks as they were written; early records have only their names and whether they hold."""
    if isinstance(written, dict):
        return [Check(name=name, holds=holds, ours=None, paper=None) for name, holds in written.items()]
    return [Check(**check) for check in written]
