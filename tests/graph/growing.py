"""Files of every format, made for tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, ipc


def write_parquet(path: Path, content: pa.Table) -> None:
    pq.write_table(content, path, row_group_size=7)


def write_arrow(path: Path, content: pa.Table) -> None:
    with ipc.new_file(path, content.schema) as writer:
        writer.write_table(content, max_chunksize=7)


def write_csv(path: Path, content: pa.Table) -> None:
    csv.write_csv(content, path)


def write_json(path: Path, content: pa.Table) -> None:
    import json

    path.write_text("".join(json.dumps(row) + "\n" for row in content.to_pylist()))


WRITERS: dict[str, Callable[[Path, pa.Table], None]] = {
    "parquet": write_parquet,
    "arrow": write_arrow,
    "csv": write_csv,
    "json": write_json,
}


def put(folder: Path, name: str, content: pa.Table, *, changed_s: int | None = None) -> Path:
    """A file that appears whole, as its name says, changed at a time."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f"_{path.name}")
    WRITERS["json" if path.suffix == ".jsonl" else path.suffix.removeprefix(".")](hidden, content)
    if changed_s is not None:
        os.utime(hidden, (changed_s, changed_s))
    hidden.rename(path)
    return path
