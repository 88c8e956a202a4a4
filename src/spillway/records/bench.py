"""What a bench measured: a run directory of kind "bench".

manifest.json     format, kind, which bench, its settings (seed and sizes), what else its figures depend on, machine and
                  versions, how long it took, how it ended
samples.parquet   one row per measurement, as it was taken; every figure is computed from these
"""

import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.records.campaign import read_manifest
from spillway.records.rundir import machine

FORMAT = 1
KIND = "bench"
ROWS_MAX = 5_000_000

SAMPLES_SCHEMA = pa.schema(
    [
        pa.field("subject", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("counted", pa.bool_(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement."""

    subject: str  # what was measured: a system, a protection, a size
    measure: str  # with its unit last: batch_s, backup_bytes
    value: float
    turn: int = 0  # subjects take turns; which one of its own this was
    number: int = 0  # within the turn
    counted: bool = True  # False: it only warmed up, and no figure is computed from it


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRecords:
    """A run directory of kind "bench", read or to be written."""

    bench: str
    settings: dict[str, Any]  # all that the bench was given
    samples: tuple[Sample, ...]
    about: dict[str, Any]  # what else its figures depend on or stand beside: versions, a paper's figures
    seconds: float  # from start to end
    machine: dict[str, Any]

    def write(self, path: Path) -> None:
        """Samples first: a directory with a manifest is whole."""
        check_free(path)
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([asdict(sample) for sample in self.samples], SAMPLES_SCHEMA), buffer)
        manifest = {
            "format": FORMAT,
            "kind": KIND,
            "bench": self.bench,
            "settings": self.settings,
            "about": self.about,
            "seconds": self.seconds,
            "machine": self.machine,
            "ended": "finished",
        }
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_whole(path / "samples.parquet", buffer.getvalue())
            write_whole(path / "manifest.json", (json.dumps(manifest, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(f"Run directory {path} cannot be written ({error.strerror}). Name another.") from error

    def values(self, subject: str, measure: str, *, turn: int | None = None) -> list[float]:
        """The counted samples of a measure, of all turns or of one, in the order in which they were taken."""
        return [
            sample.value
            for sample in self.samples
            if sample.counted
            and (sample.subject, sample.measure) == (subject, measure)
            and (turn is None or sample.turn == turn)
        ]

    def subjects(self, measure: str) -> list[str]:
        """What has counted samples of a measure, in the order in which it was first measured."""
        return list(dict.fromkeys(s.subject for s in self.samples if s.measure == measure and s.counted))

    def turns(self, subject: str, measure: str) -> list[list[float]]:
        """The counted samples of a measure, turn by turn."""
        numbers = sorted({s.turn for s in self.samples if (s.subject, s.measure) == (subject, measure) and s.counted})
        return [self.values(subject, measure, turn=turn) for turn in numbers]


def recorded(
    bench: str, *, settings: dict[str, Any], samples: Sequence[Sample], about: dict[str, Any], seconds: float
) -> BenchRecords:
    """Records of what was measured on this machine."""
    # Through JSON and back, so that what was just measured is shown as it will be when it is read again.
    plain = json.loads(json.dumps({"settings": settings, "about": about, "machine": machine()}))
    return BenchRecords(bench=bench, samples=tuple(samples), seconds=seconds, **plain)


def check_free(path: Path) -> None:
    """Refuse a directory that holds a run already: samples are taken once, and nobody overwrites them by mistake."""
    if (path / "manifest.json").exists():
        raise RunError(f"{path} holds a run already: name another directory.")


def make_directory(path: Path) -> None:
    """Make the directory that a bench will write to when it ends, so that it fails now and not then."""
    check_free(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"Run directory {path} cannot be made ({error.strerror}). Name another.") from error
    if not os.access(path, os.W_OK):
        raise RunError(f"Run directory {path} cannot be written. Name another.")


def read_bench(path: Path) -> BenchRecords:
    """The records of a finished bench."""
    manifest = read_manifest(path)
    if manifest.get("kind") != KIND:
        raise RunError(f"{path} holds a {manifest.get('kind', 'run')!r}, not a bench.")
    if manifest["format"] != FORMAT:
        raise RunError(f"{path} holds a bench of format {manifest['format']}; this version reads {FORMAT}.")
    try:
        file = path / "samples.parquet"
        if pq.read_metadata(file).num_rows > ROWS_MAX:
            raise RunError(f"{file} has more than {ROWS_MAX:,} rows; it is none of ours.")
        table = pq.read_table(file)
        if not table.schema.equals(SAMPLES_SCHEMA):
            raise ValueError(f"{file.name} has columns {', '.join(table.schema.names)}")
        return BenchRecords(
            bench=str(manifest["bench"]),
            settings=dict(manifest["settings"]),
            samples=tuple(Sample(**row) for row in table.to_pylist()),
            about=dict(manifest["about"]),
            seconds=float(manifest["seconds"]),
            machine=dict(manifest["machine"]),
        )
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} cannot be read as a bench ({type(error).__name__}: {error}).") from error
