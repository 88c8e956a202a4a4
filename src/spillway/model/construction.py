"""A net under construction: the copies of all operators and who hears from whom.

Protections and faults find here what they need to say what an event does to others; see `protections.technique`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spillway.model.copies import CopyPlaces, PortPlaces, StatePlaces, places_of
from spillway.model.faults import Faults
from spillway.model.flow import Flow, Link
from spillway.model.kept import JobPlaces, KeptPlaces, job_places, kept_places
from spillway.model.layout import Layout
from spillway.model.zero_or_one import both, negated, never, plus, product
from spillway.san.expressions import Expression, Number, all_of, maximum
from spillway.san.net import Net
from spillway.san.parts import Assignment, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A copy that gets what another puts out, on a port, whenever `receives` holds."""

    stream: int  # index of the link
    copy: CopyPlaces
    port: PortPlaces
    receives: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependant:
    """A port with state that is upset when a copy goes down, if `condition` holds at that moment."""

    port: PortPlaces
    state: StatePlaces
    per_arrival: float
    condition: Number

    def cuts(self, arrivals: Place) -> list[Assignment]:
        return self.state.cuts(self.port.port, arrivals, self.condition)

    def mends(self, arrivals: Place) -> list[Assignment]:
        return self.state.mends(self.port.port, arrivals, self.per_arrival, self.condition)


class Building:
    """What all parts of a net under construction share."""

    def __init__(self, flow: Flow, layout: Layout, faults: Faults, *, buffer_tuples: int) -> None:
        self.flow = flow
        self.layout = layout
        self.faults = faults
        self.buffer_tuples = buffer_tuples
        self.net = Net(flow.name)
        self.arrivals = self.net.place("arrivals")  # tuples from outside so far
        self.lost = self.net.place("lost")  # tuples dropped because whoever should have had them was down
        self.delayed = self.net.place("delayed")  # tuples kept because whoever should have had them was not ready
        self.copies: tuple[tuple[CopyPlaces, ...], ...] = tuple(
            tuple(
                places_of(
                    self.net,
                    operator,
                    index=index,
                    replica=replica,
                    crashes=faults.crashes,
                    corrupts=faults.corrupts,
                )
                for replica in range(layout.copies[index])
            )
            for index, operator in enumerate(flow.operators)
        )
        # Of tuples that redundant copies sent to sinks: those that passed, and those of the copy that sent most.
        self.passed = self.net.place("passed")
        self.unique = self.net.place("unique")
        self.haste = 1.0
        """How many times as fast as in truth tuples are processed."""
        self.gates: dict[tuple[int, int], Number] = {}
        """When a copy's tuples leave its group, by operator and replica; always, if it is not named."""
        # Without crashes everybody is always ready.
        self.kept: dict[tuple[int, int], KeptPlaces] = {}
        self.jobs: dict[int, JobPlaces] = {}
        if layout.keeps and faults.crashes:
            self.kept = kept_places(self.net, layout)
            self.jobs = job_places(self.net, layout, self.copies)
        self.allowed: dict[tuple[int, int], Place] = {}
        """Tuples that a port with state may forget when it fails next, by operator and port, if a technique says."""
        self.forgotten: dict[tuple[int, int], Place] = {}
        """And those it has forgotten so far."""
        if layout.deduplicated:
            self._declare_seen()

    @property
    def journey_s(self) -> float:
        """The longest that one tuple from outside can keep operators busy.

        A clean and a tainted version of it may both be on their way, and copies send each other's duplicates.
        """
        return 2.0 * max(self.layout.copies) * self.flow.work_max_s / self.haste

    def hasten(self) -> None:
        """Process fast enough for every journey to end well before the next tuple comes, from outside or a log."""
        kept_s = min((kept.period_s for kept in self.kept.values()), default=math.inf)
        self.haste = max(1.0, 2.0 * self.journey_s * max(self.flow.rate, 1 / kept_s))

    def all_copies(self) -> Iterator[CopyPlaces]:
        for copies in self.copies:
            yield from copies

    def links_from(self, copy: CopyPlaces, output: int) -> Iterator[tuple[int, Link]]:
        for stream, link in enumerate(self.flow.links):
            if (link.source, link.output) == (copy.index, output):
                yield stream, link

    def readers(self, copy: CopyPlaces, stream: int, link: Link) -> list[Reader]:
        """Who gets what a copy puts on a stream."""
        gate = 1 if self.layout.aligned(link.source, link.target) else self.gates.get((copy.index, copy.replica), 1)
        found = []
        for replica in self.layout.readers(copy.index, copy.replica, link.target):
            reader = self.copies[link.target][replica]
            kept = self.kept.get((link.target, link.port))
            receives = product(gate, kept.direct if kept else 1, reader.alive)
            found.append(Reader(stream=stream, copy=reader, port=reader.ports[link.port], receives=receives))
        return found

    def missed(self, copy: CopyPlaces, link: Link) -> Number:
        """Whether a tuple that a copy puts on a stream is lost to the application.

        It is if nobody is there to read it, or no replica may speak for its group. Of several copies only the first
        that gets tuples counts its own as lost: they are the same tuples. When every replica of a group lacks another
        operator, none of them gets any, and what is lost then is not counted. Nothing is lost where streams keep it.
        """
        if (link.target, link.port) in self.kept:
            return 0
        silent: Number = 0
        if not self.layout.aligned(link.source, link.target):
            copies = self.copies[copy.index]
            silent = both(negated(self.gates.get((each.index, each.replica), 1)) for each in copies)
        dead = both(negated(each.alive) for each in self.copies[link.target])
        first = both(negated(self.whole(copy.index, replica)) for replica in range(copy.replica))
        return product(first, negated(both([negated(silent), negated(dead)])))

    def whole(self, operator: int, replica: int) -> Number:
        """Whether a copy and all others of its replica of a group are alive."""
        group = self.layout.groups[operator]
        members = self.layout.members(group) if group >= 0 else (operator,)
        return both(self.copies[index][replica].alive for index in members)

    def delivers(self, copy: CopyPlaces, puts: tuple[int, ...], *, tainted: bool) -> list[Assignment]:
        """What sending does: tuples reach those who are there, and are lost on those who are not."""
        does: list[Assignment] = []
        for output, count in enumerate(puts):
            if not count:
                continue
            for stream, link in self.links_from(copy, output):
                for reader in self.readers(copy, stream, link):
                    does += self._arrives(copy, reader, count, tainted=tainted)
                weight = self.flow.operators[link.target].ports[link.port].weight
                missed = self.missed(copy, link)
                if not never(missed):
                    does.append(self.lost.add(product(count * weight, missed)))
                if (link.target, link.port) in self.kept:
                    kept, kept_now = self.kept[link.target, link.port], self.waits(copy, link)
                    does += [
                        (kept.tainted if tainted else kept.clean).add(product(count, kept_now)),
                        self.delayed.add(product(count * weight, kept_now)),
                    ]
        return does

    def waits(self, copy: CopyPlaces, link: Link) -> Number:
        """Whether a tuple that a copy puts on a stream is kept for a reader that is not ready.

        Of several copies only one says so: that which speaks for its group, or, while none does, the first that is
        whole.
        """
        kept = self.kept.get((link.target, link.port))
        if kept is None:
            return 0
        first = both(negated(self.whole(copy.index, replica)) for replica in range(copy.replica))
        copies = self.copies[copy.index]
        gates = [self.gates[each.index, each.replica] for each in copies if (each.index, each.replica) in self.gates]
        if self.layout.aligned(link.source, link.target) or not gates:
            return product(negated(kept.direct), first)
        silent = both(negated(gate) for gate in gates)
        return product(negated(kept.direct), plus([gates[copy.replica], product(silent, first)]))

    def room(self, copy: CopyPlaces, puts: tuple[int, ...]) -> Number:
        """Whether every reader has room: back-pressure (seed 001, 5.2.1)."""
        conditions = []
        for output, count in enumerate(puts):
            if not count:
                continue
            for stream, link in self.links_from(copy, output):
                for reader in self.readers(copy, stream, link):
                    # One that is down has nothing waiting, so there is room for what will be kept or lost.
                    conditions.append(reader.port.clean + reader.port.tainted < self.buffer_tuples)
        return both(conditions)

    def others_down(self, copy: CopyPlaces) -> Number:
        """Whether no other copy of the operator is alive."""
        others = [each for each in self.copies[copy.index] if each is not copy]
        return both(negated(each.alive) for each in others)

    def dependants(self, copy: CopyPlaces) -> list[Dependant]:
        """Ports with state that are upset by a crash of a copy itself; those behind a group hear from the group."""
        found: list[Dependant] = []
        if self.layout.keeps_for(copy.index):
            return found  # They get everything, if later.
        for reader in self.all_copies():
            if self.layout.groups[copy.index] >= 0:
                same = self.layout.aligned(copy.index, reader.index) and copy.replica == reader.replica
                condition: Number = 1 if same else 0
            else:
                condition = self.others_down(copy)
            if not never(condition):
                found += self._dependants_on({copy.index}, reader, condition)
        return found

    def dependants_of_group(self, group: int) -> list[Dependant]:
        """Ports with state outside a group that are upset when no replica speaks for it."""
        if self.layout.keeps:
            return []
        members = set(self.layout.members(group))
        outside = [copy for copy in self.all_copies() if copy.index not in members]
        return [found for copy in outside for found in self._dependants_on(members, copy, 1)]

    def _dependants_on(self, operators: set[int], reader: CopyPlaces, condition: Number) -> Iterator[Dependant]:
        for at, port in enumerate(reader.ports):
            if port.state is not None and operators & self.flow.upstream_of(reader.index, at):
                per_arrival = self.flow.per_arrival[reader.index][at]
                yield Dependant(port=port, state=port.state, per_arrival=per_arrival, condition=condition)

    def _arrives(self, copy: CopyPlaces, reader: Reader, count: int, *, tainted: bool) -> list[Assignment]:
        place = reader.port.tainted if tainted else reader.port.clean
        seen = self.seen(reader, tainted=tainted)
        if len(seen) <= 1:
            return [] if never(reader.receives) else [place.add(product(count, reader.receives))]
        # Only what takes the count of its stream above those of the redundant ones is new (seed 001, 5.5.3).
        own = seen[copy.replica]
        others = [each for replica, each in seen.items() if replica != copy.replica]
        new = product(_rise(own, others, count), reader.receives)
        came = product(count, reader.receives)
        does = [place.add(new)]
        if reader.copy.seen_any:
            anyhow = self.seen_anyhow(reader)
            most = [each for replica, each in anyhow.items() if replica != copy.replica]
            rises = product(_rise(anyhow[copy.replica], most, count), reader.receives)
            does += [self.passed.add(new), self.unique.add(rises), anyhow[copy.replica].add(came)]
        return [*does, own.add(came)]

    def seen(self, reader: Reader, *, tainted: bool) -> Mapping[int, Place]:
        """Counts of tuples from each copy of the writer, if the reader drops duplicates."""
        return {
            replica: place
            for (stream, replica, of_tainted), place in reader.copy.seen.items()
            if stream == reader.stream and of_tainted == tainted
        }

    def seen_anyhow(self, reader: Reader) -> Mapping[int, Place]:
        """The same counts, clean and tainted together."""
        return {replica: place for (stream, replica), place in reader.copy.seen_any.items() if stream == reader.stream}

    def _declare_seen(self) -> None:
        for stream, link in enumerate(self.flow.links):
            if self.layout.copies[link.source] == 1:
                continue
            for reader in self.copies[link.target]:
                for replica in range(self.layout.copies[link.source]):
                    for tainted in (False, True):
                        kind = "tainted" if tainted else "clean"
                        name = f"{reader.name}.seen_{stream}_{kind}_from[{replica}]"
                        reader.seen[stream, replica, tainted] = self.net.place(name)
                    if link.target in self.flow.sinks:
                        name = f"{reader.name}.seen_{stream}_from[{replica}]"
                        reader.seen_any[stream, replica] = self.net.place(name)

    def busy(self, copy: CopyPlaces) -> Number:
        """Processor seconds a copy has used so far."""
        return plus(product(port.port.cost_s, port.done + port.done_tainted) for port in copy.ports)


def _rise(own: Place, others: Sequence[Place], count: int) -> Expression:
    """By how much the largest of several counts rises if one of them does."""
    if count == 1:
        return all_of(*(own >= other for other in others))  # the same, in fewer steps
    most = maximum(*others)
    return maximum(own + count, most) - maximum(own, most)
