"""What operators of a graph cost, put out and remember, as measured or as told: a small JSON file.

    {"format": 1, "graph": "flows",
     "sources": {"packets": {"tuples_per_s": 50000.0}},
     "operators": {"counters": {"state_bytes": 262144,
                                "ports": {"in": {"tuples": 1000000, "cost_s": 2.1e-07, "state_tuples": 8192,
                                                 "selectivity": {"out": 0.02}}}}}}

Reading one checks every field and runs no code. What a newer version wrote is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spillway.errors import ModelError
from spillway.files.durable import write_whole
from spillway.given import is_number, is_whole

FORMAT = 1
BYTES_MAX = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortProfile:
    """One input port: processor seconds per tuple, tuples per tuple on each output port, tuples' worth of state."""

    cost_s: float
    selectivity: Mapping[str, float] = field(default_factory=dict)
    state_tuples: int = 0
    tuples: int = 0  # how many it was measured on; 0 if it was not measured
    tuple_bytes: float = 0.0  # of one that comes in; 0 if it was not measured

    def __post_init__(self) -> None:
        _check("cost_s", self.cost_s, above_zero=True)
        for port, value in self.selectivity.items():
            _check(f"selectivity of {port!r}", value)
        _check_count("state_tuples", self.state_tuples)
        _check_count("tuples", self.tuples)
        _check("tuple_bytes", self.tuple_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProfile:
    """One operator, all its shards together."""

    ports: Mapping[str, PortProfile]
    state_bytes: int = 0
    backup_bytes: float = 0.0  # that backups wrote for a tuple that came in, under the protection it was measured with

    def __post_init__(self) -> None:
        _check_count("state_bytes", self.state_bytes)
        _check("backup_bytes", self.backup_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProfile:
    """Tuples per second from outside."""

    tuples_per_s: float

    def __post_init__(self) -> None:
        _check("tuples_per_s", self.tuples_per_s, above_zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A graph's profile."""

    graph: str
    sources: Mapping[str, SourceProfile]
    operators: Mapping[str, OperatorProfile]

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=2) + "\n"
        try:
            write_whole(path, text.encode(), private=False)
        except OSError as error:
            raise ModelError(f"Profile {path} cannot be written ({error.strerror}). Name another file.") from error


def load_profile(path: Path) -> Profile:
    """Read a profile, or refuse the file with the field that is wrong."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise ModelError(f"Profile {path} has more than {BYTES_MAX:,} bytes; it is none of ours.")
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"Profile {path} cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"Profile {path} is not JSON ({error}).") from error
    try:
        return _profile(given)
    except ModelError as error:
        raise ModelError(f"Profile {path}: {error}") from error


Made = TypeVar("Made", SourceProfile, OperatorProfile, PortProfile)


def _profile(given: Any) -> Profile:
    top = _fields(given, "the file", required={"format", "graph", "sources", "operators"})
    if top["format"] != FORMAT:
        raise ModelError(f"format {FORMAT} is wanted; it has {top['format']!r}. Measure it again with this version.")
    if not isinstance(top["graph"], str):
        raise ModelError(f"graph must be a name; got {top['graph']!r}.")
    return Profile(
        graph=top["graph"],
        sources={name: _source(name, each) for name, each in _mapping(top["sources"], "sources").items()},
        operators={name: _operator(name, each) for name, each in _mapping(top["operators"], "operators").items()},
    )


def _source(name: str, given: Any) -> SourceProfile:
    fields = _fields(given, f"source {name!r}", required={"tuples_per_s"})
    return _made(f"source {name!r}", SourceProfile, fields)


def _operator(name: str, given: Any) -> OperatorProfile:
    what = f"operator {name!r}"
    fields = _fields(given, what, required={"ports"}, optional={"state_bytes", "backup_bytes"})
    ports = {}
    for port, each in _mapping(fields["ports"], f"ports of {what}").items():
        where = f"{what}, port {port!r}"
        known = {"selectivity", "state_tuples", "tuples", "tuple_bytes"}
        found = _fields(each, where, required={"cost_s"}, optional=known)
        found["selectivity"] = _mapping(found.get("selectivity", {}), f"selectivity of {where}")
        ports[port] = _made(where, PortProfile, found)
    return _made(what, OperatorProfile, {**fields, "ports": ports})


def _made(what: str, kind: type[Made], fields: dict[str, Any]) -> Made:
    try:
        return kind(**fields)
    except ModelError as error:
        raise ModelError(f"{what}: {error}") from error


def _fields(given: Any, what: str, *, required: set[str], optional: frozenset[str] | set[str] = frozenset()) -> Any:
    mapping = _mapping(given, what)
    missing, unknown = required - set(mapping), set(mapping) - required - optional
    if missing:
        raise ModelError(f"{what} lacks {', '.join(sorted(missing))}.")
    if unknown:
        raise ModelError(f"{what} has {', '.join(sorted(unknown))}, which is no field of it.")
    return mapping


def _mapping(given: Any, what: str) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ModelError(f"{what} must be a JSON object; got {type(given).__name__}.")
    return dict(given)


def _check(name: str, value: object, *, above_zero: bool = False) -> None:
    if not (is_number(value, above=0) if above_zero else is_number(value, least=0)):
        raise ModelError(f"{name} must be a number {'above 0' if above_zero else 'of 0 or more'}; got {value!r}.")


def _check_count(name: str, value: object) -> None:
    if not is_whole(value, least=0, most=2**52):
        raise ModelError(f"{name} must be a whole number of 0 or more; got {value!r}.")
