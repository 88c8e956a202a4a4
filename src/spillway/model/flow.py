"""An application as its model sees it: operators with costs and selectivities, streams between their ports.

Nothing here fails and nothing is protected; `build` makes a net of a flow, a protection and faults (seed 001, 5.2).
Operators are listed in the order in which tuples reach them, so a flow has no cycles.

A tuple on an input port has one outcome out of several `Case`s: so many tuples on each output port. What the cases
leave over is the probability that it puts out nothing. With a selectivity s of at most 1 there is one case,
`Case(probability=s, puts=(1,))`; see `kinds` for the rest.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from spillway.errors import ModelError

OPERATORS_MAX = 200
PUTS_MAX = 10_000  # tuples that one tuple may put out at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """How many tuples a stateful port must process until its state is right again: Z = min(αS + βL, γS).

    S is the size of the state in tuples, L the tuples lost since the last checkpoint. A tainted tuple that comes in
    counts as `tainted_penalty` of the state (seed 001, 5.5.1; the numbers are those of its aggregate, 5.6.4).
    """

    penalty: float = 0.035  # α
    staleness: float = 1.98  # β
    cap: float = 1.0  # γ
    tainted_penalty: float = 0.005

    def __post_init__(self) -> None:
        for name in ("penalty", "staleness", "cap", "tainted_penalty"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ModelError(f"Settling: {name} must be a number, 0 or more; got {value!r}.")

    def tuples(self, *, state: float, lost: float) -> float:
        """Z for a state of that many tuples.

        >>> round(Settling(penalty=0.03, staleness=0.41).tuples(state=3099, lost=7040))
        2979
        """
        return min(self.penalty * state + self.staleness * lost, self.cap * state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One outcome of processing a tuple."""

    probability: float
    puts: tuple[int, ...]  # tuples on each output port


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input port: what a tuple costs there, what it puts out, and what is remembered of it."""

    name: str
    cost_s: float
    cases: tuple[Case, ...] = ()
    state_tuples: int = 0  # 0 for a port whose tuples leave nothing behind
    settling: Settling = Settling()
    trigger_s: float | None = None  # a port that only a clock writes to, every so often (appendix A.4)
    weight: int = 1  # tuples that one token stands for (see `from_graph`)
    parallel: bool = False  # any number of tuples at once, each for an exponential time (appendix A.10)

    @property
    def stateful(self) -> bool:
        return self.state_tuples > 0

    def mean_puts(self, output: int) -> float:
        """Selectivity: tuples on an output port per tuple on this one."""
        return sum(case.probability * case.puts[output] for case in self.cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOperator:
    """An operator with its ports; one without output ports is a sink."""

    name: str
    kind: str
    ports: tuple[Port, ...]
    outputs: tuple[str, ...] = ("out",)
    shards: int = 1  # that share its work; they fail as one

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise ModelError(f"Operator {self.name!r}: one shard or more is wanted; got {self.shards!r}.")
        if not self.ports:
            raise ModelError(f"Operator {self.name!r}: at least one input port is wanted, even of a source.")
        for port in self.ports:
            self._check(port)

    @property
    def stateful(self) -> bool:
        return any(port.stateful for port in self.ports)

    def port(self, name: str) -> int:
        for index, port in enumerate(self.ports):
            if port.name == name:
                return index
        raise ModelError(
            f"Operator {self.name!r} has no port {name!r}; it has {', '.join(p.name for p in self.ports)}."
        )

    def _check(self, port: Port) -> None:
        what = f"Operator {self.name!r}, port {port.name!r}"
        if not 0 < port.cost_s < math.inf:
            raise ModelError(f"{what}: a cost above 0 seconds per tuple is wanted; got {port.cost_s!r}.")
        if port.weight < 1:
            raise ModelError(f"{what}: a token stands for one tuple at least; got {port.weight!r}.")
        if port.state_tuples < 0:
            raise ModelError(f"{what}: a state of 0 tuples or more is wanted; got {port.state_tuples!r}.")
        if port.trigger_s is not None and not 0 < port.trigger_s < math.inf:
            raise ModelError(f"{what}: a clock that fires every so many seconds, above 0; got {port.trigger_s!r}.")
        if port.parallel and port.stateful:
            raise ModelError(f"{what}: tuples that pass side by side leave no state behind that has an order.")
        for case in port.cases:
            if len(case.puts) != len(self.outputs):
                raise ModelError(f"{what}: a case must say what goes to each of {len(self.outputs)} output ports.")
            if any(not 0 <= put <= PUTS_MAX for put in case.puts):
                raise ModelError(f"{what}: a case puts out 0 to {PUTS_MAX:,} tuples on a port; got {case.puts}.")
            if not 0 <= case.probability <= 1:
                raise ModelError(f"{what}: a probability lies between 0 and 1; got {case.probability!r}.")
        total = sum(case.probability for case in port.cases)
        if total > 1 + 1e-9:
            raise ModelError(f"{what}: the probabilities of its cases add up to {total:g}, more than 1.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream: from an output port of one operator to an input port of another, by their places in the flow."""

    source: int
    output: int
    target: int
    port: int


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Operators in the order in which tuples reach them, the streams between, and tuples per second from outside.

    `rates` names the source operators and how many tuples reach each of them; sources that name the same outside
    feed are one operator here. Streams are (operator, output port, operator, input port).
    """

    name: str
    operators: tuple[FlowOperator, ...]
    streams: tuple[tuple[str, str, str, str], ...]
    rates: Mapping[str, float]

    def __post_init__(self) -> None:
        names = [operator.name for operator in self.operators]
        if not 0 < len(names) <= OPERATORS_MAX:
            raise ModelError(f"Flow {self.name!r}: 1 to {OPERATORS_MAX} operators are wanted; got {len(names)}.")
        for name in names:
            if names.count(name) > 1:
                raise ModelError(f"Flow {self.name!r}: there are two operators named {name!r}.")
        for link in self.links:
            if link.source >= link.target:
                raise ModelError(
                    f"Flow {self.name!r}: the stream from {names[link.source]!r} to {names[link.target]!r} goes "
                    f"upstream. List operators in the order in which tuples reach them."
                )
        for name, rate in self.rates.items():
            self.index(name)
            if not 0 < rate < math.inf:
                raise ModelError(f"Flow {self.name!r}: source {name!r} wants a rate above 0 tuples/s; got {rate!r}.")
        if not self.rates:
            raise ModelError(f"Flow {self.name!r} has no source.")
        fed = {(link.target, link.port) for link in self.links}
        for index, operator in enumerate(self.operators):
            for at, port in enumerate(operator.ports):
                if (index, at) not in fed and operator.name not in self.rates and port.trigger_s is None:
                    raise ModelError(f"Flow {self.name!r}: nothing leads to port {port.name!r} of {operator.name!r}.")
        if not self.sinks:
            raise ModelError(f"Flow {self.name!r} has no sink: an operator without output ports.")

    def index(self, name: str) -> int:
        for index, operator in enumerate(self.operators):
            if operator.name == name:
                return index
        known = ", ".join(operator.name for operator in self.operators)
        raise ModelError(f"Flow {self.name!r} has no operator {name!r}; it has {known}.")

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The streams, by number."""
        found = []
        for source, output, target, port in self.streams:
            writer = self.operators[self.index(source)]
            if output not in writer.outputs:
                raise ModelError(f"Operator {source!r} has no output port {output!r}; it has {writer.outputs}.")
            reader = self.index(target)
            found.append(
                Link(
                    source=self.index(source),
                    output=writer.outputs.index(output),
                    target=reader,
                    port=self.operators[reader].port(port),
                )
            )
        return tuple(found)

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        return tuple(index for index, operator in enumerate(self.operators) if not operator.outputs)

    @property
    def rate(self) -> float:
        """Tokens per second from outside, all sources together: tuples, unless one stands for several."""
        return sum(self.rates.values())

    @property
    def tuples_per_s(self) -> float:
        """Tuples per second from outside."""
        return sum(rate * self.operators[self.index(name)].ports[0].weight for name, rate in self.rates.items())

    @cached_property
    def per_arrival(self) -> tuple[tuple[float, ...], ...]:
        """Tuples that reach each port of each operator per tuple from outside, in the long run, without faults."""
        reach = [[0.0] * len(operator.ports) for operator in self.operators]
        for name, rate in self.rates.items():
            reach[self.index(name)][0] += rate / self.rate
        for index, operator in enumerate(self.operators):
            for at, port in enumerate(operator.ports):
                if port.trigger_s is not None:
                    reach[index][at] = 1 / (port.trigger_s * self.rate)
            for link in self.links:
                if link.source == index:
                    reach[link.target][link.port] += sum(
                        reach[index][at] * port.mean_puts(link.output) for at, port in enumerate(operator.ports)
                    )
        return tuple(map(tuple, reach))

    @cached_property
    def work_max_s(self) -> float:
        """The most processor seconds that one tuple from outside can cause, without copies."""
        reach = [[0] * len(operator.ports) for operator in self.operators]
        for name in self.rates:
            reach[self.index(name)][0] = 1
        work_s = 0.0
        for index, operator in enumerate(self.operators):
            for at, port in enumerate(operator.ports):
                work_s += max(1, reach[index][at]) * port.cost_s
                for link in self.links:
                    if link.source == index:
                        most = max((case.puts[link.output] for case in port.cases), default=0)
                        reach[link.target][link.port] += reach[index][at] * most
        return work_s

    def tuples_per_s_at(self, operator: str) -> float:
        """Tuples per second that reach an operator, all its ports together, without faults."""
        index = self.index(operator)
        ports = zip(self.per_arrival[index], self.operators[index].ports, strict=True)
        return self.rate * sum(reach * port.weight for reach, port in ports)

    @cached_property
    def busiest(self) -> float:
        """The share of the time that the shards of the operator with most to do are busy, without faults."""
        return max(
            self.rate
            * sum(reach * port.cost_s for reach, port in zip(reaches, operator.ports, strict=True))
            / operator.shards
            for operator, reaches in zip(self.operators, self.per_arrival, strict=True)
        )

    def upstream_of(self, operator: int, port: int) -> frozenset[int]:
        """Operators whose tuples, or what follows from them, reach the port."""
        found: set[int] = set()
        waiting = [link.source for link in self.links if (link.target, link.port) == (operator, port)]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += [link.source for link in self.links if link.target == at]
        return frozenset(found)

    def at_rate(self, tuples_per_s: float) -> "Flow":
        """The same flow with that many tuples per second from outside, shared among the sources as before."""
        return replace(self, rates={name: rate / self.rate * tuples_per_s for name, rate in self.rates.items()})
