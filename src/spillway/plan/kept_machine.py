"""Costs of this machine, measured once by ``spillway profile --costs`` and used by every plan that has none of its own.

    {"format": 1, "spillway": "1.0", "measured_s": 1790000000.0, "machine": {…}, "costs": {"write_core_s": 1e-4, …}}

They lie in the user's folder for what can be measured again, ``$XDG_CACHE_HOME/spillway`` or ``~/.cache/spillway``, and
only that command writes them. Costs of another machine are refused, of another version, and such as are old.
"""

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.given import is_number
from spillway.plan.machine_costs import MachineCosts, costs_from
from spillway.records.plan import this_version
from spillway.records.rundir import machine

FORMAT = 1
AGE_DAYS_MAX = 90

_AGAIN = "Measure them again: spillway profile --costs."


def costs_file() -> Path:
    """Where costs of this machine lie."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "spillway" / "costs.json"


def keep_for_machine(costs: MachineCosts, path: Path, *, clock: Clock | None = None) -> None:
    """Write the costs of this machine to a file."""
    told = {
        "format": FORMAT,
        "spillway": this_version(),
        "measured_s": (clock or SystemClock()).now_s(),
        "machine": this_machine(),
        "costs": asdict(costs),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(told, indent=1, allow_nan=False) + "\n").encode(), private=False)
    except OSError as error:
        raise RunError(
            f"Costs cannot be written to {path} ({error.strerror}). Let XDG_CACHE_HOME name another folder."
        ) from error


def of_machine(path: Path, *, clock: Clock | None = None) -> MachineCosts | None:
    """The costs in a file, none if there is no such file; those of another machine or version, and old ones, raise."""
    if not path.exists():
        return None
    try:
        given: Any = json.loads(path.read_bytes())
        costs = costs_from(given["costs"], path)
        told = {what: given[what] for what in ("format", "spillway", "machine")}
        measured_s = given["measured_s"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path} cannot be read as costs of this machine ({error!r}). {_AGAIN}") from error
    if told["format"] != FORMAT or told["spillway"] != this_version():
        raise RunError(
            f"{path} has costs that Spillway {told['spillway']} measured, and this is {this_version()}. {_AGAIN}"
        )
    if told["machine"] != this_machine():
        raise RunError(f"{path} has costs of another machine: {_short(told['machine'])}. {_AGAIN}")
    days = ((clock or SystemClock()).now_s() - measured_s) / 86_400 if is_number(measured_s, least=0) else -1.0
    if not 0 <= days <= AGE_DAYS_MAX:
        raise RunError(f"{path} has costs that are {days:,.0f} days old; {AGE_DAYS_MAX} are allowed. {_AGAIN}")
    return costs


def this_machine() -> dict[str, Any]:
    """What costs depend on."""
    about = machine()
    return {"name": platform.node(), **{what: about[what] for what in ("cores", "memory_bytes", "system")}}


def _short(given: Any) -> str:
    return ", ".join(map(str, given.values())) if isinstance(given, dict) else repr(given)
