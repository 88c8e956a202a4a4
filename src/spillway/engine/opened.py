"""An operator with its state at hand: one shard opened in one process."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from spillway.backup.behind import Writing, at_once
from spillway.backup.items import ItemLog
from spillway.backup.keeper import Keeper, Observer, ignore
from spillway.backup.predecessors import NO_PREDECESSORS, Predecessors
from spillway.backup.promise import Loss, Promise
from spillway.backup.reach import NOT_NOTED, Reached
from spillway.backup.spread import Spread, spread_of
from spillway.backup.store import ShardStore
from spillway.clock import Clock, SystemClock
from spillway.engine.epochs import backup_folder, backups_named, items_folder, shard_folder
from spillway.engine.kernels import needed_backups
from spillway.engine.meaning import enter_memory, meaning_of, memory_meaning
from spillway.engine.turn import replayed
from spillway.files.folders import Folder, open_folder
from spillway.graph.checked import CheckedGraph
from spillway.operators.operator import Operator
from spillway.state.shard import Shard

ReachedOf = Callable[[str, int], Reached]
"""What is noted, apart from its backups, of a shard of an operator."""


def not_noted(operator: str, shard: int) -> Reached:
    """Nothing is."""
    return NOT_NOTED


class OpenOperator:
    """An operator bound to one shard's memory, and the keeper of that shard.

    Satisfies ``backup.hooks.StateHooks``: the keeper asks it what the operator may have taken over. ``epoch`` counts
    the owners the shard has had (see ``engine.epochs``).
    """

    def __init__(
        self,
        operator: Operator,
        *,
        graph: CheckedGraph,
        index: int,
        state: Path,
        backups: str | None,
        epoch: int = 0,
        clock: Clock | None = None,
        observe: Observer = ignore,
        reached: ReachedOf = not_noted,
        writing: Writing = at_once,
    ) -> None:
        self.clock = clock or SystemClock()
        self.epoch = epoch
        self._kept = _Kept(operator, graph=graph, index=index, backups=backups)
        shards = graph.shards_of(operator.name)
        keeps_backups = operator.protect.keeps_backups
        folder = shard_folder(state, graph.name, operator.name, index, epoch=epoch)
        fingerprint = enter_memory(folder, operator, memory_meaning(graph, operator))
        self.shard = Shard(folder, fingerprint=fingerprint, tracked=keeps_backups)
        self.operator = operator.opened(self.shard, graph.output_schemas(operator.name))
        arrays = len(self.shard.arrays)
        store = self._kept.store(epoch, arrays=arrays) if keeps_backups else None
        self.items = open_items(operator, index, graph=graph, backups=backups, epoch=epoch)
        promise = Promise(
            operator=operator.name,
            shard=index,
            shards=shards,
            protection=operator.protect,
            adding_up=operator.shards_adding_up(shards),
            downstream_outputs_max=graph.downstream_outputs_max(operator.name),
            windowing=operator.windowing,
        )
        self.keeper = Keeper(
            self.shard,
            promise,
            self,
            store,
            clock=self.clock,
            observe=observe,
            reached=lambda: reached(operator.name, index),
            predecessors=self._kept.before(epoch, arrays=arrays) if keeps_backups and epoch else NO_PREDECESSORS,
            writing=writing,
        )
        self._own_backup = type(operator).backup is not Operator.backup
        self._own_divergence = type(operator).divergence is not Operator.divergence

    def close(self) -> None:
        """Let go of the shard's memory; the operator and the keeper are of no use after it."""
        self.keeper.end()
        self.shard.close()

    @property
    def own_divergence(self) -> bool:
        return self._own_divergence

    def divergence(self) -> float:
        return self.operator.divergence()

    def custom_backup(self) -> pa.Table | None:
        return self.operator.backup() if self._own_backup else None

    def custom_recover(self, table: pa.Table) -> None:
        self.operator.recover(table)

    def mend(self) -> None:
        self.operator.mend()

    def replay(self, *, first: int, last: int, epoch: int | None) -> tuple[str, ...]:
        missing = []
        items = self.items if epoch is None else self._kept.items(epoch)
        assert items is not None
        for batch in range(first, last + 1):
            parts = items.read(batch)
            if parts is None:
                missing.append(f"the items of batch {batch} are missing or damaged")
                continue
            self.shard.next_replayed()
            turn = replayed(self.operator, self, parts)
            self.shard.settle(seq=turn.seq, tuples=turn.tuples)
        return tuple(missing)

    def spread(self) -> Spread:
        return spread_of(self.operator.opened_state, own_divergence=self._own_divergence)

    def recovered(self, loss: Loss) -> None:
        self.operator.recovered(loss)


class _Kept:
    """What is durable of one shard, whichever epoch it is from."""

    def __init__(self, operator: Operator, *, graph: CheckedGraph, index: int, backups: str | None) -> None:
        self._operator = operator
        self._graph = graph
        self._index = index
        self._shards = graph.shards_of(operator.name)
        self._backups = backups

    def store(self, epoch: int, *, arrays: int) -> ShardStore:
        return ShardStore(
            self._folder(backup_folder(self._index, shards=self._shards, epoch=epoch)),
            graph=self._graph.name,
            operator=self._operator.name,
            shard=self._index,
            meaning=meaning_of(self._graph, self._operator),
            protection=self._operator.protect.describe(),
            arrays=arrays,
        )

    def items(self, epoch: int) -> ItemLog | None:
        return open_items(self._operator, self._index, graph=self._graph, backups=self._backups, epoch=epoch)

    def before(self, epoch: int, *, arrays: int) -> Predecessors:
        """What there is of epochs before this one."""
        return Predecessors(
            epochs=lambda: sorted(found for found in self._epochs() if found < epoch),
            open_store=lambda older: self.store(older, arrays=arrays),
            remove_epoch=self._remove,
        )

    def _epochs(self) -> list[int]:
        named = map(backups_named, self._folder().names())
        return [found.epoch for found in named if found and (found.shard, found.shards) == (self._index, self._shards)]

    def _remove(self, epoch: int) -> None:
        # Items first: who is killed in between leaves backups, by which this epoch is found again.
        if self._operator.protect.keeps_items:
            self._folder(items_folder(self._index, epoch=epoch)).remove_all()
        self._folder(backup_folder(self._index, shards=self._shards, epoch=epoch)).remove_all()

    def _folder(self, *parts: str) -> Folder:
        return open_folder(needed_backups(self._operator, self._backups), self._graph.name, self._operator.name, *parts)


def open_items(
    operator: Operator, index: int, *, graph: CheckedGraph, backups: str | None, epoch: int = 0
) -> ItemLog | None:
    """The item log of one shard, or of one partition of an operator without state; None if items are not kept."""
    if not operator.protect.keeps_items:
        return None
    return ItemLog(
        open_folder(needed_backups(operator, backups), graph.name, operator.name, items_folder(index, epoch=epoch))
    )
