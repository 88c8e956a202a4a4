"""What a model found: a run directory of kind "model".

manifest.json   format, kind, what was modelled, seed, replication rule, statements, machine, how it ended
points.parquet  one row per setting: parameters, then mean and half width of every measure
"""

import io
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.records.rundir import machine

FORMAT = 1
KIND = "model"
ROWS_MAX = 100_000

MEASURES = (
    "availability",
    "availability_own",
    "availability_any",
    "tainted",
    "tainted_share",
    "within_bound",
    "output",
    "duplicates",
    "lost",
    "delayed",
    "processor_s",
)

POINTS_SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("configuration", pa.string()),
        ("crashed", pa.string()),
        ("tuples_per_s", pa.float64()),
        ("crash_rate", pa.float64()),
        ("recovery_s", pa.float64()),
        ("corruption_rate", pa.float64()),
        ("horizon_s", pa.float64()),
        ("copies", pa.int32()),
        ("replications", pa.int64()),
        ("precise", pa.bool_()),
        ("events", pa.int64()),
        ("skipped", pa.int64()),
        ("jumps", pa.int64()),
        *((f"{name}{part}", pa.float64()) for name in MEASURES for part in ("", "_half_width")),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRow:
    """What a paper says beside what was found."""

    experiment: str
    source: str
    says: str
    found: str
    verdict: str  # "holds", "does not hold" or "open"
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A figure that a paper gives for a measure of one point: the one in which an operator crashed."""

    experiment: str
    crashed: str
    measure: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecords:
    """A run directory of kind "model", read or to be written."""

    modelled: str
    settings: dict[str, Any]  # seed, replication rule, and what else the command was given
    points: pa.Table
    statements: tuple[StatementRow, ...]
    published: tuple[PublishedRow, ...]
    about: dict[str, Any]  # machine, how long it took

    def write(self, path: Path) -> None:
        """Points first: a directory with a manifest is whole."""
        buffer = io.BytesIO()
        pq.write_table(self.points.cast(POINTS_SCHEMA), buffer)
        manifest = {
            "format": FORMAT,
            "kind": KIND,
            "modelled": self.modelled,
            "settings": self.settings,
            "statements": [asdict(row) for row in self.statements],
            "published": [asdict(row) for row in self.published],
            **self.about,
            "machine": machine(),
            "ended": "finished",
        }
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / "points.parquet", buffer.getvalue())
            write_whole(path / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be written ({error.strerror}). Name another.") from error

    @staticmethod
    def read(path: Path, manifest: dict[str, Any]) -> "ModelRecords":
        """The records of a directory whose manifest was read already."""
        if manifest.get("kind") != KIND or manifest.get("format") != FORMAT:
            raise RunError(f"{path} holds no model of format {FORMAT}.")
        try:
            file = path / "points.parquet"
            if pq.read_metadata(file).num_rows > ROWS_MAX:
                raise RunError(f"{file} has more than {ROWS_MAX:,} rows; it is none of ours.")
            points = _filled(pq.read_table(file, schema=POINTS_SCHEMA))
            statements = tuple(_statement(row) for row in manifest["statements"])
            published = tuple(_published(row) for row in manifest["published"])
            modelled, settings = str(manifest["modelled"]), dict(manifest["settings"])
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} cannot be read as a model ({type(error).__name__}: {error}).") from error
        about: dict[str, Any] = {name: manifest[name] for name in ("machine", "seconds") if name in manifest}
        return ModelRecords(
            modelled=modelled,
            settings=settings,
            points=points,
            statements=statements,
            published=published,
            about=about,
        )


def _filled(points: pa.Table) -> pa.Table:
    """Measures that an earlier version did not know are 0 in what it modelled: nothing was kept, nothing bounded."""
    for name in ("within_bound", "delayed"):
        for column in (name, f"{name}_half_width"):
            at = points.schema.get_field_index(column)
            points = points.set_column(at, POINTS_SCHEMA.field(at), points[column].fill_null(0.0))
    return points


def _statement(given: dict[str, Any]) -> StatementRow:
    return StatementRow(**{field.name: str(given.get(field.name, "")) for field in fields(StatementRow)})


def _published(given: dict[str, Any]) -> PublishedRow:
    return PublishedRow(
        experiment=str(given["experiment"]),
        crashed=str(given["crashed"]),
        measure=str(given["measure"]),
        value=float(given["value"]),
    )
