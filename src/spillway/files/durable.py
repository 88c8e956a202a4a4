"""Files that are there whole or not at all, even after a crash."""

import contextlib
import os
from pathlib import Path
from typing import Any

UNFINISHED = ".part-"
"""How the name of a half-written file begins, which a process left that died."""


def write_whole(path: Path, data: Any) -> None:
    """Write bytes under another name, make durable, rename: nobody ever sees half of the file."""
    temporary = path.with_name(f"{UNFINISHED}{path.name}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            view = memoryview(data).cast("B")
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):  # what went wrong first is what matters
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what was created, renamed or removed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
