"""The places of one copy of an operator.

    feed or stream            waiting for input
      clean ───┐                    │
      tainted ─┴── take ────────────┘
                     │
                 processing, processing tainted, processing spoiled
                     │ process: one of the cases
                 sending, sending tainted        (one pair per case, until every reader has room)
                     │ send
                 clean or tainted place of each reader

A port with state has counts of tuples still to come until it is right again, and a flag beside each count. Flags are
what everything else reads: they change only with events, while counts run down in jumps too (`forwarding`).

| count | runs from a crash or loss until | meanwhile |
|---|---|---|
| settle | the state has settled, whatever upset it | all output is tainted |
| own | the same, counting only what its own fault upset | (for availability without propagation) |
| refill | windows are full again after a start from scratch | less output |

`cut` is how many things upstream are down; while it is not 0, what arrives does not count.
"""

from dataclasses import dataclass, field

from spillway.model.flow import FlowOperator, Port
from spillway.model.zero_or_one import either, product
from spillway.san.expressions import Expression, Number, ceil, maximum, minimum, where
from spillway.san.net import Net
from spillway.san.parts import Assignment, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlaces:
    """What a port with state remembers of faults."""

    settle: Place
    settling: Place
    own: Place
    owning: Place
    refill: Place
    refilling: Place
    cut: Place
    cut_at: Place  # tuples that had come from outside when the first cut began

    def cuts(self, port: Port, arrivals: Place, condition: Number = 1) -> list[Assignment]:
        """Something upstream went down: output is tainted from now on, as by one tainted tuple at least."""
        least = maximum(self.settle, tainted_settling(port))
        return [
            self.cut_at.set(where(product(condition, self.cut == 0), arrivals, self.cut_at)),
            self.cut.add(condition),
            self.settle.set(where(condition, least, self.settle)),
            self.settling.set(either([condition, self.settling])),
        ]

    def mends(self, port: Port, arrivals: Place, per_arrival: float, condition: Number = 1) -> list[Assignment]:
        """It is up again: count down from what was lost meanwhile."""
        needed = _settling(port, (arrivals - self.cut_at) * per_arrival)
        return [
            self.settle.set(where(condition, maximum(self.settle, needed), self.settle)),
            self.cut.add(product(condition, -1)),
            self.settling.set((self.settle > 0) | (self.cut > 0)),
        ]

    def restores(self, port: Port, lost: Number) -> list[Assignment]:
        """The operator is back with a checkpoint that lacks so many tuples."""
        needed = _settling(port, lost)
        return [
            self.own.set(maximum(self.own, needed)),
            self.owning.set(self.own > 0),
            self.settle.set(maximum(self.settle, needed)),
            self.settling.set((self.settle > 0) | (self.cut > 0)),
        ]

    def empties(self, port: Port, condition: Number = 1) -> list[Assignment]:
        """The operator is back with no state at all."""
        return [
            self.refill.set(where(condition, port.state_tuples, self.refill)),
            self.refilling.set(self.refill > 0),
            self.own.set(where(condition, 0, self.own)),
            self.owning.set(self.own > 0),
            self.settle.set(where(condition, 0, self.settle)),
            self.settling.set((self.settle > 0) | (self.cut > 0)),
        ]

    def taints(self, port: Port) -> list[Assignment]:
        """A tainted tuple got in."""
        return [self.settle.set(maximum(self.settle, tainted_settling(port))), self.settling.set(1)]

    def corrupts(self, port: Port) -> list[Assignment]:
        """The state was corrupted where it is."""
        return [self.own.set(maximum(self.own, tainted_settling(port))), self.owning.set(1), *self.taints(port)]

    def counts(self) -> list[Assignment]:
        """A clean tuple was processed."""
        right = self.cut == 0
        return [
            self.settle.set(where(right & (self.settle > 0), self.settle - 1, self.settle)),
            self.settling.set((self.settle > 0) | (self.cut > 0)),
            self.own.set(where(right & (self.own > 0), self.own - 1, self.own)),
            self.owning.set(self.own > 0),
            self.refill.set(maximum(self.refill - 1, 0)),
            self.refilling.set(self.refill > 0),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPlaces:
    """One input port of a copy."""

    port: Port
    clean: Place
    tainted: Place
    processing: Place
    processing_tainted: Place
    processing_spoiled: Place
    done: Place  # tuples processed so far that came clean
    done_tainted: Place  # and those that came, or left, tainted
    sending: tuple[Place, ...]  # one per case
    sending_tainted: tuple[Place, ...]
    state: StatePlaces | None

    def inside(self) -> list[Place]:
        """Where tuples are that a crash loses."""
        processing = [self.processing, self.processing_tainted, self.processing_spoiled]
        return [self.clean, self.tainted, *processing, *self.sending, *self.sending_tainted]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlaces:
    """One copy of an operator."""

    operator: FlowOperator
    index: int  # of the operator in the flow
    replica: int
    name: str
    alive: Place | int  # the number 1 if it cannot crash
    down_at: Place
    waiting: Place
    spoil: Place | int  # 1 if the next tuple will be spoiled; the number 0 if none can be
    ports: tuple[PortPlaces, ...]
    # What each copy of a writer sent, by stream, writer's replica and taint; at a sink, clean and tainted together too.
    seen: dict[tuple[int, int, bool], Place] = field(default_factory=dict)
    seen_any: dict[tuple[int, int], Place] = field(default_factory=dict)

    @property
    def settling(self) -> Number:
        """Whether all it puts out is tainted."""
        return either(port.state.settling for port in self.ports if port.state)

    @property
    def refilling(self) -> Number:
        """Whether it puts out less than usual."""
        return either(port.state.refilling for port in self.ports if port.state)

    @property
    def owning(self) -> Number:
        """Whether its own fault, leaving aside what came from upstream, keeps it from being right."""
        return either([*(port.state.owning for port in self.ports if port.state), self.refilling])


def places_of(
    net: Net, operator: FlowOperator, *, index: int, replica: int, crashes: bool, corrupts: bool
) -> CopyPlaces:
    """Declare the places of a copy: waiting for input, nothing wrong."""
    name = f"{operator.name}[{replica}]"
    return CopyPlaces(
        operator=operator,
        index=index,
        replica=replica,
        name=name,
        alive=net.place(f"{name}.alive", 1, rarely=True) if crashes else 1,
        down_at=net.place(f"{name}.down_at"),
        waiting=net.place(f"{name}.waiting", 1),
        spoil=net.place(f"{name}.spoil") if corrupts else 0,
        ports=tuple(_port(net, f"{name}.{port.name}", port) for port in operator.ports),
    )


def tainted_settling(port: Port) -> int:
    """Tuples until the state has settled after one tainted tuple got in."""
    return max(1, round(port.settling.tainted_penalty * port.state_tuples))


def _port(net: Net, name: str, port: Port) -> PortPlaces:
    return PortPlaces(
        port=port,
        clean=net.place(f"{name}.clean"),
        tainted=net.place(f"{name}.tainted"),
        processing=net.place(f"{name}.processing"),
        processing_tainted=net.place(f"{name}.processing_tainted"),
        processing_spoiled=net.place(f"{name}.processing_spoiled"),
        done=net.place(f"{name}.done"),
        done_tainted=net.place(f"{name}.done_tainted"),
        sending=tuple(net.place(f"{name}.sending_{case}") for case in range(len(port.cases))),
        sending_tainted=tuple(net.place(f"{name}.sending_tainted_{case}") for case in range(len(port.cases))),
        state=_state(net, name) if port.stateful else None,
    )


def _state(net: Net, name: str) -> StatePlaces:
    counts = ("settle", "settling", "own", "owning", "refill", "refilling", "cut", "cut_at")
    flags = ("settling", "owning", "refilling")
    return StatePlaces(**{count: net.place(f"{name}.{count}", rarely=count in flags) for count in counts})


def _settling(port: Port, lost: Number) -> Expression:
    """Z = min(αS + βL, γS) as an expression, rounded up to whole tuples."""
    settling, state = port.settling, port.state_tuples
    return ceil(minimum(settling.penalty * state + settling.staleness * lost, settling.cap * state))
