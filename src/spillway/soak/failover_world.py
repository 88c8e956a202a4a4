"""A group of replicas and a reader that follows the active one: the failover machine as it is, all around it pretence.

Every step that somebody can take is small and named, so that a random walk and a search through all interleavings take
the same ones. A process that is not chosen is one that is slow. Between the wish to claim an epoch and the claim
anything may happen; so may it between a look at the seat and what follows.

What a replica holds is how many batches it has done and from which on its log has them. It may die with its memory:
then it goes on from its backup, its log begins there, and it is ready when the reader needs nothing from before.

The stream that all replicas read is kept for each as far as its backup has not got, by a writer that lets go of one
that is away (``protocols.seating``), between any two of its thoughts, and then of what was kept for it alone. Whoever
comes back starts from another (``protocols.restarting``).
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from spillway.protocols.failover import Claim, Claimed, Failover, Looked, Rule, State
from spillway.protocols.restarting import Standing, Start, decide
from spillway.protocols.seating import NOBODY, AwayRule, Seated, who_goes

RULE = Rule(detection_s=1.0)
FREE_RUNNING = Rule(detection_s=1.0, patience=2.0)
_OF_OTHERS = ("follow", "read", "think of letting go", "let go", "trim")
AWAY = AwayRule(away_s=60.0, full_s=1.0)
_SOON_S, _LATE_S = 0.0, 10.0  # since a heart was heard last: it is waited for; nobody waits any longer


class BrokenError(AssertionError):
    """Something is not as it must be; the message has the steps that led there."""


@dataclass(slots=True)
class Replica:
    """One of the group."""

    name: str
    machine: Failover | None = None  # None while it is down
    claim: Claim | None = None  # which it wished for and has not made yet
    beats: int = 0
    start: int = 0  # the first batch that its log has
    done: int = 0
    saved: int = 0  # what its backup has
    working: bool = True  # once it has been started; one that was let go has to find a state to start with

    def key(self) -> tuple[object, ...]:
        """All that matters for what may happen next; beats are told apart only as heard and not heard."""
        machine = self.machine
        told = None if machine is None else (machine.state, machine.epoch, machine._heard is None)
        claim = None if self.claim is None else self.claim.epoch
        return (told, claim, self.start, self.done, self.saved, self.working)


@dataclass(slots=True)
class FailoverWorld:
    """A group at work. ``by_position``: readers are sent all that they lack; else what was not sent is lost."""

    replicas: list[Replica]
    by_position: bool = True
    batches: int = 6
    seat: list[Seated] = field(default_factory=list)  # by epoch
    kept: int = 0  # the first batch that the stream is kept from which replicas read
    letting_go: Seated | None = None  # what the writer of that is about to add to the seat
    follows: int = NOBODY  # the epoch that the reader knows of
    position: int = 0  # the batch that the reader wants next
    lost: int = 0  # batches that it was not sent
    failovers: int = 0
    crashes: int = 0
    let_go: int = 0
    told: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, count: int, *, by_position: bool = True, batches: int = 6) -> "FailoverWorld":
        world = cls([Replica(name=f"r{number}") for number in range(count)], by_position=by_position, batches=batches)
        for replica in world.replicas:
            world._start(replica)
        return world

    def copy(self) -> "FailoverWorld":
        """The same once more, for whoever wants to know what else could happen."""
        replicas = [replace(one, machine=copy(one.machine)) for one in self.replicas]
        return replace(self, replicas=replicas, seat=[*self.seat], told=[*self.told])

    def key(self) -> tuple[object, ...]:
        """All that matters for what may happen next."""
        replicas = tuple(replica.key() for replica in self.replicas)
        stream = (self.kept, self.letting_go)
        return (replicas, tuple(self.seat), self.follows, self.position, self.lost, self.crashes, stream)

    @property
    def newest(self) -> Seated:
        return self.seat[-1] if self.seat else Seated()

    # -- what may happen ----------------------------------------------------------------------------------------------

    def steps(self, *, crashes_max: int) -> Iterator[tuple[str, int]]:
        """Every step that somebody can take now, and who."""
        for number, replica in enumerate(self.replicas):
            if replica.machine is None:
                yield "restart", number
                continue
            if replica.claim is not None:
                yield "claim", number
            else:
                yield "look", number
                yield "look late", number
            if replica.working and self.kept <= replica.done < self.batches:
                yield "batch", number
            if replica.saved < replica.done:
                yield "save", number
            if self.crashes < crashes_max:
                yield "die", number
                if self._others_could_go_on(number):
                    yield "die with memory", number
            if not replica.working:
                yield from self._ways_back(number)
        if self.follows < len(self.seat) - 1:
            yield "follow", 0
        if self.follows != NOBODY and self._can_read():
            yield "read", 0
        yield from self._steps_of_writer()

    def _ways_back(self, number: int) -> Iterator[tuple[str, int]]:
        """What one that was let go can do."""
        replica = self.replicas[number]
        if replica.name in self.newest.away:
            yield "return", number
        if replica.name in self.newest.returning and self._from_where(replica):
            yield "rejoin", number

    def _steps_of_writer(self) -> Iterator[tuple[str, int]]:
        if self.letting_go is not None:
            yield "let go", 0
        elif self._who_goes():
            yield "think of letting go", 0
        if self._needed_from() > self.kept:
            yield "trim", 0

    def take(self, step: str, number: int) -> None:
        """Take a step; raises if something must not have happened."""
        replica = self.replicas[number]
        self.told.append(f"{step} {replica.name if step not in _OF_OTHERS else ''}".rstrip())
        match step:
            case "restart":
                self._start(replica)
            case "look" | "look late":
                self._look(replica, late=step == "look late")
            case "claim":
                self._claim(replica)
            case "batch":
                replica.done += 1
                self._beat(replica)
            case "save":
                replica.saved = replica.done
            case "die" | "die with memory":
                self._die(replica, with_memory=step == "die with memory")
            case "return":
                self.seat.append(self.newest.returns(replica.name))
            case "rejoin":
                self._rejoin(replica)
            case "follow":
                self._follow()
            case "read":
                self.position += 1
            case _:
                self._take_of_writer(step)
        self._check()

    def _take_of_writer(self, step: str) -> None:
        match step:
            case "think of letting go":
                self.letting_go = self.newest.let_go(self._who_goes())
            case "let go":
                self._let_go()
            case "trim":
                self.kept = self._needed_from()

    def _start(self, replica: Replica) -> None:
        replica.machine = Failover(replica.name, RULE if self.by_position else FREE_RUNNING)
        replica.working = replica.name not in self.newest.missing

    def _look(self, replica: Replica, *, late: bool) -> None:
        machine = replica.machine
        assert machine is not None
        newest, let_go = len(self.seat) - 1, replica.name in self.newest.missing
        active = next((one for one in self.replicas if one.name == self.newest.replica), None)
        if let_go and replica.working:
            self._start(replica)  # while it was away, and it had come back by then: it is started again
            return
        self._beat(replica)
        now_s = machine._heard_s + (_LATE_S if late else _SOON_S)
        looked = Looked(
            epoch=newest,
            active="" if active is None else active.name,
            beats=0 if active is None else active.beats,
            ready=replica.start <= self.position,
            now_s=now_s,
            let_go=let_go,
        )
        claim = machine.handle(looked)
        replica.claim = claim if isinstance(claim, Claim) else None

    def _beat(self, replica: Replica) -> None:
        # One that is up and not active any more, because it was started again, must not be taken for alive.
        replica.beats += replica.machine is not None and replica.machine.state is State.ACTIVE

    def _claim(self, replica: Replica) -> None:
        assert replica.machine is not None and replica.claim is not None
        epoch, replica.claim = replica.claim.epoch, None
        if epoch > len(self.seat):
            raise self._broken(f"{replica.name} claims epoch {epoch}, and there is none before it")
        won = epoch == len(self.seat)
        if won and replica.name in self.newest.missing:
            raise self._broken(f"{replica.name} was let go, and is active")
        if won:
            self.seat.append(self.newest.claimed(replica.name))
            self.failovers += epoch > 0
        replica.machine.handle(Claimed(epoch=epoch, won=won))

    def _die(self, replica: Replica, *, with_memory: bool) -> None:
        self.crashes += 1
        replica.machine = replica.claim = None
        if with_memory:
            replica.done = replica.start = replica.saved

    def _others_could_go_on(self, number: int) -> bool:
        """Whether memory may be lost: the promise is about groups of which one replica has all that is needed."""
        missing = self.newest.missing | (self.letting_go.away if self.letting_go is not None else frozenset())
        others = [one for index, one in enumerate(self.replicas) if index != number and one.name not in missing]
        return not self.by_position or any(one.start <= self.position for one in others)

    # -- the writer of what replicas read -----------------------------------------------------------------------------

    def _who_goes(self) -> str:
        absent_s = {one.name: _LATE_S for one in self.replicas if one.machine is None or not self._is_heard(one)}
        full = max(one.done for one in self.replicas) > self.kept
        return who_goes(self.newest, tuple(one.name for one in self.replicas), absent_s=absent_s, full=full, rule=AWAY)

    def _is_heard(self, replica: Replica) -> bool:
        """Whether a heart beats that should."""
        machine = replica.machine
        return replica.name != self.newest.replica or (machine is not None and machine.state is State.ACTIVE)

    def _let_go(self) -> None:
        assert self.letting_go is not None
        if self.letting_go.epoch == len(self.seat):
            self.seat.append(self.letting_go)
            self.let_go += 1
        self.letting_go = None

    def _needed_from(self) -> int:
        return min(one.saved for one in self.replicas if one.name not in self.newest.away)

    def _from_where(self, replica: Replica) -> str:
        """Whom one that was let go starts from; its own name if it has missed nothing, empty if it has to wait."""
        peers = {
            one.name: Standing(committed=one.done, whole=True)
            for one in self.replicas
            if one.name not in self.newest.missing
        }
        decided = decide("own", Standing(committed=replica.done, whole=True), peers, let_go=True)
        return "" if decided.start is Start.WAIT else decided.peer or replica.name

    def _rejoin(self, replica: Replica) -> None:
        peer = next(one for one in self.replicas if one.name == self._from_where(replica))
        if peer is not replica:
            replica.done, replica.start = peer.done, peer.start
        replica.saved = replica.done  # it will not go back behind that: what is kept for it begins there
        replica.working = True
        self.seat.append(self.newest.returned(replica.name))

    # -- the reader ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        self.follows = len(self.seat) - 1
        followed = self._followed()
        if not self.by_position and followed.done > self.position:
            self.lost += followed.done - self.position  # what it sent before it was active nobody got
            self.position = followed.done

    def _followed(self) -> Replica:
        return next(one for one in self.replicas if one.name == self.seat[self.follows].replica)

    def _can_read(self) -> bool:
        # The log outlives its replica's process, though not its memory.
        followed = self._followed()
        return followed.start <= self.position < followed.done

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        active = [
            replica.machine.epoch
            for replica in self.replicas
            if replica.machine is not None and replica.machine.state is State.ACTIVE
        ]
        if len({*active}) < len(active):
            raise self._broken("two replicas are active in one epoch")
        for replica in self.replicas:
            machine = replica.machine
            if machine is None or machine.state is not State.ACTIVE:
                continue
            if self.seat[machine.epoch].replica != replica.name:
                raise self._broken(f"{replica.name} is active in an epoch of {self.seat[machine.epoch].replica}")
        present = [one for one in self.replicas if one.name not in self.newest.missing]
        if not present:
            raise self._broken("all replicas were let go")
        if any(one.saved < self.kept for one in present):
            raise self._broken("a replica that was not let go lacks what it has to read")
        if self.by_position and self.lost:
            raise self._broken("something is lost that a replica had")

    def settle(self) -> None:
        """Nothing fails any more and all take part: the reader must get all there is, from one active replica."""
        for _ in range(8 * (self.batches + len(self.replicas))):
            if self.position == self.batches and self._one_is_active():
                return
            for number, replica in enumerate(self.replicas):
                if replica.machine is None:
                    self.take("restart", number)
                if replica.claim is None and replica.working and replica.name in self.newest.missing:
                    self.take("look", number)
                while not replica.working and (ways := [*self._ways_back(number)]):
                    self.take(*ways[0])
                if replica.claim is not None:
                    self.take("claim", number)
                if replica.working and self.kept <= replica.done < self.batches:
                    self.take("batch", number)
                if replica.claim is None:
                    self.take("look late" if self._is_left(replica) else "look", number)
            if self.follows < len(self.seat) - 1:
                self.take("follow", 0)
            if self.follows != NOBODY and self._can_read():
                self.take("read", 0)
        raise self._broken(f"the reader got {self.position} of {self.batches} batches, and nothing moves")

    def _one_is_active(self) -> bool:
        machines = [one.machine for one in self.replicas if one.machine is not None]
        newest = [one for one in machines if one.epoch == len(self.seat) - 1 and one.state is State.ACTIVE]
        return len(newest) == 1 and self.follows == len(self.seat) - 1

    def _is_left(self, replica: Replica) -> bool:
        """Whether a replica hears no heart although it listens for long: whoever should be active is not."""
        machine = replica.machine
        if machine is None or replica.claim is not None or machine.state is State.ACTIVE:
            return False
        if not self.newest.replica:
            return True
        active = next(one for one in self.replicas if one.name == self.newest.replica)
        return active.machine is None or active.machine.state is not State.ACTIVE

    def _broken(self, what: str) -> BrokenError:
        steps = "\n".join(f"  {step}" for step in self.told)
        seat = [(one.replica, sorted(one.away), sorted(one.returning)) for one in self.seat]
        return BrokenError(f"Broken: {what}. Seat {seat}; the reader is at {self.position}. Steps:\n{steps}")
