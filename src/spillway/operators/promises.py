"""What is promised of every operator of a graph, and of what leaves it: its own losses, and those it is fed.

Theory. A protection speaks of an operator's own failures: its state stays within ``loss_max`` of a run that gets the
same input (``graph.protections``). If something upstream loses memory too, the input is not the same. Let u be such an
operator and f the most that one unit of divergence of u's state can move the state of o, however long the run, as the
operators between them declare it (``Operator.carries``, ``Operator.hands_on``). Then, over all those upstream,

    divergence of o from a run without failures  <=  own + Σ f(u) · own(u)

because between the run without failures and the real one lie runs in which one operator after the other loses what it
loses, and each step of them moves o by at most its part. Factors are found by letting one operator be off by one unit
and following that through the graph; where an operator says that nothing bounds what comes of it, there is no promise,
and the sentences say so.

Feedback is followed pessimistically: what comes back from anything that is off may be anything. Feedback that is not
durable is lost with memory, so that alone takes the promise from what it is fed to.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spillway.backup.spread import OWN, measured
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge, Stream
from spillway.operators.carried import ANYTHING, NOTHING, Carried, Tuples, either
from spillway.operators.operator import Operator

_OF_METRIC = {
    "max": "each number of its state",
    "l1": "the sum of all errors of its state",
    "l2": "the Euclidean length of all errors of its state",
    "keys": "the number of keys missing from its state",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where something can be lost: an operator's memory, or feedback on its way."""

    name: str
    loss_max: float  # all its losses together, given its input
    items_max: float = 0.0  # items lost before they reach it; what they move comes on top
    feedback: bool = False

    @property
    def said(self) -> str:
        """Who it is and by how much it can be off, in words."""
        if self.feedback:
            return f"the feedback of {self.name!r}, which is lost with memory"
        most = f"at most {_figure(self.loss_max)}" if math.isfinite(self.loss_max) else "nothing bounds how much"
        items = f", and what up to {_figure(self.items_max)} lost items move" if self.items_max else ""
        return f"what {self.name!r} loses ({most}{items})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """What the losses of one origin do to an operator's state."""

    origin: Origin
    factor: float | None  # how far one unit moves the state; None where nothing bounds it

    @property
    def most(self) -> float:
        if self.factor is None:
            return math.inf
        return 0.0 if self.factor == 0 else self.factor * self.origin.loss_max


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPromise:
    """What is promised of one operator's state."""

    operator: str
    protection: str
    keeps_backups: bool
    of_job: bool
    metrics: tuple[str, ...]
    own: Origin
    carried: tuple[Carry, ...]

    @property
    def total_max(self) -> float:
        """How far the state can be from that of a run without failures; infinite where nothing bounds it."""
        return self.own.loss_max + sum(carry.most for carry in self.carried)

    def sentences(self) -> list[str]:
        told = [f"{self.operator!r} is protected by {self.protection}: {self._own()}"]
        unmoved = [carry.origin.said for carry in self.carried if carry.factor == 0]
        if unmoved:
            told.append(f"Its divergence does not grow by {_listed(unmoved)}.")
        moving = [carry for carry in self.carried if carry.factor]
        for carry in moving:
            times = "once" if carry.factor == 1 else f"{carry.factor:g} times"
            told.append(f"On top comes, {times}, {carry.origin.said}.")
        unbounded = [self._fed(carry.origin) for carry in self.carried if carry.factor is None]
        if unbounded:
            told.append(
                f"It is fed {_listed(unbounded)}. Nothing bounds what that makes of its state, which may grow with the "
                f"run: nothing is promised of {self.operator!r} compared with a run without failures."
            )
        elif moving and math.isfinite(self.total_max) and not any(carry.origin.items_max for carry in moving):
            told.append(f"In all it stays within {_figure(self.total_max)} of a run without failures.")
        return told

    def _fed(self, origin: Origin) -> str:
        return "back what it loses itself" if origin == self.own else origin.said

    def _own(self) -> str:
        if not self.metrics:
            return "it keeps nothing that a bound speaks of."
        if not math.isfinite(self.own.loss_max):
            return "nothing bounds what it loses itself."
        items = f"what up to {_figure(self.own.items_max)} lost items move" if self.own.items_max else ""
        if self.own.loss_max == 0:
            return f"it loses {items or 'nothing itself'}."
        if len(self.metrics) == 1:
            what = _OF_METRIC.get(self.metrics[0], "its divergence")
        else:
            what = f"the divergence of its state ({' + '.join(self.metrics)})"
        return (
            f"{what} stays within {_figure(self.own.loss_max)}{', plus ' + items + ',' if items else ''} of a run that "
            f"gets the same input."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPromise:
    """What is promised of the tuples that leave at a sink."""

    sink: str
    carried: tuple[tuple[Origin, Carried], ...]  # off: per unit of what the origin loses

    def sentences(self) -> list[str]:
        return [self._sentence(origin, carried) for origin, carried in self.carried]

    def _sentence(self, origin: Origin, carried: Carried) -> str:
        columns = " and ".join(
            f"{column!r} by at most {_figure(factor * origin.loss_max)}"
            if math.isfinite(factor * origin.loss_max)
            else f"{column!r}, and nothing bounds by how much"
            for column, factor in carried.off.items()
        )
        told = f"What leaves at {self.sink!r} depends on {origin.said}: "
        if carried.tuples is Tuples.SAME:
            return f"{told}all tuples are there; off can be {columns}."
        return f"{told}tuples may be missing, or there that should not be" + (
            f"; off in the others can be {columns}." if columns else ", with any values."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What is promised of a graph."""

    operators: tuple[OperatorPromise, ...]  # those with state
    sinks: tuple[SinkPromise, ...]

    @property
    def carried(self) -> bool:
        """Whether an operator with state is fed by something that can be off."""
        return any(promise.carried for promise in self.operators)

    def sentences_of_the_fed(self) -> list[str]:
        """Of operators that something is carried to: what a reader of their theta alone is not prepared for."""
        return [sentence for promise in self.operators if promise.carried for sentence in promise.sentences()]

    def sentences(self) -> list[str]:
        of_operators = [sentence for promise in self.operators for sentence in promise.sentences()]
        return of_operators + [sentence for promise in self.sinks for sentence in promise.sentences()]

    def as_json(self) -> dict[str, Any]:
        """For the manifest of a run; null stands for what nothing bounds."""
        return {
            "operators": [
                {
                    "operator": promise.operator,
                    "protection": promise.protection,
                    "metrics": list(promise.metrics),
                    "keeps_backups": promise.keeps_backups,
                    "of_job": promise.of_job,
                    "own_max": _finite(promise.own.loss_max),
                    "total_max": _finite(promise.total_max),
                    "carried": [
                        {"from": carry.origin.name, "factor": carry.factor, "most": _finite(carry.most)}
                        for carry in promise.carried
                    ],
                    "sentences": promise.sentences(),
                }
                for promise in self.operators
            ],
            "sinks": [{"sink": promise.sink, "sentences": promise.sentences()} for promise in self.sinks],
        }


def promises(graph: CheckedGraph) -> Promises:
    """What is promised of every operator with state and of every sink."""
    origins = list(_origins(graph))
    walks = [_walk(graph, origin, edge) for origin, edge in origins]
    operators = []
    for name in graph.order:
        operator = _operator(graph, name)
        if operator.stateful:
            carried = tuple(
                Carry(origin=origin, factor=walk.moved[name])
                for (origin, _), walk in zip(origins, walks, strict=True)
                if name in walk.moved
            )
            operators.append(
                OperatorPromise(
                    operator=name,
                    protection=operator.protect.describe(),
                    keeps_backups=operator.protect.keeps_backups,
                    of_job=operator.protect.of_job,
                    metrics=_metrics(operator),
                    own=_own(operator),
                    carried=carried,
                )
            )
    sinks = [
        SinkPromise(
            sink=sink,
            carried=tuple(
                (origin, walk.into(graph.into(sink)))
                for (origin, _), walk in zip(origins, walks, strict=True)
                if walk.into(graph.into(sink))
            ),
        )
        for sink in graph.exits
    ]
    return Promises(operators=tuple(operators), sinks=tuple(sinks))


@dataclass(frozen=True, slots=True)
class _Walk:
    """What one unit lost at an origin does everywhere."""

    moved: Mapping[str, float | None]  # operators that something reaches and that keep what a bound speaks of
    streams: Mapping[Stream, Carried]

    def into(self, edges: list[Edge]) -> Carried:
        return either(self.streams.get(edge.stream, NOTHING) for edge in edges)


def _origins(graph: CheckedGraph) -> Iterator[tuple[Origin, Edge | None]]:
    for name in graph.order:
        operator = _operator(graph, name)
        own = _own(operator)
        if operator.stateful and (own.loss_max > 0 or own.items_max > 0):
            yield own, None
        for edge in graph.feedback_into(name):
            if not edge.durable:
                yield Origin(name=edge.stream.node, loss_max=math.inf, feedback=True), edge


def _own(operator: Operator) -> Origin:
    protect = operator.protect
    # What nothing measures is off by nothing, whatever becomes of it.
    most = protect.loss_max if measured(operator.state()) else 0.0
    return Origin(name=operator.name, loss_max=most, items_max=protect.allows.items + protect.allows.unacked)


def _metrics(operator: Operator) -> tuple[str, ...]:
    if type(operator).divergence is not Operator.divergence:
        return (OWN,)
    return tuple(dict.fromkeys(one.metric for one in measured(operator.state())))


def _walk(graph: CheckedGraph, origin: Origin, lost: Edge | None) -> _Walk:
    """Follow one unit lost at an operator, or feedback lost on an edge."""
    reached = _reached(graph, lost.node if lost is not None else origin.name)
    streams: dict[Stream, Carried] = {}
    moved: dict[str, float | None] = {}
    for name in graph.order:
        operator = _operator(graph, name)
        arriving = {edge.port: streams[edge.stream] for edge in graph.into(name) if streams.get(edge.stream)}
        for edge in graph.feedback_into(name):
            if edge == lost or edge.stream.node in reached:
                arriving[edge.port] = ANYTHING
        loses = lost is None and name == origin.name
        if not arriving and not loses:
            continue
        off = 1.0 if loses else 0.0
        if arriving and measured(operator.state()):
            moves = operator.carries(arriving)
            moved[name] = moves if moves is not None and math.isfinite(moves) else None
            off += math.inf if moved[name] is None else moves or 0.0
        handed = operator.hands_on(arriving, off=off, lost=loses)
        streams |= {Stream(name, port): carried for port, carried in handed.items() if carried}
    return _Walk(moved, streams)


def _reached(graph: CheckedGraph, first: str) -> set[str]:
    """The operators that tuples of one come to in the end, feedback included, and itself."""
    reached, waiting = {first}, [first]
    while waiting:
        name = waiting.pop()
        for edge in (*graph.out_of(name), *graph.feedback_out_of(name)):
            if edge.node in graph.operators and edge.node not in reached:
                reached.add(edge.node)
                waiting.append(edge.node)
    return reached


def _operator(graph: CheckedGraph, name: str) -> Operator:
    operator = graph.operators[name]
    assert isinstance(operator, Operator), name  # runtimes refuse any other
    return operator


def _listed(names: list[str]) -> str:
    """Names as people list them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _figure(value: float) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
