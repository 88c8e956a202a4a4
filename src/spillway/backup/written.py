"""Protections in a file, so that a graph runs as planned without a change to its code: TOML, read by whoever runs it.

    graph = "bargain"

    [operators]                            # what keeps state, and is in no job below or in a group
    counts = "approximate:theta=1e5"

    [jobs.Aggregator]                      # operators that fail and come back as one
    operators = ["Aggregator"]
    protect = "coordinated:every=60s"

    [jobs.QuoteFilter]
    operators = ["QuoteFilter"]
    protect = "nothing"
    drops = ["TradeQuote.out"]             # streams whose tuples are lost while it is down, instead of kept

Protections are written as on a command line. Whatever is unknown in a file is refused by its name.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spillway.backup.policies import protections
from spillway.errors import GraphError
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.graph.protections import Protection
from spillway.graph.replicas import Group
from spillway.graph.spelling import Spelling

BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenJob:
    """A job as a file has it."""

    name: str
    operators: tuple[str, ...]
    protect: Protection | Group | None = None
    drops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The protections of a graph as a file has them."""

    graph: str
    operators: Mapping[str, Protection] = field(default_factory=dict)
    jobs: tuple[WrittenJob, ...] = ()

    def toml(self, *, comments: Sequence[str] = ()) -> str:
        """The text that reads as this."""
        lines = [*(f"# {line}".rstrip() for comment in comments for line in comment.splitlines())]
        lines += [f"graph = {_quoted(self.graph)}"]
        if self.operators:
            lines += ["", "[operators]"]
            lines += [f"{_key(name)} = {_quoted(_spelled(protect))}" for name, protect in self.operators.items()]
        for job in self.jobs:
            lines += ["", f"[jobs.{_key(job.name)}]", f"operators = {_list(job.operators)}"]
            lines += [] if job.protect is None else [f"protect = {_quoted(_spelled(job.protect))}"]
            lines += [f"drops = {_list(job.drops)}"] if job.drops else []
        return "\n".join(lines) + "\n"

    def applied(self, graph: Graph) -> Graph:
        """The graph under these protections, whatever it names itself."""
        if graph.name != self.graph:
            raise GraphError(f"These protections are of graph {self.graph!r}, not of {graph.name!r}.")
        if self.jobs and graph.jobs:
            raise GraphError(
                f"Graph {graph.name!r} was cut into jobs already, and these protections would do so, too. Take one out."
            )
        streams = {str(edge.stream): edge.stream for edge in graph.edges}
        own = dict(self.operators)
        for job in self.jobs:
            _known(graph, f"job {job.name!r}", job.operators)
            if isinstance(job.protect, Protection):
                own |= {name: job.protect for name in job.operators if _stateful(graph, name)}
        made = graph.protected(own)
        for job in self.jobs:
            made.job(
                job.name,
                job.operators,
                drops=[_stream(graph, job, name, streams) for name in job.drops],
                protect=job.protect,
            )
        return made


def read_protections(path: Path) -> Written:
    """The protections in a file."""
    try:
        if path.stat().st_size > BYTES_MAX:
            raise GraphError(f"Protections {path}: more than {BYTES_MAX:,} bytes; it is none of ours.")
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GraphError(f"Protections {path} cannot be read ({error}).") from error
    try:
        return _written(given)
    except GraphError as error:
        raise GraphError(f"Protections {path}: {error}") from error


def _written(given: dict[str, Any]) -> Written:
    graph = _taken(given, "graph", str, "")
    if not graph:
        raise GraphError("'graph' must be the name of the graph they are for.")
    operators = _taken(given, "operators", dict, {})
    jobs = _taken(given, "jobs", dict, {})
    _none_left(given, "")
    found = {}
    for name, text in operators.items():
        protect = _protection(f"operator {name!r}", text)
        if isinstance(protect, Group):
            raise GraphError(f"operator {name!r}: a group is a job's; put it into [jobs.{name}].")
        found[name] = protect
    return Written(graph=graph, operators=found, jobs=tuple(_job(name, each) for name, each in jobs.items()))


def _job(name: str, given: Any) -> WrittenJob:
    if not isinstance(given, dict):
        raise GraphError(f"job {name!r} must be a table with its operators; got {given!r}.")
    fields = dict(given)
    operators, drops = _names(fields, name, "operators"), _names(fields, name, "drops")
    protect = fields.pop("protect", None)
    _none_left(fields, f"jobs.{name}.")
    return WrittenJob(
        name=name,
        operators=operators,
        protect=None if protect is None else _protection(f"job {name!r}", protect),
        drops=drops,
    )


def _protection(who: str, text: Any) -> Protection | Group:
    known = {kind.spelling.word: kind for kind in _kinds() if isinstance(kind.spelling, Spelling)}
    word, _, settings = str(text).partition(":")
    if not isinstance(text, str) or word not in known:
        raise GraphError(f"{who}: {text!r} is no protection; there are {', '.join(known)}.")
    kind = known[word]
    given = dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)
    assert isinstance(kind.spelling, Spelling)
    try:
        return kind(**kind.spelling.read(given))
    except (ValueError, TypeError) as error:
        raise GraphError(f"{who}: {text!r} should be {kind.spelling.form} ({error}).") from error


def _kinds() -> tuple[type[Protection] | type[Group], ...]:
    return (*protections(), Group)


def _spelled(protect: Protection | Group) -> str:
    if not isinstance(protect.spelling, Spelling):
        raise GraphError(f"{protect.describe()} cannot be written in a file: its declaration has no spelling.")
    return protect.spelling.write(protect)


def _stream(graph: Graph, job: WrittenJob, name: str, streams: Mapping[str, Stream]) -> Stream:
    if name not in streams:
        raise GraphError(
            f"Graph {graph.name!r}, job {job.name!r}: there is no stream {name!r} to drop; there are "
            f"{', '.join(streams)}."
        )
    return streams[name]


def _known(graph: Graph, who: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in graph.nodes:
            raise GraphError(f"Graph {graph.name!r}, {who}: there is no {name!r}; there are {', '.join(graph.nodes)}.")


def _stateful(graph: Graph, name: str) -> bool:
    return bool(getattr(graph.nodes[name], "stateful", False))


def _taken(given: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = given.pop(name, default)
    if not isinstance(value, kind):
        raise GraphError(f"{name!r} must be {'a table' if kind is dict else 'text'}; got {value!r}.")
    return value


def _names(given: dict[str, Any], job: str, what: str) -> tuple[str, ...]:
    value = given.pop(what, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise GraphError(f"job {job!r}: {what!r} must be a list of names; got {value!r}.")
    return tuple(value)


def _none_left(given: Mapping[str, Any], where: str) -> None:
    if given:
        raise GraphError(f"{where}{next(iter(given))} means nothing here.")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _key(name: str) -> str:
    """A name as a key of TOML: bare, as those are that a graph allows."""
    return name if name.isascii() and name.replace("-", "").replace("_", "").isalnum() else _quoted(name)


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, names))}]"
