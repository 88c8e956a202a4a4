"""State of several hosts divided anew: brought to the driver, divided there as on one machine, and given out again.

Theory of operation
-------------------
The table of owners (``owner_table``) says which host has which shard's memory, in which epoch. For a while the driver
itself is one of the owners:

    gather     memory of the shards that are to be divided is copied from their hosts to the driver's; then the table
               says that the driver owns them, in new epochs, and the hosts let go of theirs
    divide     in that memory, as on one machine (``rescaling``). New shards are in an epoch that no shard had, and
               before the change is called finished the table says that the driver owns them
    give out   what the driver owns is copied to hosts; then the table says that they own it, and the driver lets go

A copy counts when the table says so, and a division when its note does. So whoever is killed leaves a table and notes
from which the next one goes on: a change that counts is finished, and what the driver owns is given out, whether or not
somebody asks for another number of shards.

Memory that cannot be had is recovered from backups when it is opened, in the new epoch, which is a failure as always:
its host stays away for longer than it may be late, or has lost it; or it was the driver's, and the next driver is on
another machine.

*Epochs.* Who owned a shard may only be slow, so the driver begins an epoch of its own. The driver does nothing behind
its own back, so hosts go on in the one it had, and have its backups; not if shards of one stage, which have one owner
and one epoch, came into different ones because a driver was killed between two operators, nor if an attempt to give
them out failed, for whoever was copying then may only be slow.
"""

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from spillway.backup.division import read_division
from spillway.clock import Clock
from spillway.engine.epochs import memory_named, shard_folder
from spillway.engine.owner_table import OwnerTable, Row, read_table, write_table
from spillway.engine.rescaling import Epochs, Places, check_divisible, finish, stateful
from spillway.engine.rescaling import rescale as divide_anew
from spillway.engine.resuming import division_folder, shards_found
from spillway.errors import RunError, StateError
from spillway.files.folders import Folder
from spillway.graph.checked import CheckedGraph
from spillway.records.rescaled import Rescaled
from spillway.state.header import looks_new

DRIVER = "(driver)"
"""The driver, among owners; no host has such a name."""
ATTEMPTS_MAX = 4

Shard = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The memory of one shard on its way: to the driver, or from it."""

    shard: Shard
    source: str
    source_epoch: int
    target: str
    target_epoch: int


class Carrier(Protocol):
    """What can be had from hosts."""

    def memories(self) -> Mapping[str, str]:
        """The hosts that are there, and the ids of their memories."""

    def pause(self) -> None:
        """A little while."""

    def carry(self, loads: Sequence[Load], noted: Callable[[Collection[Shard]], None]) -> Mapping[Shard, str]:
        """Copy memory; the troubles of what could not be copied.

        ``noted`` is called with what was copied, and makes durable what of it counts: the sources let go of that.
        """


class Gathering:
    """The state of one graph that is, or was, on several hosts.

    together    the operators with state of each stage, which have the same owners
    memory      the id of the driver's own memory, in which ``places`` has its state
    """

    def __init__(
        self,
        graph: CheckedGraph,
        *,
        table: Folder,
        together: Sequence[Collection[str]],
        places: Places,
        memory: str,
        carrier: Carrier,
        clock: Clock,
        delay_max_s: float,
        batch: int,
    ) -> None:
        self._graph = graph
        self._table = table
        self._together = together
        self._memory = memory
        self._carrier = carrier
        self._clock = clock
        self._delay_max_s = delay_max_s
        self._batch = batch
        self._rows: dict[str, tuple[Row, ...]] = {}
        self._memories: dict[str, str] = {}
        self._new = 0  # the epoch of new shards
        epochs = Epochs(
            of=lambda operator, index: self._rows[operator][index].epoch,
            new=lambda: self._new,
            shards=lambda operator: len(self._rows[operator]) if operator in self._rows else None,
            divided=self._divided,
        )
        self._places = replace(places, epochs=epochs)

    def run(self, *, rescale: bool) -> tuple[Rescaled, ...]:
        """Finish what was begun, divide anew if that is wanted, and have every shard at a host."""
        noted = read_table(self._table)
        if noted is None:
            if not rescale and not self._unfinished():
                return ()
            noted = self._of_one_machine()
        self._rows, self._memories = dict(noted.rows), dict(noted.memories)
        done = finish(self._graph, self._places)
        self._sweep()
        changing = [
            operator.name
            for operator in stateful(self._graph)
            if len(self._rows.get(operator.name, ())) not in (0, self._graph.shards_of(operator.name))
        ]
        if changing and not rescale:
            raise self._refused(changing[0])
        check_divisible(self._graph, self._places, batch=self._batch)
        for names in self._together:
            # Those of one stage have one owner; who was killed may have left some here and some there.
            if {*changing} & {*names} or self._is_split(names):
                self._gather([name for name in names if name in self._rows])
        if changing:
            self._new = 1 + max(max(row.epoch, row.given) for rows in self._rows.values() for row in rows)
            done += divide_anew(self._graph, self._places, batch=self._batch)
        self._give_out()
        return done

    # -- to the driver ------------------------------------------------------------------------------------------------

    def _gather(self, operators: Sequence[str]) -> None:
        """Have the driver own all shards of the operators of one stage."""
        troubles: Mapping[Shard, str] = {}
        for _ in range(ATTEMPTS_MAX):
            memories = self._awaited({row.host for name in operators for row in self._rows[name]} - {DRIVER})
            loads, takes = [], {}
            for index in range(max(len(self._rows[name]) for name in operators)):
                there = [name for name in operators if index < len(self._rows[name])]
                epoch = 1 + max(self._highest(name, index) for name in there)
                for name in there:
                    row = self._rows[name][index]
                    if row.host == DRIVER and self._is_here(name, index):
                        continue
                    takes[name, index] = epoch
                    if row.host != DRIVER and memories.get(row.host, "") == self._memories.get(row.host):
                        load = Load(
                            shard=(name, index),
                            source=row.host,
                            source_epoch=row.epoch,
                            target=DRIVER,
                            target_epoch=epoch,
                        )
                        loads.append(load)
            if not takes:
                return
            troubles = self._carry(loads, takes)
            if not troubles:
                return
        raise RunError(f"The state of several hosts was not brought together. {next(iter(troubles.values()))}")

    def _carry(self, loads: Sequence[Load], takes: Mapping[Shard, int]) -> Mapping[Shard, str]:
        """Copy to the driver, which then owns what was copied, and what cannot be had."""
        carried = {load.shard for load in loads}

        def noted(copied: Collection[Shard]) -> None:
            for shard, epoch in takes.items():
                if shard in copied or shard not in carried:
                    self._put(shard, Row(host=DRIVER, epoch=epoch, given=-1))
            self._memories[DRIVER] = self._memory
            self._write()

        return self._carrier.carry(loads, noted)

    def _awaited(self, hosts: Collection[str]) -> Mapping[str, str]:
        """The hosts that are there, once one is, and these are or have been away for as long as they may be."""
        until_s = self._clock.monotonic_s() + self._delay_max_s
        memories = self._carrier.memories()
        while (not memories or {*hosts} - memories.keys()) and self._clock.monotonic_s() < until_s:
            self._carrier.pause()
            memories = self._carrier.memories()
        return memories

    # -- to hosts -----------------------------------------------------------------------------------------------------

    def _give_out(self) -> None:
        """Have hosts own what the driver owns, in turn."""
        troubles: Mapping[Shard, str] = {}
        for attempt in range(ATTEMPTS_MAX):
            units = self._at_driver()
            if not units:
                return
            memories = self._awaited(())
            if not memories:
                raise RunError("No host shows an executor that could be given the shards the driver has.")
            hosts = sorted(memories)
            given: dict[Shard, Row] = {}
            loads: list[Load] = []
            for place, unit in enumerate(units):
                host = hosts[place % len(hosts)]
                rows = [self._rows[name][index] for name, index in unit]
                same = len({row.epoch for row in rows}) == 1 and all(self._is_here(*shard) for shard in unit)
                goes_on = same and attempt == 0
                epoch = rows[0].epoch if goes_on else 1 + max(self._highest(*shard) for shard in unit)
                for shard, row in zip(unit, rows, strict=True):
                    given[shard] = Row(host=host, epoch=epoch, given=-1)
                    if self._is_here(*shard) and (memories[host] != self._memory or epoch != row.epoch):
                        loads.append(
                            Load(shard=shard, source=DRIVER, source_epoch=row.epoch, target=host, target_epoch=epoch)
                        )
            troubles = self._hand(loads, units, given, memories)
            if not troubles:
                return
        raise RunError(f"Hosts could not be given the shards the driver has. {next(iter(troubles.values()))}")

    def _hand(
        self,
        loads: Sequence[Load],
        units: Sequence[Sequence[Shard]],
        given: Mapping[Shard, Row],
        memories: Mapping[str, str],
    ) -> Mapping[Shard, str]:
        """Copy to hosts; those own it then of which nothing is missing."""
        carried = {load.shard for load in loads}
        for shard, row in given.items():
            before = self._rows[shard[0]][shard[1]]
            if row.epoch != before.epoch:
                self._put(shard, replace(before, given=row.epoch))
        self._write()  # whatever comes of it, these epochs are not given out again

        def noted(copied: Collection[Shard]) -> None:
            for unit in units:
                if all(shard in copied or shard not in carried for shard in unit):
                    for shard in unit:
                        self._put(shard, given[shard])
                        self._memories[given[shard].host] = memories[given[shard].host]
            if not self._at_driver():
                self._memories.pop(DRIVER, None)
            self._write()

        return self._carrier.carry(loads, noted)

    def _at_driver(self) -> list[list[Shard]]:
        """What the driver owns: shards of one number of the operators of one stage, which go together."""
        units = [unit for names in self._together for unit in self._units(names)]
        return [unit for unit in units if any(self._rows[name][index].host == DRIVER for name, index in unit)]

    def _units(self, names: Collection[str]) -> list[list[Shard]]:
        known = [name for name in names if name in self._rows]
        count = max((len(self._rows[name]) for name in known), default=0)
        return [[(name, index) for name in known if index < len(self._rows[name])] for index in range(count)]

    def _is_split(self, names: Collection[str]) -> bool:
        owners = [{self._rows[name][index].host for name, index in unit} for unit in self._units(names)]
        return any(DRIVER in hosts and len(hosts) > 1 for hosts in owners)

    # -- what is there ------------------------------------------------------------------------------------------------

    def _is_here(self, operator: str, index: int) -> bool:
        """Whether the driver has the memory of a shard that it owns."""
        row = self._rows[operator][index]
        folder = shard_folder(self._places.state, self._graph.name, operator, index, epoch=row.epoch)
        return self._memories.get(row.host) == self._memory and not looks_new(folder)

    def _highest(self, operator: str, index: int) -> int:
        row = self._rows[operator][index]
        return max(row.epoch, row.given)

    def _divided(self, operator: str, shards: int, epoch: int) -> None:
        """A division of an operator counts: the driver owns its shards."""
        self._rows[operator] = (Row(host=DRIVER, epoch=epoch, given=-1),) * shards
        self._memories[DRIVER] = self._memory
        self._write()

    def _of_one_machine(self) -> OwnerTable:
        """The table of a run that was on one machine, this one: it has none."""
        found = {
            operator.name: shards_found(self._graph, operator, state=self._places.state, backups=self._places.backups)
            for operator in stateful(self._graph)
        }
        rows = {name: (Row(host=DRIVER, epoch=0, given=-1),) * shards for name, shards in found.items() if shards}
        return OwnerTable(memories={DRIVER: self._memory}, rows=rows)

    def _unfinished(self) -> bool:
        for operator in stateful(self._graph):
            note = division_folder(self._graph, operator, state=self._places.state, backups=self._places.backups)
            division = read_division(note)
            if division is not None and division.unfinished:
                return True
        return False

    def _sweep(self) -> None:
        """Remove memory here that nobody owns: copies that did not come to count."""
        for operator, rows in self._rows.items():
            folder = self._places.state / self._graph.name / operator
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                named = memory_named(path.name)
                if named is None:
                    continue
                row = rows[named.shard] if named.shard < len(rows) else None
                if row is None or (self._memories.get(row.host), row.epoch) != (self._memory, named.epoch):
                    shutil.rmtree(path, ignore_errors=True)

    def _put(self, shard: Shard, row: Row) -> None:
        name, index = shard
        rows = self._rows[name]
        self._rows[name] = (*rows[:index], row, *rows[index + 1 :])

    def _write(self) -> None:
        write_table(self._table, OwnerTable(memories=self._memories, rows=self._rows))

    def _refused(self, operator: str) -> StateError:
        was, now = len(self._rows[operator]), self._graph.shards_of(operator)
        return StateError(
            f"Operator {operator!r} had {was} shards on the hosts of this run and is to have {now}. Say rescale=True "
            f"(--rescale) to have its state divided anew, or run it with {was} shards."
        )
