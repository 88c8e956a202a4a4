"""Where a command leaves its records."""

import time
from pathlib import Path


def run_directory(given: Path | None, name: str) -> Path:
    """The directory that was named; otherwise a new one below runs/, with the time and the name of what is run."""
    return given or Path("runs") / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{name}"
