"""Which host owns each shard, and when it moves.

Theory of operation
-------------------
A shard's memory is on one host, its *owner*, and every batch of the shard runs there. Owners are given out in turn to
the hosts that live when the first batch begins, and kept. What a driver does before a batch:

    seen        which hosts show an executor now
    decide      what to do about it: go on, wait, or give up; and which shards have a new owner from now on

    owner lives                                     its shards run there
    owner shows no executor                         its shards are *late*: the memory is probably still there
    late for as long as it may be                   the shard *migrates*: a living host recovers it from its backups,
                                                    which is a failure
    owner lives, its memory was lost                its shards stay, and recover there from their backups: failures
    a person asks, or hosts joined and are wanted   the shard *migrates* while both hosts live: its memory is handed
                                                    over, which loses nothing and is no failure
    no host lives                                   all wait; after too long the run gives up

A shard may be late for ``delay_max_s`` of its operator less the longest recovery seen so far: then the output that
waits for it is no later than it may be (seed 003, 3.4: failure handling starts when the delay passes the allowed one
minus the recovery time). Every shard takes part in every batch, so one late shard makes the batch wait.

Every change of owner begins a new *epoch* of the shard. Epochs fence: whoever acts for an older epoch, because it was
only slow, has no effect on memory or backups that count (see ``fencing``). So the table of owners must be durable
before anyone acts on it: a driver that comes later goes on from it.

A hand-over is proposed first and counts when it is done: until then the shard is where it was, so that nothing is lost
if either host dies in the middle. An epoch that was proposed is not given out again.

Nothing here is slower than what has changed: a batch in which nothing did costs a look at each host.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum

Shard = tuple[str, int]
"""An operator and the index of one of its shards."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Where a shard's memory is, and since which change of that."""

    host: str
    epoch: int


class Why(StrEnum):
    """Why a shard moved."""

    LATE = "its host was gone for longer than it may be late"
    LOST = "the memory of its host was lost"
    ASKED = "somebody asked"
    DRAINED = "its host is being drained"
    REBALANCED = "a host joined"
    APART = "another replica of its job is on that host"
    DIVIDED = "its operator is divided anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A shard has a new owner, or is to have one whom the old one hands the memory over while both live."""

    shard: Shard
    source: str
    to: Owner
    hand_over: bool
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do before a batch: note the moves, try the hand-overs and decide again, wait, give up, or go on."""

    moves: tuple[Move, ...] = ()  # which count already: the new owners recover
    hand_overs: tuple[Move, ...] = ()  # which count when they are done: see ``handed_over``
    wait_until_s: float | None = None  # or until other hosts are seen
    give_up: str = ""  # why
    settled: bool = False  # whether owners were given out for the first time
    crowded: bool = False  # whether it shares a host with another replica of its job, because there are too few

    @property
    def go(self) -> bool:
        return self.wait_until_s is None and not self.give_up and not self.hand_overs


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is declared of an operator's shards."""

    shards: int
    delay_max_s: float = 0.0

    def __post_init__(self) -> None:
        assert self.shards > 0 and self.delay_max_s >= 0, self


HAND_OVERS_MAX = 3
"""How often the memory of a shard is to be handed over in vain before it is left where it is, unless somebody asks."""

_STORY_MAX = 50  # events


class Placement:
    """The owners of all shards of a run, and who is late."""

    def __init__(
        self,
        wishes: Mapping[str, Wish],
        *,
        owners: Mapping[Shard, Owner] | None = None,
        given: Mapping[Shard, int] | None = None,
        rebalance: bool = False,
        alone_max_s: float = 600.0,
    ) -> None:
        self._wishes = dict(wishes)
        self._rebalance = rebalance
        self._alone_max_s = alone_max_s
        self._owners: dict[Shard, Owner] = {}
        self._at: dict[str, dict[str, set[int]]] = {}  # by host and operator the indices; none of them empty
        self._living: frozenset[str] = frozenset()
        self._owning: frozenset[str] = frozenset()  # hosts that had shards at the last look
        self._late_since_s: dict[str, float] = {}
        self._alone_since_s: float | None = None
        self._joined: set[str] = set()
        self._draining: set[str] = set()
        self._lost: set[str] = set()
        self._asked: dict[Shard, str] = {}
        self.avoided: frozenset[str] = frozenset()  # hosts that other replicas of the job have
        self.to_come = 0  # other replicas that have none yet
        self._given: dict[Shard, int] = dict(given or {})  # the last epoch, where no owner has it
        self._in_vain: dict[Shard, int] = {}  # hand-overs that failed
        self._recovery_s: dict[str, float] = defaultdict(float)
        self.story: deque[str] = deque(maxlen=_STORY_MAX)
        """The last things that happened, for whoever asks how it came to this."""
        for shard, owner in (owners or {}).items():
            assert shard[0] in self._wishes and 0 <= shard[1] < self._wishes[shard[0]].shards, shard
            self._set(shard, owner)
        assert not owners or len(owners) == self.shards, "a table has all shards"

    # -- what is known ------------------------------------------------------------------------------------------------

    @property
    def owners(self) -> Mapping[Shard, Owner]:
        """Of every shard, once the first batch has begun."""
        return self._owners

    @property
    def given(self) -> Mapping[Shard, int]:
        """Epochs that were given out and have no owner: none of them, and none before, is given again."""
        return self._given

    @property
    def draining(self) -> Set[str]:
        return self._draining

    @property
    def shards(self) -> int:
        """How many there are in all."""
        return sum(wish.shards for wish in self._wishes.values())

    @property
    def living(self) -> Set[str]:
        return self._living

    @property
    def late(self) -> Mapping[str, float]:
        """Hosts that own shards and show no executor, and since when."""
        return self._late_since_s

    def shards_at(self, host: str) -> list[Shard]:
        """The shards a host owns."""
        of_host = self._at.get(host, {})
        return [(operator, index) for operator, indices in of_host.items() for index in sorted(indices)]

    @property
    def free(self) -> Set[str]:
        """Hosts that may be given shards; those of other replicas only if there are none else."""
        hosts = self._living - self._draining or self._living
        return hosts - self.avoided or hosts

    def deadline_s(self, operator: str, host: str) -> float:
        """Until when shards of an operator wait for a late host."""
        patience_s = max(self._wishes[operator].delay_max_s - self._recovery_s[operator], 0.0)
        return self._late_since_s[host] + patience_s

    # -- events -------------------------------------------------------------------------------------------------------

    def seen(self, hosts: Iterable[str], *, now_s: float) -> None:
        """These hosts show an executor."""
        living = frozenset(hosts)
        if living == self._living and self._at.keys() <= self._owning and not self._late_since_s:
            return
        self._tell(f"{now_s:g} seen {', '.join(sorted(living)) or 'nobody'}")
        if self._rebalance and self._owners:
            self._joined |= living - self._living
        self._living, self._owning = living, frozenset(self._at)
        self._late_since_s = {host: self._late_since_s.get(host, now_s) for host in self._at if host not in living}
        if living:
            self._alone_since_s = None
        elif self._alone_since_s is None:
            self._alone_since_s = now_s

    def lost(self, host: str) -> None:
        """A host that lives has lost its memory."""
        self._tell(f"{host} lost its memory")
        if host in self._at:
            self._lost.add(host)

    def recovered(self, operator: str, *, seconds: float) -> None:
        """A shard of an operator was recovered, and it took so long."""
        self._recovery_s[operator] = max(self._recovery_s[operator], seconds)

    def ask(self, shard: Shard, host: str) -> None:
        """Have a shard moved to a host, before the next batch in which both live; a later wish replaces it."""
        assert shard in self._owners, shard
        self._tell(f"asked {shard} to {host}")
        self._asked[shard] = host
        self._in_vain.pop(shard, None)

    def drain(self, host: str) -> None:
        """Have all shards of a host moved elsewhere, and give it no others."""
        self._tell(f"drain {host}")
        self._draining.add(host)

    def apart(self, hosts: Iterable[str], *, to_come: int = 0) -> None:
        """Keep away from these hosts, which other replicas of the job have, and leave some to those ``to_come``."""
        avoided = frozenset(hosts)
        if (avoided, to_come) != (self.avoided, self.to_come):
            self._tell(f"apart from {', '.join(sorted(avoided)) or 'nobody'}, {to_come} to come")
            self.avoided, self.to_come = avoided, to_come

    def handed_over(self, move: Move) -> None:
        """The new owner has the memory of a shard whose hand-over was proposed; from now on it is the owner."""
        assert move.hand_over and self._owners[move.shard].epoch < move.to.epoch, move
        self._tell(f"{move.shard} was handed over to {move.to}")
        self._set(move.shard, move.to)
        self._given.pop(move.shard, None)
        self._in_vain.pop(move.shard, None)

    def not_handed_over(self, move: Move) -> None:
        """It failed: the shard stays where it is."""
        assert move.hand_over, move
        self._tell(f"{move.shard} was not handed over to {move.to}")
        self._in_vain[move.shard] = self._in_vain.get(move.shard, 0) + 1

    def decide(self, *, now_s: float) -> Decision:
        """A batch is about to begin."""
        if not self._living:
            return self._wait_alone(now_s)
        settled = not self._owners
        if settled:
            self._settle()
        moves = [*self._recover_the_lost(), *self._leave_the_late(now_s)]
        waiting = [self.deadline_s(operator, host) for host in self._late_since_s for operator in self._at[host]]
        hand_overs = self._hand_over() if not waiting and not moves else []
        for move in [*moves, *hand_overs][-_STORY_MAX:]:
            self._tell(f"{now_s:g} {move.shard} from {move.source} to {move.to}: {move.why}")
        return Decision(
            moves=tuple(moves),
            hand_overs=tuple(hand_overs),
            wait_until_s=min(waiting, default=None),
            settled=settled,
            crowded=not self.avoided.isdisjoint(self._at),
        )

    # -- how ----------------------------------------------------------------------------------------------------------

    def _wait_alone(self, now_s: float) -> Decision:
        if self._alone_since_s is None:
            self._alone_since_s = now_s
        until_s = self._alone_since_s + self._alone_max_s
        if now_s < until_s:
            return Decision(wait_until_s=until_s)
        return Decision(give_up=f"no host has shown an executor for {self._alone_max_s:g} s")

    def _settle(self) -> None:
        """Owners for all, in turn."""
        hosts = sorted(self.free)
        hosts = hosts[: -(-len(hosts) // (1 + self.to_come))]  # a fair part, so that others find some, too
        shards = [(operator, index) for operator, wish in self._wishes.items() for index in range(wish.shards)]
        for place, shard in enumerate(shards):
            self._set(shard, Owner(hosts[place % len(hosts)], self._given.pop(shard, -1) + 1))

    def _leave_the_late(self, now_s: float) -> list[Move]:
        """Shards whose time is up go to living hosts."""
        due = [
            (operator, index)
            for host in sorted(self._late_since_s)
            for operator, indices in self._at[host].items()
            if self.deadline_s(operator, host) <= now_s
            for index in sorted(indices)
        ]
        return [self._move(shard, host, why=Why.LATE) for shard, host in self._spread(due)]

    def _recover_the_lost(self) -> list[Move]:
        """Shards whose host lives and has lost its memory begin anew there."""
        lost, self._lost = self._lost & self._living, self._lost - self._living
        return [
            self._move(shard, host, why=Why.LOST)
            for host in sorted(lost)
            if host in self._at
            for shard in self.shards_at(host)
        ]

    def _hand_over(self) -> list[Move]:
        """What was wished for: nobody is late, so all memory is within reach.

        One kind of wish at a time, so that no shard moves twice: its memory would be at neither end.
        """
        asked = {shard: host for shard, host in self._asked.items() if host in self._living}
        for shard in asked:
            del self._asked[shard]
        elsewhere = [(shard, host) for shard, host in asked.items() if self._owners[shard].host != host]
        if elsewhere:
            return [self._proposed(shard, host, why=Why.ASKED) for shard, host in elsewhere]
        drained = [
            shard
            for host in sorted(self._draining & self._living)
            for shard in self.shards_at(host)
            if self._in_vain.get(shard, 0) < HAND_OVERS_MAX
        ]
        if drained and self._living - self._draining:
            return [self._proposed(shard, host, why=Why.DRAINED) for shard, host in self._spread(drained)]
        crowded = [
            shard
            for host in sorted(self.avoided & self._living)
            for shard in self.shards_at(host)
            if self._in_vain.get(shard, 0) < HAND_OVERS_MAX
        ]
        if crowded and self.free.isdisjoint(self.avoided):
            return [self._proposed(shard, host, why=Why.APART) for shard, host in self._spread(crowded)]
        if self._joined:
            self._joined.clear()
            return [self._proposed(shard, host, why=Why.REBALANCED) for shard, host in self._evened_out()]
        return []

    def _evened_out(self) -> list[tuple[Shard, str]]:
        """Hosts with few shards get some of those that have many, until none has two more than another."""
        hosts = sorted(self.free - self._draining)
        counts = {host: self._count(host) for host in hosts}
        fair, extra = divmod(sum(counts.values()), max(len(hosts), 1))
        # Those that have most may keep one more, so that as few as possible move.
        fullest = sorted(hosts, key=lambda host: (-counts[host], host))
        wanted = {host: fair + (place < extra) for place, host in enumerate(fullest)}
        spare = [shard for host in hosts for shard in self.shards_at(host)[wanted[host] :]]
        takers = [host for host in hosts for _ in range(wanted[host] - counts[host])]
        return list(zip(spare, takers, strict=True))

    def _spread(self, shards: list[Shard]) -> list[tuple[Shard, str]]:
        """Each to the living host that has fewest just then."""
        if not shards:
            return []
        fewest = [(self._count(host), host) for host in self.free]
        heapq.heapify(fewest)
        spread = []
        for shard in shards:
            count, host = fewest[0]
            heapq.heapreplace(fewest, (count + 1, host))
            spread.append((shard, host))
        return spread

    def _count(self, host: str) -> int:
        return sum(map(len, self._at.get(host, {}).values()))

    def _move(self, shard: Shard, host: str, *, why: Why) -> Move:
        """A shard whose memory cannot be had begins anew, there."""
        before, to = self._owners[shard], self._next(shard, host)
        self._set(shard, to)
        return Move(shard=shard, source=before.host, to=to, hand_over=False, why=why)

    def _proposed(self, shard: Shard, host: str, *, why: Why) -> Move:
        to = self._next(shard, host)
        self._given[shard] = to.epoch
        return Move(shard=shard, source=self._owners[shard].host, to=to, hand_over=True, why=why)

    def _next(self, shard: Shard, host: str) -> Owner:
        return Owner(host, max(self._owners[shard].epoch, self._given.pop(shard, -1)) + 1)

    def _set(self, shard: Shard, owner: Owner) -> None:
        operator, index = shard
        before = self._owners.get(shard)
        if before is not None:
            of_host = self._at[before.host]
            of_host[operator].discard(index)
            if not of_host[operator]:
                del of_host[operator]
            if not of_host:
                del self._at[before.host]
                self._late_since_s.pop(before.host, None)
        self._owners[shard] = owner
        self._at.setdefault(owner.host, {}).setdefault(operator, set()).add(index)

    def _tell(self, what: str) -> None:
        self.story.append(what)
