"""A graph's profile, measured on a run of the graph in this process.

Every call of an operator's own code is timed in processor seconds; what goes on between, such as exchange, backups and
the operators downstream, is not the operator's. The first batches, in which kernels are compiled, are left out.

A tuple's worth of state is measured in bytes: a state of b bytes over tuples of c bytes holds as much as b/c tuples,
and never more than went in. That is right for windows and tables of what came; of a sketch it is the time in which as
many bytes came as it has counters. Whoever knows better edits the file.
"""

import copy
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spillway.errors import GraphError, ModelError
from spillway.graph.graph import Graph
from spillway.graph.nodes import Exit, Source
from spillway.local import LocalRun
from spillway.model.profile import OperatorProfile, PortProfile, Profile, SourceProfile
from spillway.operators.operator import Operator, Out

COST_LEAST_S = 1e-9  # what the clock cannot see still takes time
_NANOSECOND = 1e-9

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Meter:
    """What one operator did, over all its shards."""

    port_ns: Counter[str] = field(default_factory=Counter)
    tuples: Counter[str] = field(default_factory=Counter)
    tuple_bytes: Counter[str] = field(default_factory=Counter)
    put: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by input, by output
    other_ns: int = 0  # in calls that are no port's: at the end of a batch or a window
    other_put: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        for counts in (self.port_ns, self.tuples, self.tuple_bytes, self.put, self.other_put):
            counts.clear()
        self.other_ns = 0


def measure_profile(
    graph: Graph,
    *,
    backups: str | None = None,
    batches_skipped: int = 1,
    batches_max: int | None = None,
    tuples_per_s: float | None = None,
    progress: Progress = lambda done, of: None,
) -> Profile:
    """Run a graph on its feed and say what its operators cost, put out and remember.

    `backups` is a folder, wanted if an operator keeps backups. With `batches_max` the input behind so many batches is
    left alone: what is measured is what those between are like. The rate from outside is what it will be in use, which
    no measurement can tell: unless given, half of what the busiest operator can bear.
    """
    meters: dict[str, Meter] = {}
    timed = _timed_graph(graph, meters)
    read = Counter[str]()
    with LocalRun(timed, backups=backups) as run:
        batches = run.batches if batches_max is None else min(run.batches, batches_max)
        if batches <= batches_skipped:
            raise ModelError(
                f"Graph {graph.name!r} has {batches} batches of input; more than {batches_skipped} are wanted, because "
                f"the first {batches_skipped} are not measured. Give it more input, or smaller batches."
            )
        while run.batch < batches and run.step():
            if run.batch == batches_skipped:
                for meter in meters.values():
                    meter.clear()
            progress(run.batch, batches)
        state_bytes, backup_bytes = _state_bytes(run), _backup_bytes(run, batches_skipped)
    checked = graph.checked()
    for name in checked.sources:
        # A source's tuples are counted where they arrive.
        edge = checked.out_of(name)[0]
        read[name] = meters[edge.node].tuples[edge.port] if edge.node in meters else 0
    operators = {
        name: _profile(meter, state_bytes.get(name, 0), backup_bytes.get(name, 0), graph.nodes[name])
        for name, meter in meters.items()
    }
    total = max(1, sum(read.values()))
    rate = tuples_per_s or _bearable(meters, total, {name: checked.shards_of(name) for name in meters})
    sources = {name: SourceProfile(tuples_per_s=rate * max(1, read[name]) / total) for name in checked.sources}
    return Profile(graph=graph.name, sources=sources, operators=operators)


def _profile(meter: Meter, state_bytes: int, backup_bytes: int, operator: object) -> OperatorProfile:
    assert isinstance(operator, Operator)
    everything = max(1, sum(meter.tuples[port] for port in operator.inputs))
    # What comes back by feedback ports costs time too, and is no port's of the model.
    back = [port for port in meter.port_ns if port not in operator.inputs]
    other_ns = meter.other_ns + sum(meter.port_ns[port] for port in back)
    other_put = sum((meter.put[port] for port in back), meter.other_put)
    ports = {}
    for port in operator.inputs:
        tuples = meter.tuples[port]
        of = max(1, tuples)
        cost_ns = meter.port_ns[port] / of + other_ns / everything
        put = {output: meter.put[port][output] / of + other_put[output] / everything for output in operator.outputs}
        worth = round(state_bytes / max(1.0, meter.tuple_bytes[port] / of))
        ports[port] = PortProfile(
            cost_s=max(COST_LEAST_S, cost_ns * _NANOSECOND),
            selectivity=put,
            # State that no tuple came to cannot be upset by losing any.
            state_tuples=max(1, min(worth, tuples)) if operator.stateful and tuples else 0,
            tuples=tuples,
            tuple_bytes=meter.tuple_bytes[port] / of,
        )
    return OperatorProfile(ports=ports, state_bytes=state_bytes, backup_bytes=backup_bytes / everything)


def _bearable(meters: dict[str, Meter], read: int, shards: dict[str, int]) -> float:
    """Half of the rate at which the busiest operator would have no time left."""
    busiest_s = max(
        (sum(meter.port_ns.values()) + meter.other_ns) * _NANOSECOND / read / shards[name]
        for name, meter in meters.items()
    )
    return 0.5 / max(busiest_s, COST_LEAST_S)


def _state_bytes(run: LocalRun) -> dict[str, int]:
    newest = {(row.operator, row.shard): row.state_bytes for row in run.records()}
    totals: Counter[str] = Counter()
    for (operator, _), size in newest.items():
        totals[operator] += size
    return totals


def _backup_bytes(run: LocalRun, batches_skipped: int) -> Counter[str]:
    written: Counter[str] = Counter()
    for row in run.records():
        if row.batch >= batches_skipped:
            written[row.operator] += row.backup_bytes
    return written


def _timed_graph(graph: Graph, meters: dict[str, Meter]) -> Graph:
    """The same graph over copies of its operators that note what they do; the user's own stay as they are."""
    timed = Graph(graph.name, shards=graph.shards)
    for name, node in graph.nodes.items():
        if isinstance(node, Source):
            timed.source(name, node.data, **node.said)
        elif isinstance(node, Exit):
            (edge,) = [edge for edge in graph.edges if edge.node == name]
            timed.sink(name, edge.stream, node.sink)
        elif isinstance(node, Operator):
            meters[name] = Meter()
            timed.add(_timed(node, meters[name]))
        else:
            raise GraphError(f"Operator {name!r} can be drawn but not run, so it cannot be measured.")
    for edge in graph.edges:
        if not isinstance(graph.nodes[edge.node], Exit):
            timed.connect(edge.stream, edge.node, edge.port, feedback=edge.feedback)
    return timed


def _timed(operator: Operator, meter: Meter) -> Operator:
    """A copy whose opened copies time their calls, and so does what it is resolved to."""
    timed = copy.copy(operator)

    def resolved(inputs: Any) -> Operator:
        return _timed(operator.resolved(inputs), meter)

    def opened(*arguments: Any, **named: Any) -> Operator:
        bound = operator.opened(*arguments, **named)
        process, finish, end_window = bound.process, bound.finish, bound.end_window

        def timed_process(port: str, batch: Any) -> Iterator[Out]:
            meter.tuples[port] += batch.num_rows
            meter.tuple_bytes[port] += batch.nbytes
            return _metered(lambda: process(port, batch), meter, port)

        # On the instance, in front of the class's: the runtime calls whatever it finds there.
        vars(bound)["process"] = timed_process
        vars(bound)["finish"] = lambda: _metered(finish, meter, None)
        vars(bound)["end_window"] = lambda window: _metered(lambda: end_window(window), meter, None)
        return bound

    vars(timed)["resolved"] = resolved
    vars(timed)["opened"] = opened
    return timed


def _metered(call: Callable[[], Iterable[Out] | None], meter: Meter, port: str | None) -> Iterator[Out]:
    """What a call yields; only the time inside of it counts, not that of whoever takes what it yields."""
    began_ns = time.process_time_ns()
    outs = iter(call() or ())
    while True:
        out = next(outs, None)
        spent_ns = time.process_time_ns() - began_ns
        if port is None:
            meter.other_ns += spent_ns
        else:
            meter.port_ns[port] += spent_ns
        if out is None:
            return
        counts = meter.other_put if port is None else meter.put[port]
        counts[out.port] += out.batch.num_rows
        yield out
        began_ns = time.process_time_ns()
