"""A folder of Parquet files, one sub-folder ``batch=N`` for each batch, which is there whole or not at all.

Tasks write their parts, under names of their own, into a hidden folder beside it. When all are done, whoever drives the
batch says which parts count: those are put into another hidden folder, which then gets the batch's name. Parts of
attempts that failed go. The folder into which tasks write is never that of a batch: a task that was given up, on a host
that was only slow, may open a part at any time. A batch that is run again replaces what it gave before.
"""

import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from spillway.errors import RunError
from spillway.files.folders import open_folder

_BATCH = re.compile(r"batch=(\d+)")


@dataclass(frozen=True, slots=True)
class ParquetFolder:
    """A folder on this machine."""

    path: Path

    def open_part(self, batch: int, schema: pa.Schema) -> "ParquetPart":
        """A part of a batch, to be written by one task."""
        hidden = self._hidden(batch)
        with self._mendable():
            hidden.mkdir(parents=True, exist_ok=True)
            return ParquetPart(self, hidden / uuid.uuid4().hex, schema)

    def finish(self, batch: int, names: Sequence[str], schema: pa.Schema) -> None:
        """Have these parts, and no others, as the content of a batch; without any, its columns are there all the same.

        >>> import tempfile
        >>> schema = pa.schema([("word", pa.string())])
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = ParquetFolder(Path(place))
        ...     part, lost = folder.open_part(3, schema), folder.open_part(3, schema)
        ...     part.write(pa.record_batch([["a"]], schema=schema))
        ...     folder.finish(3, [part.close()], schema)
        ...     [str(file.relative_to(place)) for file in sorted(Path(place).rglob("*.parquet"))]
        ['batch=3/part-00000.parquet']
        """
        if not names:
            names = [self.open_part(batch, schema).close()]
        hidden, whole, final = self._hidden(batch), self.path / f".batch={batch}.whole", self.path / f"batch={batch}"
        with self._mendable():
            shutil.rmtree(whole, ignore_errors=True)  # of one who was killed here
            whole.mkdir()
            for number, name in enumerate(names):
                (hidden / name).rename(whole / f"part-{number:05d}.parquet")
            if final.exists():
                shutil.rmtree(final)
            whole.rename(final)
        shutil.rmtree(hidden, ignore_errors=True)

    @contextmanager
    def _mendable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(
                f"Parquet folder {self.path} cannot be written ({error.strerror or error}). Mend it and run again."
            ) from error

    def _hidden(self, batch: int) -> Path:
        return self.path / f".batch={batch}.part"


def forget_batches(path: str, *, after: int) -> None:
    """Remove the sub-folders of later batches, wherever the folder is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for batch in (2, 10):
    ...         ParquetFolder(Path(place)).finish(batch, [], pa.schema([("word", pa.string())]))
    ...     forget_batches(place, after=2)
    ...     [found.name for found in Path(place).iterdir()]
    ['batch=2']
    """
    root = str(Path(path).absolute()) if "://" not in path else path
    try:
        for name in open_folder(root).names():
            match = _BATCH.fullmatch(name)
            if match and int(match[1]) > after:
                open_folder(root, name).remove_all()
    except OSError as error:
        raise RunError(
            f"Parquet folder {path} cannot be changed ({error.strerror or error}): what came after batch {after} is to "
            f"go from it. Mend it and run again."
        ) from error


class ParquetPart:
    """One file of a batch, being written."""

    def __init__(self, folder: ParquetFolder, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq  # not loaded by those who write none

        self._folder = folder
        self._path = path
        self._writer = pq.ParquetWriter(path, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        with self._folder._mendable():
            self._writer.write_batch(batch)

    def close(self) -> str:
        """All is written; returns the name by which ``ParquetFolder.finish`` knows it."""
        with self._folder._mendable():
            self._writer.close()
        return self._path.name
