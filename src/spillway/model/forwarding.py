"""What may be skipped in a stream net, and its law (the mechanism is `spillway.san.fast_forward`).

**Theory.** Let every operator wait for input when the next tuple comes from outside. What is down, upset, refilling,
active: the *mode* of the net, is all the marking says then, beside counts. In one mode the journeys of tuples are
independent and alike. A tuple that reaches a port is processed there; its outcome falls on one case, with chances that
depend on the mode alone; its output reaches the readers that the mode lets it reach, and is lost on the others. So
given how many tuples came, how many passed each stream, clean and tainted, are binomial splits along the flow, and that
is what a jump samples. It does so in *every* mode, also while something is failed or unstable, not only when all is
well.

A mode ends with an event that is not a tuple's (crash, recovery, failover, corruption, punctuation, clock), which ends
the jump, or with a count that runs out. An arrival takes no more from a count than tuples of it can reach the port, so
a jump that brings no more arrivals than the smallest count can bear cannot skip its end; the last tuple is always
simulated. From Z tuples at p per arrival about log Z / log(1/(1 - p)) jumps remain instead of Z/p arrivals.

A tainted tuple that reaches a port with state changes the mode of an operator that is settled, so there is no jump
then. In one that is settling it does nothing while more is left to settle than it would ask for itself, and that is the
bound down to which the count may run in a jump.

Exact if a tuple's journey, in processor seconds, ends before the next tuple comes: the engine simulates a longest
journey before each event. Where operators are busier than that, journeys overlap and nothing could be skipped. There
processing is hastened until journeys fit (`Building.hasten`): tuples, losses and settling are counted in tuples and
stay what they are, processor seconds are counted at their true cost, and only the queues between operators that keep up
are not seen.
"""

from spillway.model.construction import Building
from spillway.model.copies import CopyPlaces, PortPlaces, tainted_settling
from spillway.model.keeping import ready, redoing
from spillway.model.operators import chances, tainted_chance
from spillway.model.zero_or_one import always, both, either, negated, never, product
from spillway.san.expressions import Number, where
from spillway.san.fast_forward import FastForward
from spillway.san.fast_forward import Flow as Stream
from spillway.san.parts import Place

_NO_LIMIT = -(2.0**52)


def add_fast_forward(building: Building) -> bool:
    """Declare the law of what may be skipped; false if the flow has operators for which there is none."""
    if any(port.parallel for operator in building.flow.operators for port in operator.ports):
        return False  # Tuples stay inside for as long as they like.
    forward = building.net.fast_forward(when=both(_calm(building)), lead=building.journey_s)
    _Law(building, forward).declare()
    return True


def _calm(building: Building) -> list[Number]:
    conditions: list[Number] = []
    for copy in building.all_copies():
        conditions.append(copy.waiting == 1)
        if not isinstance(copy.spoil, int):
            conditions.append(copy.spoil == 0)
        for at, port in enumerate(copy.ports):
            tainted = _may_be_tainted(building, copy, at)
            if port.state is not None and not never(tainted):
                conditions.append(either([negated(tainted), port.state.settle >= tainted_settling(port.port)]))
    return conditions


def _may_be_tainted(building: Building, copy: CopyPlaces, at: int) -> Number:
    """Whether tainted tuples may reach a port in the present mode: whether anything before it is settling."""
    found = []
    for index in building.flow.upstream_of(copy.index, at):
        for writer in building.copies[index]:
            inside = building.layout.aligned(index, copy.index)
            if inside and writer.replica != copy.replica:
                continue
            gate = 1 if inside else building.gates.get((index, writer.replica), 1)
            found.append(product(gate, writer.alive, writer.settling))
    before = [building.kept[key] for key in building.kept if key[0] in building.flow.upstream_of(copy.index, at)]
    if (copy.index, at) in building.kept:
        before.append(building.kept[copy.index, at])
    return either([*found, *(kept.tainted > 0 for kept in before)])


class _Law:
    """The flows of one fast-forward, sampled in the order in which tuples reach operators."""

    def __init__(self, building: Building, forward: FastForward) -> None:
        self._building = building
        self._forward = forward
        # By operator, replica, port and taint: what arrives there during a jump.
        self._arriving: dict[tuple[int, int, int, bool], list[Stream]] = {}
        # By reader, stream and taint: what each copy of the writer sends, if the reader drops duplicates.
        self._redundant: dict[tuple[int, int, int, int, bool], dict[int, Stream]] = {}

    def declare(self) -> None:
        building, forward = self._building, self._forward
        for name in building.flow.rates:
            index = building.flow.index(name)
            came = forward.arrivals(f"{name}.arrive")
            forward.adds(building.arrivals, came)
            weight = building.flow.operators[index].ports[0].weight
            kept = building.kept.get((index, 0))
            for copy in building.copies[index]:
                there = product(kept.direct if kept else 1, copy.alive)
                self._arrive(copy, 0, self._part(came, there), tainted=False)
            if kept is not None:
                self._keep(came, negated(kept.direct), kept.clean, weight)
                continue
            self._lose(came, both(negated(copy.alive) for copy in building.copies[index]), weight)
        self._catch_up()
        for copy in building.all_copies():
            self._pass_unseen(copy)
            for at, port in enumerate(copy.ports):
                self._process(copy, at, port)

    def _catch_up(self) -> None:
        """What was kept is taken, and what is done again is done, down to the last tuple, which is simulated."""
        building, forward = self._building, self._forward
        for (index, at), kept in building.kept.items():
            ready_now = ready(building, index, at)
            for tainted, place in ((False, kept.clean), (True, kept.tainted)):
                taken = forward.arrivals(kept.clock(tainted=tainted))
                runs = both([ready_now, place > 0, *([kept.clean == 0] if tainted else [])])
                forward.adds(place, taken, times=-1, at_least=where(runs, 1, _NO_LIMIT))
                for copy in building.copies[index]:
                    self._arrive(copy, at, self._part(taken, copy.alive), tainted=tainted)
        for job in building.jobs.values():
            done = forward.arrivals(job.clock)
            forward.adds(job.redo, done, times=-1, at_least=where(redoing(building, job), 1, _NO_LIMIT))
            forward.adds(job.redone, done)

    def _process(self, copy: CopyPlaces, at: int, port: PortPlaces) -> None:
        forward, building = self._forward, self._building
        clean = self._arrived(copy, at, tainted=False)
        if clean is not None:
            forward.adds(port.done, clean)
            self._count_down(copy, at, port, clean)
            both_chances = [chances(building, copy, port.port, case) for case in port.port.cases]
            wanted = [(case, tainted) for case in range(len(both_chances)) for tainted in (False, True)]
            kept = [(case, tainted) for case, tainted in wanted if not never(both_chances[case][tainted])]
            parts = forward.split(clean, *(both_chances[case][tainted] for case, tainted in kept)) if kept else ()
            for (case, tainted), part in zip(kept, parts, strict=True):
                self._send(copy, port.port.cases[case].puts, part, tainted=tainted)
        dirty = self._arrived(copy, at, tainted=True)
        if dirty is not None:
            forward.adds(port.done_tainted, dirty)
            shares = [tainted_chance(building, copy, port.port, case) for case in port.port.cases]
            tainted_parts = forward.split(dirty, *shares) if shares else ()
            for outcome, part in zip(port.port.cases, tainted_parts, strict=True):
                self._send(copy, outcome.puts, part, tainted=True)

    def _count_down(self, copy: CopyPlaces, at: int, port: PortPlaces, clean: Stream) -> None:
        state = port.state
        if state is None:
            return
        tainted = _may_be_tainted(self._building, copy, at)
        least = where(tainted, tainted_settling(port.port), 1)
        running = state.settling * (state.cut == 0)
        for count, runs, stop in (
            (state.settle, running, least),
            (state.own, state.owning * (state.cut == 0), 1),
            (state.refill, state.refilling, 1),
        ):
            (part,) = self._forward.split(clean, runs)
            self._forward.adds(count, part, times=-1, at_least=where(runs, stop, _NO_LIMIT))

    def _send(self, copy: CopyPlaces, puts: tuple[int, ...], flow: Stream, *, tainted: bool) -> None:
        building = self._building
        for output, count in enumerate(puts):
            if not count:
                continue
            for stream, link in building.links_from(copy, output):
                for reader in building.readers(copy, stream, link):
                    part = self._repeat(self._part(flow, reader.receives), count)
                    seen = building.seen(reader, tainted=tainted)
                    if part is None:
                        continue
                    if len(seen) <= 1:
                        self._arrive(reader.copy, link.port, part, tainted=tainted)
                    else:
                        key = (reader.copy.index, reader.copy.replica, link.port, stream, tainted)
                        sent = self._redundant.setdefault(key, {})
                        before = sent.get(copy.replica)
                        sent[copy.replica] = part if before is None else self._forward.merge(before, part)
                weight = building.flow.operators[link.target].ports[link.port].weight
                self._lose(flow, building.missed(copy, link), count * weight)
                if (link.target, link.port) in building.kept:
                    kept = building.kept[link.target, link.port]
                    place = kept.tainted if tainted else kept.clean
                    self._keep(flow, building.waits(copy, link), place, weight, count=count)

    def _pass_unseen(self, copy: CopyPlaces) -> None:
        """Of what redundant copies of a writer send, a reader passes by how much the largest count rises."""
        forward = self._forward
        anyhow: dict[tuple[int, int], list[Stream]] = {}
        for (index, replica, at, stream, tainted), sent in self._redundant.items():
            if (index, replica) != (copy.index, copy.replica):
                continue
            passed = forward.rise(*((copy.seen[stream, writer, tainted], flow) for writer, flow in sent.items()))
            self._arrive(copy, at, passed, tainted=tainted)
            for writer, flow in sent.items():
                forward.adds(copy.seen[stream, writer, tainted], flow)
                anyhow.setdefault((stream, writer), []).append(flow)
            if copy.seen_any:
                forward.adds(self._building.passed, passed)
        if copy.seen_any:
            self._count_unique(copy, anyhow)

    def _count_unique(self, copy: CopyPlaces, sent: dict[tuple[int, int], list[Stream]]) -> None:
        """At a sink: what the copy that sent most has sent, clean or tainted."""
        forward = self._forward
        merged = {key: forward.merge(*flows) for key, flows in sent.items()}
        for stream in {stream for stream, _ in merged}:
            gains = [(copy.seen_any[key], flow) for key, flow in merged.items() if key[0] == stream]
            forward.adds(self._building.unique, forward.rise(*gains))
            for place, flow in gains:
                forward.adds(place, flow)

    def _arrive(self, copy: CopyPlaces, at: int, flow: Stream | None, *, tainted: bool) -> None:
        if flow is not None:
            self._arriving.setdefault((copy.index, copy.replica, at, tainted), []).append(flow)

    def _arrived(self, copy: CopyPlaces, at: int, *, tainted: bool) -> Stream | None:
        flows = self._arriving.get((copy.index, copy.replica, at, tainted), [])
        if len(flows) <= 1:
            return flows[0] if flows else None
        return self._forward.merge(*flows)

    def _lose(self, flow: Stream, chance: Number, count: int) -> None:
        lost = self._part(flow, chance)
        if lost is not None:
            self._forward.adds(self._building.lost, lost, times=count)

    def _keep(self, flow: Stream, chance: Number, place: Place, weight: int, *, count: int = 1) -> None:
        kept = self._part(flow, chance)
        if kept is not None:
            self._forward.adds(place, kept, times=count)
            self._forward.adds(self._building.delayed, kept, times=count * weight)

    def _part(self, flow: Stream, chance: Number) -> Stream | None:
        if never(chance):
            return None
        return flow if always(chance) else self._forward.split(flow, chance)[0]

    def _repeat(self, flow: Stream | None, count: int) -> Stream | None:
        """A flow `count` times over, by doubling."""
        if flow is None or count == 1:
            return flow
        half = self._repeat(flow, count // 2)
        assert half is not None
        return self._forward.merge(half, half, *([flow] if count % 2 else []))
