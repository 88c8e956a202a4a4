"""The state machine that places shards, with as many hosts as one likes: what it costs the driver, and what it decides.

Nothing is simulated but the cluster: ``protocols.placement`` is what runs use. Hosts go, come back and join, and are
lost for good, many at once; each time stands how long the driver thought about it, and what its decision would move.

What is computed and not measured: bytes that recoveries read, and what backups write; each from the number of shards
and what the settings say of one.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from spillway.backup.reach import Reached
from spillway.benches.bench import Notes, Tell
from spillway.engine.owner_table import NAME, read_table, write_table
from spillway.files.folders import LocalFolder
from spillway.protocols.placement import Decision, Move, Owner, Placement, Shard, Wish
from spillway.records.bench import BenchRecords
from spillway.spark.groups import Group, as_table, from_table
from spillway.spark.telling import Told, read, written

TOLD_BYTES_PER_SHARD = 60
"""What a task would be told of its own shard alone: operator, index, epoch and the name of a host, which is 15
characters as an address and up to 40 as a name, with what JSON puts around them."""

FILES_PER_BACKUP = 2  # its segment, and the manifest that names it

NOTHING, LATE, BACK, JOINS, RESTARTS = "nothing changes", "a host is late", "it comes back", "one joins", "new driver"
TELLING = "telling tasks"
_BATCHES = 200  # in which nothing changes
_OPERATORS = 4
_DELAY_MAX_S = 30.0

T = TypeVar("T")


def host_names(count: int) -> list[str]:
    """Addresses, as Spark names hosts that have no other name.

    >>> host_names(251)[-1]
    '10.0.1.1'
    """
    return [f"10.{index // 62_500}.{index // 250 % 250}.{index % 250 + 1}" for index in range(count)]


def losing(hosts: int) -> str:
    """The subject of losing so many at once."""
    return f"{hosts:,} {'is' if hosts == 1 else 'are'} lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """So many hosts, and what happens to them."""

    hosts: int
    shards_per_host: int
    losses: tuple[int, ...]  # hosts at once
    repetitions: int
    random: np.random.Generator

    def measure(self, notes: Notes, tell: Tell) -> None:
        """Take all samples."""
        names = host_names(self.hosts)
        owners = self._settled(names)
        tell(f"{self.hosts:,} hosts have {len(owners):,} shards.")
        for turn in range(self.repetitions):
            self._restart(owners, notes, turn)
            self._telling(owners, notes, turn)
            self._quiet(owners, names, notes, turn)
            self._late(owners, names, notes, turn)
            self._joining(names, notes, turn)
            for lost in self.losses:
                self._losing(owners, names, lost, notes, turn)
            tell(f"repetition {turn + 1} of {self.repetitions}")

    def _wishes(self, hosts: int) -> dict[str, Wish]:
        shards = hosts * self.shards_per_host
        each = [shards // _OPERATORS + (place < shards % _OPERATORS) for place in range(_OPERATORS)]
        return {
            f"operator-{place}": Wish(shards=count, delay_max_s=_DELAY_MAX_S)
            for place, count in enumerate(each)
            if count
        }

    def _settled(self, names: list[str]) -> dict[Shard, Owner]:
        placement = Placement(self._wishes(len(names)))
        _look(placement, names, now_s=0.0)
        return dict(placement.owners)

    def _placed(self, owners: Mapping[Shard, Owner], names: Iterable[str]) -> Placement:
        placement = Placement(self._wishes(self.hosts), owners=owners)
        decision = _look(placement, names, now_s=0.0)
        assert decision.go and not decision.moves, decision
        return placement

    def _restart(self, owners: dict[Shard, Owner], notes: Notes, turn: int) -> None:
        """A driver makes its table durable whenever it changes, and a later one begins with it."""
        groups = [
            Group(name=name, stage=1, operators={name: wish.shards}, shards=wish.shards, delay_max_s=wish.delay_max_s)
            for name, wish in self._wishes(self.hosts).items()
        ]
        memories = {owner.host: _memory_of(owner.host) for owner in owners.values()}

        def begin_again(folder: LocalFolder) -> Placement:
            noted = read_table(folder)
            assert noted is not None
            found, given = from_table(noted, groups)
            return Placement(self._wishes(self.hosts), owners=found, given=given)

        with tempfile.TemporaryDirectory(prefix="spillway-bench-") as place:
            folder = LocalFolder(Path(place))
            _, write_s = timed(
                lambda: write_table(folder, as_table(groups, owners=owners, given={}, memories=memories))
            )
            table_bytes = Path(place, NAME).stat().st_size
            placement, read_s = timed(partial(begin_again, folder))
        assert placement.owners == owners
        notes.add(RESTARTS, "table_bytes", table_bytes, turn=turn)
        notes.add(RESTARTS, "table_write_s", write_s, turn=turn)
        notes.add(RESTARTS, "decide_s", read_s, turn=turn)

    def _telling(self, owners: dict[Shard, Owner], notes: Notes, turn: int) -> None:
        """What a driver puts into words before every batch, and a Python worker reads when it has its first task."""
        text, tell_s = timed(lambda: told(owners))
        _, read_s = timed(partial(read.__wrapped__, text))
        notes.add(TELLING, "told_bytes", len(text), turn=turn)
        notes.add(TELLING, "tell_s", tell_s, turn=turn)
        notes.add(TELLING, "read_s", read_s, turn=turn)

    def _quiet(self, owners: dict[Shard, Owner], names: list[str], notes: Notes, turn: int) -> None:
        placement = self._placed(owners, names)
        for batch in range(_BATCHES):
            decision, taken_s = timed(lambda: _look(placement, names, now_s=1.0))
            assert decision == Decision()
            notes.add(NOTHING, "decide_s", taken_s, turn=turn, number=batch)

    def _late(self, owners: dict[Shard, Owner], names: list[str], notes: Notes, turn: int) -> None:
        placement = self._placed(owners, names)
        gone = self._chosen(names, 1)
        left = [name for name in names if name not in gone]
        for number in range(10):  # looks while a batch waits
            decision, taken_s = timed(lambda: _look(placement, left, now_s=1.0))
            assert decision.wait_until_s == 1.0 + _DELAY_MAX_S, decision
            notes.add(LATE, "decide_s", taken_s, turn=turn, number=number)
        decision, taken_s = timed(lambda: _look(placement, names, now_s=2.0))
        assert decision.go and not decision.moves, decision
        notes.add(BACK, "decide_s", taken_s, turn=turn)

    def _joining(self, names: list[str], notes: Notes, turn: int) -> None:
        """One joins where that is wanted, and every hand-over succeeds."""
        placement = Placement(self._wishes(self.hosts), rebalance=True)
        _look(placement, names[:-1], now_s=0.0)

        def join() -> Decision:
            decision = _look(placement, names, now_s=1.0)
            for move in decision.hand_overs:
                placement.handed_over(move)
            assert placement.decide(now_s=1.0).go
            return decision

        decision, taken_s = timed(join)
        notes.add(JOINS, "decide_s", taken_s, turn=turn)
        self._note_moves(JOINS, decision.hand_overs, 1, placement, notes, turn)

    def _losing(self, owners: dict[Shard, Owner], names: list[str], lost: int, notes: Notes, turn: int) -> None:
        placement = self._placed(owners, names)
        gone = self._chosen(names, lost)
        left = [name for name in names if name not in gone]
        _look(placement, left, now_s=1.0)
        decision, taken_s = timed(lambda: _look(placement, left, now_s=1.0 + _DELAY_MAX_S))
        assert decision.go and len(decision.moves) == lost * self.shards_per_host, decision
        notes.add(losing(lost), "decide_s", taken_s, turn=turn)
        self._note_moves(losing(lost), decision.moves, len(left), placement, notes, turn)

    def _note_moves(
        self, subject: str, moves: tuple[Move, ...], takers: int, placement: Placement, notes: Notes, turn: int
    ) -> None:
        taken = Counter(move.to.host for move in moves)
        owned = Counter(owner.host for owner in placement.owners.values())
        notes.add(subject, "moves", len(moves), turn=turn)
        notes.add(subject, "moves_to_one_max", max(taken.values()), turn=turn)
        notes.add(subject, "moves_to_one_max_over_mean", max(taken.values()) / (len(moves) / takers), turn=turn)
        mean = len(placement.owners) / len(placement.living)
        notes.add(subject, "shards_of_one_max_over_mean", max(owned.values()) / mean, turn=turn)

    def _chosen(self, names: list[str], count: int) -> set[str]:
        return {names[place] for place in self.random.choice(len(names), count, replace=False)}


def told(owners: Mapping[Shard, Owner]) -> str:
    """What tasks are told if all shards have been backed up twice, lately.

    >>> len(read(told({("words", 0): Owner("a", 0), ("words", 1): Owner("b", 2)}))["words"])
    2
    """
    noted = Reached(failures=0, backups=(1_000, 1_010), noted=True)
    of_operators: dict[str, list[Told]] = {}
    for (operator, _), owner in sorted(owners.items()):
        one = Told(host=owner.host, memory=_memory_of(owner.host), epoch=owner.epoch, reached=noted)
        of_operators.setdefault(operator, []).append(one)
    return written(of_operators)


def summary(records: BenchRecords) -> dict[str, Any]:
    """The figures, from the records alone."""
    given = records.settings
    hosts, shards = given["simulate"], given["simulate"] * given["shards_per_host"]
    state_bytes = given["state_mb_per_shard"] * 1e6

    def middle(subject: str, measure: str) -> float:
        return median(records.values(subject, measure))

    backups_per_s = shards / (given["backup_every"] * given["batch_s"])
    changes = {
        subject: {
            "moves": int(middle(subject, "moves")),
            "bytes": middle(subject, "moves") * state_bytes,
            **{
                measure: middle(subject, measure)
                for measure in ("moves_to_one_max", "moves_to_one_max_over_mean", "shards_of_one_max_over_mean")
            },
            # The host that is given most recovers or receives them, one after the other at the rate of its network.
            "one_host_bytes": middle(subject, "moves_to_one_max") * state_bytes,
        }
        for subject in records.subjects("moves")
    }
    return {
        "hosts": hosts,
        "shards": shards,
        "decide_s": {subject: middle(subject, "decide_s") for subject in records.subjects("decide_s")},
        "table_bytes": int(middle(RESTARTS, "table_bytes")),
        "table_write_s": middle(RESTARTS, "table_write_s"),
        "telling": {
            "bytes": int(middle(TELLING, "told_bytes")),
            "with_every_task_bytes": int(middle(TELLING, "told_bytes")) * shards,
            "own_alone_bytes": TOLD_BYTES_PER_SHARD * shards,
            "tell_s": middle(TELLING, "tell_s"),
            "read_s": middle(TELLING, "read_s"),
        },
        "changes": changes,
        "state_bytes": state_bytes * shards,
        "backups": {
            "per_s": backups_per_s,
            "files_per_s": FILES_PER_BACKUP * backups_per_s,
            "bytes_per_s": backups_per_s * state_bytes * given["backup_share"],
            "bytes_per_s_of_a_host": backups_per_s * state_bytes * given["backup_share"] / hosts,
        },
    }


def timed(do: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and the seconds it took."""
    started_s = time.perf_counter()
    done = do()
    return done, time.perf_counter() - started_s


def _memory_of(host: str) -> str:
    """As long as what names a memory, and another for each host."""
    return f"{host:0>32}"


def _look(placement: Placement, names: Iterable[str], *, now_s: float) -> Decision:
    """What a driver does before a batch."""
    placement.seen(names, now_s=now_s)
    return placement.decide(now_s=now_s)
