"""A graph of operators, as the user draws it.

Drawing is free: operators and streams may come in any order. ``Graph.checked`` then refuses anything that is not
well-formed and returns the frozen graph that runtimes work from.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from html import escape
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_name, check_whole
from spillway.graph.checked import CheckedGraph
from spillway.graph.checks import check
from spillway.graph.contracts import Contract
from spillway.graph.declaration import Declaration
from spillway.graph.delays import DELAY_MAX, check_delay
from spillway.graph.drawing import draw_mermaid, draw_svg, draw_text
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.growing import Files
from spillway.graph.jobs import check_jobs, cut
from spillway.graph.kafka.topic import Topic
from spillway.graph.nodes import Edge, Exit, Job, Node, Source, Stream, is_feed
from spillway.graph.protections import Protection
from spillway.graph.replicas import Group, Member, Replicate
from spillway.graph.sinks import Sink
from spillway.graph.spark_types import arrow_schema
from spillway.graph.summed import Summed
from spillway.graph.watermarks import event_time


class Graph:
    """A graph being drawn.

    ``shards`` is how many shards keyed operators have unless they say otherwise. ``delay_max`` is how late output may
    be on several hosts when one is gone: so long its shards wait for it, less the time that a recovery takes, before
    they are recovered on another. By default that is a minute. ``protect`` is the protection of operators with state
    that name none of their own; a ``Replicate`` has every job run twice, and leaves what protects each operator to it.
    """

    def __init__(
        self,
        name: str,
        *,
        shards: int = 2,
        delay_max: timedelta = DELAY_MAX,
        protect: Protection | Replicate | None = None,
    ) -> None:
        check_name("graph", name)
        check_whole(f"Graph {name!r}: shards", shards, least=1)
        check_delay(f"Graph {name!r}", delay_max)
        self.name = name
        self.shards = shards
        self.delay_max = delay_max
        self.protect = None if isinstance(protect, Replicate) else protect
        self._replicate = protect if isinstance(protect, Replicate) else None
        self._nodes: dict[str, Node] = {}
        self._declared: dict[str, Declaration] = {}  # operators as they were given, whoever protects them
        self._edges: list[Edge] = []
        self._delays: dict[Stream, timedelta] = {}
        self._jobs: dict[str, Job] = {}
        self.member: Member | None = None
        """Which replica this is, if it is the graph of one."""

    @property
    def nodes(self) -> Mapping[str, Node]:
        return MappingProxyType(self._nodes)

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(self._edges)

    @property
    def delays(self) -> Mapping[Stream, timedelta]:
        """How late tuples of a stream may be, where that was said."""
        return MappingProxyType(self._delays)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs that were declared, without what is in none of them unless that is replicated."""
        declared = tuple(self._jobs.values())
        if self._replicate is None:
            return declared
        operators = [name for name, node in self._nodes.items() if not isinstance(node, Source | Exit)]
        # Sources and sinks are not replicated (seed 001, 5.5.3), so neither is a job that has nothing else.
        copied = [
            replace(job, group=self._replicate) if job.group is None and {*job.nodes} & {*operators} else job
            for job in declared
        ]
        rest = tuple(name for name in operators if not any(name in job.nodes for job in declared))
        return (*copied, *([Job(name=self.name, nodes=rest, group=self._replicate)] if rest else []))

    def source(
        self,
        name: str,
        data: Any,
        *,
        seq: str = SEQ,
        time: str | None = None,
        lateness: int | timedelta | None = None,
        ahead_max: int | timedelta | None = None,
    ) -> Stream:
        """Let tuples in from a trace, a generator, files, a topic of Kafka, or any streaming DataFrame.

        ``seq`` names the column that numbers them: int64, strictly ascending in the order in which tuples were made.

        ``time`` names the column that says when they happened, a timestamp or an integer. Windows of that column
        downstream (``Hopping(time=…)``) then end by a watermark: the highest time of the batches so far less
        ``lateness``, and tuples that come later than that are put aside, and counted. So are those whose time is more
        than ``ahead_max`` after all the others', by default a day: see ``graph.watermarks``.
        """
        if isinstance(data, Summed):
            self._enter(Source(name, data, pa.schema([SEQ_FIELD, *data.tuples]), SEQ))
            return Stream(name, "out")
        declared = is_feed(data) or isinstance(data, Files | Topic)
        schema = data.schema if declared else arrow_schema(data, f"Source {name!r}")
        if seq not in schema.names or schema.field(seq).type != pa.int64():
            came = ", ".join(f"{f.name} {f.type}" for f in schema)
            raise GraphError(f"Source {name!r}: a column {seq!r} of int64 is wanted to number tuples; got {came}.")
        if seq != SEQ and SEQ in schema.names:
            raise GraphError(
                f"Source {name!r}: tuples are numbered by {seq!r}, which will be called {SEQ!r}, but there is a column "
                f"{SEQ!r} already. Drop or rename it before the source."
            )
        others = [column for column in schema if column.name != seq]
        entered = pa.schema([SEQ_FIELD, *others])
        times = event_time(f"Source {name!r}", entered, time=time, lateness=lateness, ahead_max=ahead_max)
        self._enter(Source(name, data, entered, seq, times))
        return Stream(name, "out")

    def add(self, operator: Declaration, *streams: Stream, **ports: Stream) -> Stream:
        """Add an operator that reads ``streams``, in the order of its input ports or by their names.

        Returns its first output; ``graph.output(operator, port)`` gives others.
        """
        unknown = [port for port in ports if port not in operator.inputs]
        if len(streams) > len(operator.inputs) or unknown:
            raise GraphError(
                f"Operator {operator.name!r} has input ports {', '.join(operator.inputs)}; got {len(streams)} streams"
                + (f" and port {unknown[0]!r}." if unknown else ".")
            )
        if not operator.outputs:
            raise GraphError(
                f"Operator {operator.name!r} has no output port; it wants at least one, if only to a sink."
            )
        reads = [*zip(operator.inputs, streams, strict=False), *ports.items()]
        for _, stream in reads:
            _check_stream(operator.name, stream)
        self._enter(self._protected(operator))
        self._declared[operator.name] = operator
        for port, stream in reads:
            self.connect(stream, operator.name, port)
        return Stream(operator.name, operator.outputs[0])

    def output(self, operator: Declaration, port: str) -> Stream:
        if port not in operator.outputs:
            raise GraphError(
                f"Operator {operator.name!r} has no output port {port!r}; it has {', '.join(operator.outputs)}."
            )
        return Stream(operator.name, port)

    def sink(self, name: str, stream: Stream, sink: Sink, *, contract: Contract | None = None) -> None:
        """Let a stream out; with a contract, the graph is refused if what is declared upstream cannot keep it."""
        _check_stream(name, stream)
        if not isinstance(sink, Sink):
            raise GraphError(f"Sink {name!r}: a sink such as Parquet(folder) is wanted; got {type(sink).__name__}.")
        if contract is not None and not isinstance(contract, Contract):
            raise GraphError(f"Sink {name!r}: contract is a Contract(...); got {type(contract).__name__}.")
        self._enter(Exit(name, sink, contract))
        self.connect(stream, name, "in")

    def connect(self, stream: Stream, node: str, port: str, *, feedback: bool = False, durable: bool = False) -> None:
        """Lead a stream to an input port; ``feedback`` for one that goes upstream.

        Feedback of one batch reaches every shard of the operator at the start of the next, before any other tuple.
        If memory is lost in between it is lost too, unless it is ``durable``.
        """
        _check_stream(node, stream)
        if durable and not feedback:
            raise GraphError(f"Stream {stream} to {node!r}: only feedback can be durable; other tuples are read again.")
        self._edges.append(Edge(stream, node, port, feedback, durable))

    def limit(self, stream: Stream, *, delay_max: timedelta) -> None:
        """Say how late tuples of a stream may be: whoever makes them waits for a host that is gone no longer."""
        _check_stream(self.name, stream)
        check_delay(f"Stream {stream}", delay_max)
        self._delays[stream] = delay_max

    def job(
        self,
        name: str,
        operators: Sequence[Declaration | str],
        *,
        drops: Sequence[Stream] = (),
        protect: Protection | Group | None = None,
    ) -> None:
        """Have some operators run as a job of their own, which fails, goes back and starts again alone.

        Whatever is in no job is the job of the graph's own name. A sink goes with what it is fed by and a source with
        the first job that reads it, unless they are named among ``operators``, too. Streams between jobs are kept in
        memory by the job that writes them until the others have what they need of them. Of those in ``drops`` tuples
        that are put out while this job is down are dropped instead, and counted. ``protect`` takes the place of the
        graph's; a ``Group`` has the job run as several replicas, each protected as its operators say.
        """
        check_name("job", name)
        where = f"Graph {self.name!r}, job {name!r}"
        if name in self._jobs:
            raise GraphError(f"Graph {self.name!r}: there are two jobs named {name!r}; names must be unique.")
        if isinstance(operators, str) or not operators:
            raise GraphError(f"{where}: a list of operators is wanted, at least one; got {operators!r}.")
        nodes = tuple(given if isinstance(given, str) else _name_of(where, given) for given in operators)
        for stream in drops:
            _check_stream(name, stream)
        group, protect = (protect, None) if isinstance(protect, Group) else (None, protect)
        self._jobs[name] = Job(name=name, nodes=nodes, drops=tuple(drops), protect=protect, group=group)
        for node in self._declared.keys() & {*nodes}:
            self._nodes[node] = self._protected(self._declared[node])

    def divided(self) -> "dict[str, Graph]":
        """A graph for each job, those first that others read from; the graph itself if it has no jobs."""
        checked = self.checked()
        if not self.jobs:
            return {self.name: self}
        found: dict[str, Graph] = {}
        for part in cut(self, checked):
            name = f"{self.name}-{part.job}"
            graph = Graph(name, shards=self.shards, delay_max=self.delay_max, protect=part.protect)
            graph._nodes = dict(part.nodes)
            graph._edges = list(part.edges)
            graph.member = part.member
            found[part.job] = graph
        return found

    def protected(self, protect: Protection | Mapping[str, Protection]) -> "Graph":
        """The same graph with all that keeps state under this protection, whatever operators, jobs or graph named.

        Or, given operators by name with a protection each, with those under theirs and all else as it was. What runs
        as several replicas goes on to do so.
        """
        made = copy.copy(self)
        if isinstance(protect, Mapping):
            changed = {name: self._under(name, each) for name, each in protect.items()}
            made._jobs = dict(self._jobs)
        else:
            made.protect = protect
            changed = {name: found.protected_by(protect, anyway=True) for name, found in self._declared.items()}
            made._jobs = {name: replace(job, protect=None) for name, job in self._jobs.items()}
        made._declared = self._declared | changed
        made._nodes = {**self._nodes, **changed}
        made._edges, made._delays = list(self._edges), dict(self._delays)
        return made

    def checked(self) -> CheckedGraph:
        """The frozen graph, or a GraphError that names what is wrong."""
        checked = check(self)
        check_jobs(self)
        return checked

    def draw(self, *, style: str = "text") -> str:
        """The graph as plain text, as a Mermaid diagram with ``style="mermaid"``, or drawn with ``style="svg"``."""
        styles = {"text": draw_text, "mermaid": draw_mermaid, "svg": draw_svg}
        if style not in styles:
            raise GraphError(f"draw: style must be one of {', '.join(styles)}; got {style!r}.")
        return styles[style](self._resolved())

    def _repr_html_(self) -> str:
        """In a notebook: drawn, or told in words if it is too large to be read as a drawing."""
        try:
            return self.draw(style="svg")
        except InputError:
            return f"<pre>{escape(self.draw())}</pre>"

    def _resolved(self) -> "Graph":
        """The graph with operators as they are on their inputs; as it was drawn, if it is not well-formed yet."""
        try:
            operators = check(self).operators
        except GraphError:
            return self
        resolved = copy.copy(self)
        resolved._nodes = {name: operators.get(name, node) for name, node in self._nodes.items()}
        return resolved

    def _under(self, name: str, protect: Protection) -> Declaration:
        """An operator of this name under this protection."""
        found = self._declared.get(name)
        if found is None or not found.stateful:
            known = ", ".join(each for each, operator in self._declared.items() if operator.stateful)
            raise GraphError(
                f"Graph {self.name!r}: {name!r} is no operator that keeps state, which alone is protected by itself; "
                f"there are {known or 'none'}."
            )
        return found.protected_by(protect, anyway=True)

    def _protected(self, operator: Declaration) -> Declaration:
        """An operator as its job protects it, or the graph."""
        jobs = [job.protect for job in self._jobs.values() if operator.name in job.nodes and job.protect is not None]
        protect = jobs[0] if jobs else self.protect
        return operator if protect is None else operator.protected_by(protect)

    def _enter(self, node: Node) -> None:
        check_name("node", node.name)
        if node.name in self._nodes:
            raise GraphError(f"Graph {self.name!r}: there are two nodes named {node.name!r}; names must be unique.")
        self._nodes[node.name] = node


def _name_of(where: str, given: object) -> str:
    name = getattr(given, "name", None)
    if not isinstance(name, str):
        raise GraphError(f"{where}: operators, or their names, are wanted; got {type(given).__name__}.")
    return name


def _check_stream(reader: str, stream: object) -> None:
    if not isinstance(stream, Stream):
        raise GraphError(
            f"{reader!r} wants to read a stream, as source() and add() return them; got {type(stream).__name__}."
        )
