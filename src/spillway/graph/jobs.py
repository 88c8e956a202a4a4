"""A graph cut into jobs: each becomes an ordinary graph, joined to the others by stream logs.

Theory. A job is what seed 003 calls an operator: it fails, goes back and starts again alone. Whatever was named in no
job is the job that has the graph's own name. Sources and sinks go with the operators: a sink with what it is fed by, a
source with the first job that reads it. An edge between two jobs leads through a *stream log*: in the graph of the job
that writes it stands a sink of that kind (``LogOutput``), in that of each job that reads it a source (``LogInput``),
both under the name of the stream. One stream has one log, however many jobs read it. So runtimes run a job as they run
any graph.

A job that is a *group* becomes a graph for each of its replicas. Each has logs of its own and is a reader of its own of
what it reads; who reads from the group is told of all its logs and follows the active one. Its sinks are in a job of
their own, which reads from the group as any other does, so that each output is written by one.

Without feedback, jobs may not wait for each other in a circle: tuples of one batch would have to pass a job twice.
Feedback may go from any job to any other, since it is taken one batch later.

*In step.* Operators put out things batch by batch, so what leaves a job depends on what its batches were. A batch of a
reader is therefore one batch of each job that it reads, by its number, wherever these batches come one for one: then
what leaves is the same however fast each job is, and the same as if the graph were one job. That is so where all
batches are counted by feeds, whose pieces are known from the start, or where all come from one job that takes tuples as
they arrive. A job that reads several of the latter would wait for the slowest of them, perhaps for ever; it takes
whatever is there instead, and notes what that was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.following import event_time_of_log
from spillway.graph.nodes import Drawn, Edge, Exit, Job, Node, Source, Stream
from spillway.graph.protections import Protection
from spillway.graph.replicas import Member, log_of
from spillway.graph.stream_logs import LogInput, LogOutput, LogReader
from spillway.graph.watermarks import EventTime

OUT = "-out"
"""What the name of a group ends with in that of the job its sinks are in: each output is written by one."""

COUNTED = ""
"""The clock of jobs whose batches are counted by feeds; that of others has the name of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """What the graph of one job consists of."""

    job: str
    nodes: Mapping[str, Node]
    edges: tuple[Edge, ...]
    protect: Protection | None  # of the job as a whole, if it has one
    member: Member | None = None  # if it is one of several replicas


def job_of_nodes(graph: Drawn) -> dict[str, str]:
    """The job that each node belongs to, as far as streams lead to it; of a graph that may not be well-formed."""
    named = {node: job.name for job in graph.jobs for node in job.nodes}
    found = {
        name: named.get(name, graph.name)
        for name, node in graph.nodes.items()
        if not isinstance(node, Source | Exit) or name in named
    }
    places = {job: place for place, job in enumerate(_order(_waits(graph.edges, found)))}
    for name, node in graph.nodes.items():
        if isinstance(node, Source) and name not in found:
            readers = [found[edge.node] for edge in graph.edges if edge.stream.node == name and edge.node in found]
            found[name] = min(readers, key=lambda job: places.get(job, len(places)), default=graph.name)
    groups = {job.name for job in graph.jobs if job.group is not None}
    for edge in graph.edges:
        if edge.node not in found and isinstance(graph.nodes.get(edge.node), Exit):
            fed_by = found.get(edge.stream.node, graph.name)
            found[edge.node] = f"{fed_by}{OUT}" if fed_by in groups else fed_by
    return {name: found.get(name, graph.name) for name in graph.nodes}


def check_jobs(graph: Drawn) -> None:
    """Refuse jobs that a graph cannot be cut into; the graph itself is well-formed."""
    where = f"Graph {graph.name!r}"
    seen: dict[str, str] = {}
    for job in graph.jobs:
        for node in job.nodes:
            if node not in graph.nodes:
                raise GraphError(f"{where}: job {job.name!r} names {node!r}, which is not in the graph.")
            if node in seen:
                raise GraphError(
                    f"{where}: {node!r} is in job {seen[node]!r} and in job {job.name!r}; it must be in one."
                )
            seen[node] = job.name
    found = job_of_nodes(graph)
    declared = {job.name for job in graph.jobs}
    operators = [name for name, node in graph.nodes.items() if not isinstance(node, Source | Exit)]
    rest = [name for name in operators if name not in seen]
    if graph.name in declared and rest:
        raise GraphError(
            f"{where}: a job has the graph's own name, which is that of whatever is in no job: {', '.join(rest)}. Name "
            f"these too, or call the job otherwise."
        )
    if graph.jobs:
        _check_protections(graph, found)
        _check_names(graph, found)
    waits = _waits(graph.edges, found)
    circle = _circle(waits)
    if circle:
        streams = [
            f"{edge.stream} to {edge.node!r}" for edge in graph.edges
            if not edge.feedback and found[edge.node] != found[edge.stream.node]
            and {found[edge.node], found[edge.stream.node]} <= set(circle)
        ]  # fmt: skip
        raise GraphError(
            f"{where}: jobs {', '.join(circle)} wait for each other, by {' and '.join(streams)}. Put operators of one "
            f"path into one job, or let a stream that goes back be feedback."
        )
    for job in graph.jobs:
        for stream in job.drops:
            if not any(
                edge.stream == stream and found[edge.node] == job.name != found[stream.node] for edge in graph.edges
            ):
                raise GraphError(
                    f"{where}: job {job.name!r} drops {stream} while it is down, but does not read it from another job."
                )


def cut(graph: Drawn, checked: CheckedGraph) -> tuple[JobPart, ...]:
    """The parts of a well-formed graph, each job after those it reads from."""
    check_jobs(graph)
    found = job_of_nodes(graph)
    waits = _waits(graph.edges, found)
    clocks = _clocks(checked, found, waits)
    drops = {(job.name, stream) for job in graph.jobs for stream in job.drops}
    protects = _protections(graph, found)
    declared = {job.name: job for job in graph.jobs}
    members = {job: declared[job].members if job in declared else (job,) for job in waits}
    _check_groups(graph, declared, clocks)
    between = [edge for edge in checked.edges if found[edge.stream.node] != found[edge.node]]
    replicas = [(job, number, name) for job in _order(waits) for number, name in enumerate(members[job])]
    parts = []
    for job, number, name in replicas:
        member = _member(declared, job, name)
        group = None if member is None else member.group
        nodes: dict[str, Node] = {node: given for node, given in graph.nodes.items() if found[node] == job}
        edges = [edge for edge in checked.edges if found[edge.node] == found[edge.stream.node] == job]
        for stream in dict.fromkeys(edge.stream for edge in between if found[edge.node] == job):
            given = _input(checked, found, clocks, stream, job, drops=(job, stream) in drops)
            writing = declared.get(found[stream.node])
            if writing is not None and writing.group is not None:
                group = writing.group
                given = replace(given, replicas=writing.members, either=group.either, free=group.free_running)
            given = replace(given, reader=name, member=member)
            nodes[str(stream)] = Source(str(stream), given, given.schema, SEQ, _event_time(checked, found, stream, job))
        edges += [_from_log(edge) for edge in between if found[edge.node] == job]
        for stream in dict.fromkeys(edge.stream for edge in between if found[edge.stream.node] == job):
            output = _output(checked, found, stream, job, drops, declared)
            output = replace(output, producer=name)
            if group is not None:
                others = [log_of(str(stream), other) for other in range(group.replicas) if other != number]
                compared_with = tuple(others) if group.compared else ()
                output = replace(output, replica=number, compared_with=compared_with)
            nodes[str(stream)] = Exit(str(stream), output)
            edges.append(Edge(stream, str(stream), "in"))
        parts.append(
            JobPart(
                job=name,
                nodes=MappingProxyType(nodes),
                edges=tuple(edges),
                protect=protects[job],
                member=member,
            )
        )
    return tuple(parts)


def _check_names(graph: Drawn, found: Mapping[str, str]) -> None:
    """Refuse jobs whose names are those of replicas of another."""
    taken: dict[str, str] = {}
    declared = {job.name: job for job in graph.jobs}
    for job in dict.fromkeys(found.values()):
        for name in declared[job].members if job in declared else (job,):
            if name in taken:
                raise GraphError(
                    f"Graph {graph.name!r}: {name!r} would be the name of a part of job {taken[name]!r} and of one of "
                    f"job {job!r}. Call one of them otherwise."
                )
            taken[name] = job


def _check_groups(graph: Drawn, declared: Mapping[str, Job], clocks: Mapping[str, str]) -> None:
    """Refuse replicas that would not read the same batches."""
    for name, job in declared.items():
        if job.group is not None and clocks.get(name) == name:
            raise GraphError(
                f"Graph {graph.name!r}: job {name!r} runs as {job.group.describe()}, and what its batches are would be "
                f"decided by each replica for itself, since it takes tuples as they come, or reads jobs that do so by "
                f"themselves. Put its sources into one job before it (graph.job can be given their names)."
            )
        if job.group is not None and job.drops:
            raise GraphError(
                f"Graph {graph.name!r}: job {name!r} drops {job.drops[0]} while it is down, and runs as "
                f"{job.group.describe()}, whose replicas must get the same. Leave out one of the two."
            )
        if job.group is not None and job.group.restart == "nothing":
            _check_nothing_kept(graph, job)


def _check_nothing_kept(graph: Drawn, job: Job) -> None:
    """Refuse backups that nobody would ever go on with."""
    for name in job.nodes:
        node = graph.nodes[name]
        if not isinstance(node, Source | Exit) and node.stateful and node.protect.keeps_backups:
            raise GraphError(
                f"Graph {graph.name!r}: replicas of job {job.name!r} start again from nothing, and its operator "
                f"{name!r} keeps backups ({node.protect.describe()}), which none of them would use. Protect it by "
                f"Nothing(), or say restart='own' or restart='peer'."
            )


def _protections(graph: Drawn, found: Mapping[str, str]) -> dict[str, Protection | None]:
    """What protects each job as a whole: what was said of it, or of the graph, or of one of its operators."""
    said = {job.name: job.protect for job in graph.jobs}
    protects: dict[str, Protection | None] = {}
    for job in dict.fromkeys(found.values()):
        nodes = [node for name, node in graph.nodes.items() if found[name] == job]
        own = [node.protect for node in nodes if not isinstance(node, Source | Exit) and node.stateful]
        protect = said.get(job) or graph.protect
        whole = [protect for protect in (protect, *own) if protect is not None and protect.of_job]
        protects[job] = whole[0] if whole else None
    return protects


def _check_protections(graph: Drawn, found: Mapping[str, str]) -> None:
    """Refuse jobs of which some go back as a whole and others do not, and those that would miss what was dropped."""
    protects = _protections(graph, found)
    whole = {job: protect for job, protect in protects.items() if protect is not None}
    alone = [job for job, protect in protects.items() if protect is None]
    groups = [job.name for job in graph.jobs if job.group is not None]
    if whole and groups:
        job, protect = next(iter(whole.items()))
        raise GraphError(
            f"Graph {graph.name!r}: job {groups[0]!r} runs as a group of replicas, and {job!r} is protected by "
            f"{protect.describe()}, under which jobs go back as a whole. Protect the operators of groups each by "
            f"itself, with Exact() for one."
        )
    if whole and alone:
        job, protect = next(iter(whole.items()))
        raise GraphError(
            f"Graph {graph.name!r}: job {job!r} is protected by {protect.describe()}, under which it goes back as a "
            f"whole and reads stream logs again, and {', '.join(alone)} is not, so that nobody would write its logs "
            f"again once memory is lost. Protect all jobs so (Graph(..., protect=...) does), or none."
        )
    for name, node in graph.nodes.items():
        if isinstance(node, Source | Exit) or not node.stateful or found[name] not in whole:
            continue
        if node.protect != whole[found[name]]:
            raise GraphError(
                f"Graph {graph.name!r}: job {found[name]!r} is protected by {whole[found[name]].describe()}, under "
                f"which all of it goes back together, and its operator {name!r} names {node.protect.describe()}. Leave "
                f"out one of the two."
            )
    for declared in graph.jobs:
        if declared.name in whole and declared.drops:
            raise GraphError(
                f"Graph {graph.name!r}: job {declared.name!r} drops {declared.drops[0]} while it is down, and is "
                f"protected by {whole[declared.name].describe()}, under which it loses nothing. Leave out one of the "
                f"two."
            )


def check_repeatable(graph: CheckedGraph) -> None:
    """Refuse a job that writes a stream log and reads what is not divided into the same batches again.

    For protections under which the job may go back: the tuples that it had put into the log would come again in other
    batches, and so under other numbers.
    """
    logs = [name for name, exit in graph.exits.items() if isinstance(exit.sink, LogOutput)]
    for name, source in graph.sources.items():
        if logs and source.divided_anew:
            what = "streaming DataFrame" if source.by_spark else "topic of Kafka"
            raise GraphError(
                f"Source {name!r} is a {what}, which Spark divides into other batches when it is read "
                f"again, and stream {logs[0]} goes to other jobs, which would get other tuples. Read files with "
                f"sw.files, or protect the job otherwise."
            )


def _input(
    checked: CheckedGraph, found: Mapping[str, str], clocks: Mapping[str, str], stream: Stream, job: str, *, drops: bool
) -> LogInput:
    return LogInput(
        graph=checked.name,
        stream=str(stream),
        schema=checked.schemas[stream],
        producer=found[stream.node],
        reader=job,
        drops=drops,
        in_step=clocks[found[stream.node]] == clocks[job],
    )


def _output(
    checked: CheckedGraph,
    found: Mapping[str, str],
    stream: Stream,
    job: str,
    drops: set[tuple[str, Stream]],
    declared: Mapping[str, Job],
) -> LogOutput:
    away = [edge for edge in checked.edges if edge.stream == stream and found[edge.node] != job]
    readers = dict.fromkeys(found[edge.node] for edge in away)
    most = {}
    for sink in checked.exits:
        arriving = checked.arriving_max(sink)
        most[sink] = sum(arriving[edge.node] for edge in away if not edge.feedback)
    return LogOutput(
        graph=checked.name,
        stream=str(stream),
        producer=job,
        readers=tuple(
            LogReader(job=name, drops=(reader, stream) in drops, member=_member(declared, reader, name))
            for reader in readers
            for name in (declared[reader].members if reader in declared else (reader,))
        ),
        most=tuple(most.items()),
    )


def _event_time(checked: CheckedGraph, found: Mapping[str, str], stream: Stream, job: str) -> EventTime | None:
    """What a log says of time to a job in which windows end by it."""
    if not any(found[name] == job for name in checked.watermarks):
        return None
    followed = {clock.source for watermark in checked.watermarks.values() for clock in watermark.clocks}
    upstream = (checked.upstream(stream.node) | {stream.node}) & followed
    sources = {name: checked.sources[name] for name in checked.sources if name in upstream}
    source = event_time_of_log(stream, f"Job {job!r}", sources, checked.schemas[stream])
    return None if source is None else source.event_time


def _member(declared: Mapping[str, Job], job: str, name: str) -> Member | None:
    """That a part of a job is one of its replicas, if it is."""
    group = declared[job].group if job in declared else None
    return None if group is None else Member(job=job, name=name, group=group)


def _from_log(edge: Edge) -> Edge:
    # That feedback is durable has no meaning here: it is in the log until the job has taken it.
    return Edge(Stream(str(edge.stream), "out"), edge.node, edge.port, edge.feedback)


def _waits(edges: Iterable[Edge], found: Mapping[str, str]) -> dict[str, set[str]]:
    """The jobs that each job reads from, feedback aside; every job comes as it was first met."""
    waits: dict[str, set[str]] = {job: set() for job in found.values()}
    for edge in edges:
        ends = found.get(edge.stream.node), found.get(edge.node)
        if not edge.feedback and ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            waits[ends[1]].add(ends[0])
    return waits


def _order(waits: Mapping[str, set[str]]) -> list[str]:
    """Every job after those it reads from; those of a circle last, in any order."""
    order: list[str] = []
    while len(order) < len(waits):
        ready = [job for job, needs in waits.items() if job not in order and needs <= set(order)]
        order += ready or [job for job in waits if job not in order]
    return order


def _circle(waits: Mapping[str, set[str]]) -> list[str]:
    """Jobs that wait for each other; none if there are none."""
    left = dict(waits)
    while ready := [job for job, needs in left.items() if not needs & left.keys()]:
        for job in ready:
            del left[job]
    if not left:
        return []
    path = [next(iter(left))]
    while True:
        path.append(next(needed for needed in sorted(left[path[-1]]) if needed in left))
        if path[-1] in path[:-1]:
            return path[path.index(path[-1]) + 1 :][::-1]


def _clocks(checked: CheckedGraph, found: Mapping[str, str], waits: Mapping[str, set[str]]) -> dict[str, str]:
    """What counts the batches of each job: feeds, or the job itself or one before it, which takes what comes."""
    clocks: dict[str, str] = {}
    for job in _order(waits):
        sources = [source for name, source in checked.sources.items() if found[name] == job]
        clock = {clocks[before] for before in waits[job]}
        clock |= {COUNTED if source.feed is not None else job for source in sources}
        clocks[job] = clock.pop() if len(clock) == 1 else job
    return clocks
