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
    a person asks, or hosts joined and are wanted   the shard *migrates* while both hosts live: its memory is handed
                                                    over, which loses nothing and is no failure
    no host lives                                   all wait; after too long the run gives up

A shard may be late for ``delay_max_s`` of its operator less the longest recovery seen so far: then the output that
waits for it is no later than it may be (seed 003, 3.4: failure handling starts when the delay passes the allowed one
minus the recovery time). Every shard takes part in every batch, so one late shard makes the batch wait.

Every change of owner begins a new *epoch* of the shard. Epochs fence: whoever acts for an older epoch, because it was
only slow, has no effect on memory or backups that count (see ``fencing``). So the table of owners must be durable
before anyone acts on it: a driver that comes later goes on from it.

Nothing here is slower than what has changed: a batch in which nothing did costs a look at each host.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
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
    ASKED = "somebody asked"
    DRAINED = "its host is being drained"
    REBALANCED = "a host joined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A shard has a new owner. While the old one lives it hands the memory over; otherwise backups are all there is."""

    shard: Shard
    source: str
    to: Owner
    hand_over: bool
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do before a batch: act on the moves, then wait, give up, or (neither is said) go on."""

    moves: tuple[Move, ...] = ()
    wait_until_s: float | None = None  # or until other hosts are seen
    give_up: str = ""  # why
    settled: bool = False  # whether owners were given out for the first time

    @property
    def go(self) -> bool:
        return self.wait_until_s is None and not self.give_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is declared of an operator's shards."""

    shards: int
    delay_max_s: float = 0.0

    def __post_init__(self) -> None:
        assert self.shards > 0 and self.delay_max_s >= 0, self


_STORY_MAX = 50  # events


class Placement:
    """The owners of all shards of a run, and who is late."""

    def __init__(
        self,
        wishes: Mapping[str, Wish],
        *,
        owners: Mapping[Shard, Owner] | None = None,
        rebalance: bool = False,
        alone_max_s: float = 600.0,
    ) -> None:
        self._wishes = dict(wishes)
        self._rebalance = rebalance
        self._alone_max_s = alone_max_s
        self._owners: dict[Shard, Owner] = {}
        self._at: dict[str, dict[str, set[int]]] = {}  # by host and operator the indices; none of them empty
        self._living: frozenset[str] = frozenset()
        self._late_since_s: dict[str, float] = {}
        self._alone_since_s: float | None = None
        self._joined: set[str] = set()
        self._draining: set[str] = set()
        self._asked: dict[Shard, str] = {}
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

    def deadline_s(self, operator: str, host: str) -> float:
        """Until when shards of an operator wait for a late host."""
        patience_s = max(self._wishes[operator].delay_max_s - self._recovery_s[operator], 0.0)
        return self._late_since_s[host] + patience_s

    # -- events -------------------------------------------------------------------------------------------------------

    def seen(self, hosts: Iterable[str], *, now_s: float) -> None:
        """These hosts show an executor."""
        living = frozenset(hosts)
        if living == self._living and not self._late_since_s:
            return
        self._tell(f"{now_s:g} seen {', '.join(sorted(living)) or 'nobody'}")
        if self._rebalance and self._owners:
            self._joined |= living - self._living
        self._living = living
        self._late_since_s = {host: self._late_since_s.get(host, now_s) for host in self._at if host not in living}
        if living:
            self._alone_since_s = None
        elif self._alone_since_s is None:
            self._alone_since_s = now_s

    def recovered(self, operator: str, *, seconds: float) -> None:
        """A shard of an operator was recovered, and it took so long."""
        self._recovery_s[operator] = max(self._recovery_s[operator], seconds)

    def ask(self, shard: Shard, host: str) -> None:
        """Have a shard moved to a host, before the next batch in which both live; a later wish replaces it."""
        assert shard in self._owners, shard
        self._tell(f"asked {shard} to {host}")
        self._asked[shard] = host

    def drain(self, host: str) -> None:
        """Have all shards of a host moved elsewhere, and give it no others."""
        self._tell(f"drain {host}")
        self._draining.add(host)

    def decide(self, *, now_s: float) -> Decision:
        """A batch is about to begin."""
        if not self._living:
            return self._wait_alone(now_s)
        settled = not self._owners
        if settled:
            self._settle()
        moves = self._leave_the_late(now_s)
        waiting = [self.deadline_s(operator, host) for host in self._late_since_s for operator in self._at[host]]
        if not waiting and not moves:
            moves = self._hand_over()
        for move in moves:
            self._tell(f"{now_s:g} {move.shard} from {move.source} to {move.to}: {move.why}")
        return Decision(moves=tuple(moves), wait_until_s=min(waiting, default=None), settled=settled)

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
        hosts = sorted(self._living - self._draining) or sorted(self._living)
        shards = [(operator, index) for operator, wish in self._wishes.items() for index in range(wish.shards)]
        for place, shard in enumerate(shards):
            self._set(shard, Owner(hosts[place % len(hosts)], 0))

    def _leave_the_late(self, now_s: float) -> list[Move]:
        """Shards whose time is up go to living hosts."""
        due = [
            (operator, index)
            for host in sorted(self._late_since_s)
            for operator, indices in self._at[host].items()
            if self.deadline_s(operator, host) <= now_s
            for index in sorted(indices)
        ]
        return self._spread(due, why=Why.LATE, hand_over=False)

    def _hand_over(self) -> list[Move]:
        """What was wished for: nobody is late, so all memory is within reach.

        One kind of wish before each batch, so that no shard moves twice: its memory would be at neither end.
        """
        asked = {shard: host for shard, host in self._asked.items() if host in self._living}
        for shard in asked:
            del self._asked[shard]
        elsewhere = [(shard, host) for shard, host in asked.items() if self._owners[shard].host != host]
        if elsewhere:
            return [self._move(shard, host, why=Why.ASKED, hand_over=True) for shard, host in elsewhere]
        drained = [shard for host in sorted(self._draining & self._living) for shard in self.shards_at(host)]
        if drained and self._living - self._draining:
            return self._spread(drained, why=Why.DRAINED, hand_over=True)
        if self._joined:
            self._joined.clear()
            return self._even_out()
        return []

    def _even_out(self) -> list[Move]:
        """Give hosts with few shards some of those that have many, until none has two more than another."""
        hosts = sorted(self._living - self._draining)
        counts = {host: len(self.shards_at(host)) for host in hosts}
        fair, extra = divmod(sum(counts.values()), max(len(hosts), 1))
        # Those that have most may keep one more, so that as few as possible move.
        fullest = sorted(hosts, key=lambda host: (-counts[host], host))
        wanted = {host: fair + (place < extra) for place, host in enumerate(fullest)}
        spare = [shard for host in hosts for shard in self.shards_at(host)[wanted[host] :]]
        takers = [host for host in hosts for _ in range(wanted[host] - counts[host])]
        return [
            self._move(shard, host, why=Why.REBALANCED, hand_over=True)
            for shard, host in zip(spare, takers, strict=True)
        ]

    def _spread(self, shards: list[Shard], *, why: Why, hand_over: bool) -> list[Move]:
        """Each to the living host that has fewest just then."""
        if not shards:
            return []
        hosts = self._living - self._draining or self._living
        fewest = [(sum(map(len, self._at.get(host, {}).values())), host) for host in hosts]
        heapq.heapify(fewest)
        moves = []
        for shard in shards:
            count, host = fewest[0]
            heapq.heapreplace(fewest, (count + 1, host))
            moves.append(self._move(shard, host, why=why, hand_over=hand_over))
        return moves

    def _move(self, shard: Shard, host: str, *, why: Why, hand_over: bool) -> Move:
        before = self._owners[shard]
        to = replace(before, host=host, epoch=before.epoch + 1)
        self._set(shard, to)
        return Move(shard=shard, source=before.host, to=to, hand_over=hand_over, why=why)

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
