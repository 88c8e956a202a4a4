"""The ways in which a graph is run to be compared with its model: how it is cut into jobs, and how they are protected.

The cut is the same in all: sources are one job and sinks another, neither of which is killed (seed 001, 5.5.3,
replicates neither; what a source that is down would have let in is not lost here but late). Every operator with state
is a job, together with operators without that lead to it alone; operators that lead to several are a job by those.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from spillway.errors import ModelError
from spillway.graph.graph import Graph
from spillway.graph.nodes import Exit, Source, Stream
from spillway.graph.protections import Checkpoint, Exact, Protection
from spillway.graph.replicas import Group, Replicate
from spillway.graph.sinks import Parquet
from spillway.operators.operator import Operator

READING, WRITING = "reading", "writing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What the ways are told of time."""

    checkpoint_s: float = 1.0  # between two backups of an operator, where there are any
    detection_s: float = 1.0  # until one that is silent is taken for dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to run a graph."""

    name: str
    meaning: str
    operators: Callable[[Times], Protection]
    """How operators with state are protected."""
    group: Callable[[Times], Group] | None = None
    """How jobs are replicated, if they are."""
    drops: bool = False
    """Whether what is put out while a reader is down is dropped for it, as in System S."""
    keeps: bool = False
    """Whether replicas lose nothing."""
    fails_over: bool = False
    """Whether another replica has to take over, when one is gone."""


def _checkpoint(times: Times) -> Protection:
    return Checkpoint(every=timedelta(seconds=times.checkpoint_s))


def _exact(times: Times) -> Protection:
    return Exact()


WAYS = {
    way.name: way
    for way in (
        Way(
            name="checkpoint",
            meaning="operators with state are backed up now and then; what comes while a job is down is dropped",
            operators=_checkpoint,
            drops=True,
        ),
        Way(
            name="group",
            meaning="every job is a group of two replicas, whose readers lose nothing by a failover",
            operators=_exact,
            keeps=True,
            fails_over=True,
            group=lambda times: Group(detection=timedelta(seconds=times.detection_s)),
        ),
        Way(
            name="free",
            meaning="every job is a group of two replicas that run freely, backed up now and then",
            operators=_checkpoint,
            fails_over=True,
            group=lambda times: Group(detection=timedelta(seconds=times.detection_s), failover="free running"),
        ),
        Way(
            name="replication",
            meaning="every job runs twice, and readers take what either copy has",
            operators=_exact,
            keeps=True,
            group=lambda times: Replicate(),
        ),
    )
}


def cut(graph: Graph, way: Way, times: Times, *, out: Path) -> Graph:
    """The graph, cut into jobs and protected in a way; its sinks write Parquet into folders below ``out``."""
    group = None if way.group is None else way.group(times)
    replicate = group if isinstance(group, Replicate) else None
    made = writing(graph, out=out, protect=way.operators(times), replicate=replicate)
    for job, nodes in jobs_of(graph).items():
        spared = job in (READING, WRITING)
        drops = _read_from_others(graph, nodes) if way.drops and not spared else ()
        made.job(job, nodes, drops=drops, protect=None if spared or replicate is not None else group)
    return made


def writing(graph: Graph, *, out: Path, protect: Protection | None = None, replicate: Replicate | None = None) -> Graph:
    """The same graph with sinks that write Parquet into folders below ``out``, and perhaps other protections."""
    made = Graph(graph.name, shards=graph.shards, protect=replicate)
    for name, node in graph.nodes.items():
        if isinstance(node, Source):
            made.source(name, node.data, **node.said)
        elif isinstance(node, Operator):
            made.add(node if protect is None else node.protected_by(protect, anyway=True))
        elif not isinstance(node, Exit):
            raise ModelError(f"Operator {name!r} can be drawn but not run, so that no model of it can be tried.")
    for edge in graph.edges:
        if isinstance(graph.nodes[edge.node], Exit):
            made.sink(edge.node, edge.stream, Parquet(str(out / edge.node)))
        else:
            made.connect(edge.stream, edge.node, edge.port, feedback=edge.feedback, durable=edge.durable)
    return made


def jobs_of(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The jobs that a graph is cut into, each with its nodes; refused if there is nothing to kill.

    >>> from spillway.apps import APPS
    >>> bargain = APPS["bargain"]
    >>> feed = bargain.generator(seed=1, tuples=100, tuples_per_batch=100)
    >>> for job, nodes in jobs_of(bargain.build(feed)).items():
    ...     print(job, *nodes)
    reading Source
    TradeQuote TradeQuote
    Aggregator TradeFilter Aggregator
    BargainIndex QuoteFilter VWAP BargainIndex
    writing Sink
    """
    checked = graph.checked()
    if any(edge.feedback for edge in checked.edges):
        raise ModelError(f"Graph {graph.name!r} has feedback, which the model leaves out: it cannot be tried.")
    leads_to: dict[str, frozenset[str]] = {}
    for name in reversed(checked.order):
        if checked.operators[name].stateful:
            leads_to[name] = frozenset({name})
        else:
            leads_to[name] = frozenset().union(*(leads_to.get(edge.node, ()) for edge in checked.out_of(name)))
    if not any(leads_to.values()):
        raise ModelError(f"Graph {graph.name!r} keeps no state, so that there is nothing to protect or to compare.")
    jobs: dict[frozenset[str] | str, list[str]] = {READING: list(checked.sources)}
    for name in checked.order:
        # What leads to no state, or to several, is a job by what it leads to.
        jobs.setdefault(leads_to[name], []).append(name)
    named: dict[str, tuple[str, ...]] = {}
    for key, nodes in jobs.items():
        job = key if isinstance(key, str) else next(iter(key)) if len(key) == 1 else nodes[0]
        named[job] = tuple(nodes)
    return {**named, WRITING: tuple(checked.exits)}


def _read_from_others(graph: Graph, nodes: tuple[str, ...]) -> list[Stream]:
    found = [edge.stream for edge in graph.edges if edge.node in nodes and edge.stream.node not in nodes]
    return list(dict.fromkeys(found))


def killed(jobs: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Those of the jobs that are killed."""
    return {job: nodes for job, nodes in jobs.items() if job not in (READING, WRITING)}
