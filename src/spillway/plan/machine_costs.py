"""What durable writes and one more process cost on this machine: what the terms of protections are reckoned by."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.given import is_number

_SMALL_FILES, _LARGE_FILES, _LARGE_BYTES = 40, 8, 4_000_000
_STATUS = Path("/proc/self/status")
_PROCESS = """
import spillway.local.run
from spillway.plan.machine_costs import memory_kilobytes
print(memory_kilobytes())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCosts:
    """Per durable file and byte: processor seconds, and seconds; and the memory of a process that does nothing yet."""

    write_core_s: float
    write_core_s_per_byte: float
    write_s: float
    process_bytes: float


def measure_costs(folder: Path) -> MachineCosts:
    """Write small and large files into a folder and remove them; start a process and ask for its memory."""
    with tempfile.TemporaryDirectory(prefix="costs-", dir=folder) as made:
        small_cpu_s, small_s = _written(Path(made), files=_SMALL_FILES, size=64)
        large_cpu_s, _ = _written(Path(made), files=_LARGE_FILES, size=_LARGE_BYTES)
    return MachineCosts(
        write_core_s=small_cpu_s,
        write_core_s_per_byte=max(large_cpu_s - small_cpu_s, 0.0) / _LARGE_BYTES,
        write_s=small_s,
        process_bytes=_process_bytes(),
    )


def kept_costs(path: Path, *, known: Callable[[], MachineCosts | None] = lambda: None) -> MachineCosts:
    """The costs in a file; if there is none those that are known otherwise, or measured, written to it."""
    if not path.exists():
        found = known() or measure_costs(path.parent)
        write_whole(path, (json.dumps(asdict(found), indent=1) + "\n").encode(), private=False)
        return found
    try:
        given = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read as costs ({error}). Remove it, and they are measured again.") from error
    return costs_from(given, path)


def costs_from(given: Any, path: Path) -> MachineCosts:
    """Costs as a file has them."""
    try:
        costs = MachineCosts(**given)
    except TypeError as error:
        raise RunError(f"{path} cannot be read as costs ({error}). Remove it, and they are measured again.") from error
    wrong = [name for name, value in asdict(costs).items() if not is_number(value, least=0)]
    if wrong:
        raise RunError(f"{path}: {wrong[0]} must be a number of 0 or more. Remove it, and it is measured again.")
    return costs


def _written(folder: Path, *, files: int, size: int) -> tuple[float, float]:
    """Processor seconds and seconds of one durable file of a size."""
    data = bytes(size)
    cpu_s, began_s = time.process_time(), time.monotonic()
    for number in range(files):
        write_whole(folder / f"{size}-{number}", data)
    return (time.process_time() - cpu_s) / files, (time.monotonic() - began_s) / files


def memory_kilobytes() -> float:
    """The most memory that this process had so far."""
    # Linux hands on the figure of ``getrusage`` from the process that started this one; that of /proc begins anew.
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / 1024 if sys.platform == "darwin" else float(used)


def _process_bytes() -> float:
    done = subprocess.run([sys.executable, "-c", _PROCESS], capture_output=True, text=True, check=False)
    try:
        return 1024 * float(done.stdout)
    except ValueError:
        return 1024 * memory_kilobytes()  # more than another process would take, and a fair guess
