"""Random histories of hosts and shards: the placement as it is, everything around it a few lines of pretence.

Hosts come, go, are slow and come back with or without their memory; drivers die and go on from the table they wrote;
tasks that were forgotten wake up and write. What a shard holds is only which batches it contains, so that it is plain
what is right: after a batch that counts, its owner's memory contains every batch up to it, and if that memory is gone,
the backups that count contain every one up to the last that was backed up, and nothing that was never committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from spillway.protocols.fencing import Mark, counting, is_fenced_off
from spillway.protocols.placement import Decision, Move, Owner, Placement, Shard, Wish
from spillway.protocols.placement_rules import RuleBrokenError, Watched
from spillway.soak.summing import Summed

_BATCHES = 12
_OPERATORS = ("a", "b")


@dataclass(slots=True)
class _Memory:
    """What one host has of one shard: the epoch it was filled in, and the last batch it contains."""

    epoch: int
    batch: int


@dataclass(slots=True)
class _Stored:
    """What the backup store has of one shard."""

    backups: set[Mark] = field(default_factory=set)
    rightful: set[Mark] = field(default_factory=set)  # of those: by one who was the owner, of a batch that counts

    def write(self, mark: Mark) -> None:
        """A backup of all there is; of its own epoch one before it is kept, for a batch that is run again."""
        own = sorted(one for one in self.backups if one.epoch == mark.epoch and one.batch < mark.batch)
        self.backups = {mark, *own[-1:], *(one for one in self.backups if one.epoch != mark.epoch)}


@dataclass(frozen=True, slots=True)
class _Slow:
    """A task that was forgotten and will wake."""

    shard: Shard
    owner: Owner
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lived:
    """What a history came to."""

    moves: int
    recoveries: int
    woken: int
    gave_up: bool


def live(seed: int) -> Lived:
    """One history; raises ``RuleBrokenError``, with its seed, if something must not have happened."""
    history = _History(Random(seed))
    try:
        return history.run()
    except RuleBrokenError as error:
        raise RuleBrokenError(f"History {seed}: {error}") from error


@dataclass(slots=True, kw_only=True)
class Histories(Summed):
    """What came of some histories."""

    histories: int = 0
    moves: int = 0
    recoveries: int = 0
    woken: int = 0  # tasks that were forgotten, and wrote later
    gave_up: int = 0


def live_some(seeds: Iterable[int]) -> Histories:
    """Live through these, the broken ones too."""
    totals = Histories()
    for seed in seeds:
        totals.histories += 1
        try:
            lived = live(seed)
        except RuleBrokenError as error:
            totals.broken[seed] = str(error)
            continue
        totals.moves += lived.moves
        totals.recoveries += lived.recoveries
        totals.woken += lived.woken
        totals.gave_up += lived.gave_up
    return totals


class _History:
    """One history at work."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._hosts = [f"h{i}" for i in range(random.randint(1, 4))]
        self._wishes = {
            name: Wish(shards=random.randint(1, 3), delay_max_s=random.choice([0.0, 5.0, 60.0])) for name in _OPERATORS
        }
        self._rebalance = random.random() < 0.5
        self._living = set(self._hosts)
        self._others: set[str] = set()  # which other replicas of the job have
        self._to_come = random.choice([0, 0, 1, 2])
        self._memory: dict[tuple[str, Shard], _Memory] = {}
        self._store: dict[Shard, _Stored] = {}
        self._slow: list[_Slow] = []
        self._now_s = 0.0
        self._committed = -1
        self._backed_up: dict[Shard, int] = {}  # by whoever owned it then, in a batch that counts
        self._table: dict[Shard, Owner] = {}  # durable, and so are epochs that were given out in vain
        self._given: dict[Shard, int] = {}
        self._moves = self._recoveries = self._woken = 0
        self._watched = self._begin()

    def run(self) -> Lived:
        for batch in range(_BATCHES):
            decision = self._until_decided()
            if decision.give_up:
                return self._lived(gave_up=True)
            self._apply(batch, decision)
        return self._lived(gave_up=False)

    def _lived(self, *, gave_up: bool) -> Lived:
        return Lived(moves=self._moves, recoveries=self._recoveries, woken=self._woken, gave_up=gave_up)

    def _begin(self) -> Watched:
        return Watched(
            Placement(self._wishes, owners=self._table, given=self._given, rebalance=self._rebalance, alone_max_s=100.0)
        )

    # -- before a batch -----------------------------------------------------------------------------------------------

    def _until_decided(self) -> Decision:
        """What happens between two batches, until the next begins."""
        while True:
            for _ in range(self._random.randint(0, 2)):
                self._happen()
            placement = self._watched.placement
            placement.seen(self._living, now_s=self._now_s)
            placement.apart(self._others, to_come=self._to_come)
            decision = self._watched.decide(now_s=self._now_s)
            for move in decision.moves:
                self._moved(move)
            self._note()
            if decision.hand_overs:
                self._hand_over(decision)
                continue
            if decision.wait_until_s is None:
                return decision
            # Either the time is up, or something else happens before.
            self._now_s += self._random.choice([1.0, decision.wait_until_s - self._now_s])

    def _happen(self) -> None:
        host = self._random.choice(self._hosts)
        placement = self._watched.placement
        match self._random.randrange(11):
            case 0 | 1:
                self._living.discard(host)  # its memory stays for now
            case 2:
                self._living.discard(host)
                self._forget(host)
            case 3 | 4:
                self._living.add(host)
            case 5:
                if len(self._hosts) < 6:
                    self._hosts.append(f"h{len(self._hosts)}")
                    self._living.add(self._hosts[-1])
            case 6 if self._table:
                placement.ask(self._random.choice(sorted(self._table)), host)
            case 7:
                placement.drain(host) if self._random.random() < 0.3 else None
            case 8:
                self._watched = self._begin()  # the driver died: the table is all that it knows
            case 9:
                self._forget(host)
                if self._random.random() < 0.7:  # otherwise nobody has noticed yet
                    placement.lost(host)
            case 10:
                self._others = {one for one in self._hosts if self._random.random() < 0.4}
        self._now_s += self._random.random() * 3

    def _forget(self, host: str) -> None:
        for place in [place for place in self._memory if place[0] == host]:
            del self._memory[place]

    def _note(self) -> None:
        """Make the table durable."""
        self._table, self._given = dict(self._watched.placement.owners), dict(self._watched.placement.given)

    def _hand_over(self, decision: Decision) -> None:
        """What was proposed is tried; either host, or the driver, may die in the middle."""
        for move in decision.hand_overs:
            owner = self._watched.placement.owners[move.shard]
            memory = self._memory.get((move.source, move.shard))
            whole = memory is not None and memory.epoch == owner.epoch and memory.batch == self._committed
            if whole and self._random.random() < 0.8:
                self._memory[move.to.host, move.shard] = _Memory(move.to.epoch, self._committed)
                if self._random.random() < 0.1:
                    self._watched = self._begin()  # and nobody knows that it was done
                    return
                self._moved(move)
                self._watched.handed_over(move)
            else:
                self._watched.placement.not_handed_over(move)
            self._note()

    def _moved(self, move: Move) -> None:
        """A task of the batch before may not know; it will write when it wakes."""
        self._moves += 1
        epoch = self._table[move.shard].epoch
        if self._random.random() < 0.3 and self._committed >= 0:
            memory = self._memory.get((move.source, move.shard))
            ran = memory is not None and memory.epoch == epoch
            again = ran and self._random.random() < 0.5
            self._slow.append(_Slow(move.shard, Owner(move.source, epoch), self._committed + (not again)))

    # -- a batch ------------------------------------------------------------------------------------------------------

    def _apply(self, batch: int, decision: Decision) -> None:
        for shard, owner in self._watched.placement.owners.items():
            self._wake()
            stored = self._store.setdefault(shard, _Stored())
            memory = self._memory.get((owner.host, shard))
            if memory is None or memory.epoch != owner.epoch:
                memory = self._recover(shard, owner, stored, batch)
            if owner.epoch and all(mark.epoch != owner.epoch for mark in stored.backups):
                self._back_up(shard, owner, stored, batch - 1)  # taken over
            if memory.batch != batch - 1:
                raise RuleBrokenError(f"{shard} of {owner} holds batch {memory.batch} before batch {batch}.")
            memory.batch = batch
            if self._random.random() < 0.4:
                self._back_up(shard, owner, stored, batch)
        self._committed = batch
        self._now_s += 1.0

    def _back_up(self, shard: Shard, owner: Owner, stored: _Stored, batch: int) -> None:
        """All that memory has; what came before under older epochs goes."""
        mark = Mark(owner.epoch, batch)
        stored.write(mark)
        stored.backups -= {one for one in stored.backups if one.epoch < mark.epoch}
        stored.rightful.add(mark)
        self._backed_up[shard] = batch

    def _recover(self, shard: Shard, owner: Owner, stored: _Stored, batch: int) -> _Memory:
        """Memory that is the state of the last backup that counts, and then all of what was lost since."""
        count = [mark for mark in counting(stored.backups) if mark.batch < batch]
        wrongful = set(count) - stored.rightful
        if wrongful:
            raise RuleBrokenError(f"{shard}: {wrongful} count, and nobody who was the owner wrote them.")
        reaches = max((mark.batch for mark in count), default=-1)
        if batch and reaches < self._backed_up.get(shard, -1):
            raise RuleBrokenError(f"{shard}: batch {self._backed_up[shard]} was backed up, {reaches} is what counts.")
        self._recoveries += batch > 0
        self._watched.placement.recovered(shard[0], seconds=self._random.random() * 3)
        made = self._memory[owner.host, shard] = _Memory(owner.epoch, batch - 1)
        return made

    def _wake(self) -> None:
        """A forgotten task writes, wherever it was."""
        if not self._slow or self._random.random() < 0.7:
            return
        slow = self._slow.pop(self._random.randrange(len(self._slow)))
        self._woken += 1
        stored, epoch = self._store.setdefault(slow.shard, _Stored()), slow.owner.epoch
        taken_over = not epoch or any(mark.epoch == epoch for mark in stored.backups)
        for mark in [Mark(epoch, slow.batch)] if taken_over else [Mark(epoch, slow.batch - 1), Mark(epoch, slow.batch)]:
            stored.write(mark)
            if not is_fenced_off(epoch, stored.backups):
                stored.rightful.add(mark)  # nobody has taken over from it yet: it is what it says
        memory = self._memory.get((slow.owner.host, slow.shard))
        if memory is not None and memory.epoch == slow.owner.epoch:
            memory.batch = slow.batch  # of its own epoch, which no longer is the owner's
