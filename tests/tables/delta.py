"""A plain reader of Delta tables, which knows nothing of the library that writes: a log of JSON, files of Parquet."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A table as it is."""

    rows: pa.Table
    commits: list[list[dict[str, Any]]]
    newest: dict[str, int]  # batches, by application
    strays: int  # files that no commit has ever named, half-written ones among them


def read(path: Path) -> Read:
    """All of a table whose whole log is there."""
    commits = [
        [json.loads(line) for line in file.read_text().splitlines()]
        for file in sorted((path / "_delta_log").glob("*.json"))
    ]
    live: dict[str, None] = {}
    named: set[str] = set()
    newest: dict[str, int] = {}
    for action in (action for commit in commits for action in commit):
        if "add" in action:
            live[unquote(action["add"]["path"])] = None
        elif "remove" in action:
            del live[unquote(action["remove"]["path"])]
        elif "txn" in action:
            newest[action["txn"]["appId"]] = action["txn"]["version"]
        named |= live.keys()
    there = {str(file.relative_to(path)) for file in path.rglob("*.parquet*") if "_delta_log" not in file.parts}
    tables = [pq.ParquetFile(path / name).read() for name in live]
    rows = pa.concat_tables(tables) if tables else pa.table({})
    return Read(rows=rows, commits=commits, newest=newest, strays=len(there - named))
