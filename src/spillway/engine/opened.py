"""An operator with its state at hand: one shard opened in one process."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from spillway.backup.items import ItemLog
from spillway.backup.keeper import Keeper, Observer, ignore
from spillway.backup.promise import Loss, Promise
from spillway.backup.reach import NOT_NOTED, Reached
from spillway.backup.spread import Spread, spread_of
from spillway.backup.store import ShardStore
from spillway.clock import Clock, SystemClock
from spillway.engine.kernels import needed_backups
from spillway.engine.meaning import enter_memory, meaning_of, memory_meaning
from spillway.engine.turn import replayed
from spillway.files.folders import open_folder
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

    Satisfies ``backup.hooks.StateHooks``: the keeper asks it what the operator may have taken over.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        graph: CheckedGraph,
        index: int,
        state: Path,
        backups: str | None,
        clock: Clock | None = None,
        observe: Observer = ignore,
        reached: ReachedOf = not_noted,
    ) -> None:
        self.clock = clock or SystemClock()
        shards = graph.shards_of(operator.name)
        keeps_backups = operator.protect.keeps_backups
        folder = shard_folder(state, graph.name, operator.name, index)
        fingerprint = enter_memory(folder, operator, memory_meaning(graph, operator))
        self.shard = Shard(folder, fingerprint=fingerprint, tracked=keeps_backups)
        self.operator = operator.opened(self.shard, graph.output_schemas(operator.name))
        store = None
        if keeps_backups:
            store = ShardStore(
                open_folder(
                    needed_backups(operator, backups), graph.name, operator.name, backup_folder(index, shards=shards)
                ),
                graph=graph.name,
                operator=operator.name,
                shard=index,
                meaning=meaning_of(graph, operator),
                protection=operator.protect.describe(),
                arrays=len(self.shard.arrays),
            )
        self.items = open_items(operator, index, graph=graph, backups=backups)
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
        )
        self._own_backup = type(operator).backup is not Operator.backup
        self._own_divergence = type(operator).divergence is not Operator.divergence

    def close(self) -> None:
        """Let go of the shard's memory; the operator and the keeper are of no use after it."""
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

    def replay(self, *, first: int, last: int) -> tuple[str, ...]:
        missing = []
        assert self.items is not None
        for batch in range(first, last + 1):
            parts = self.items.read(batch)
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


def open_items(operator: Operator, index: int, *, graph: CheckedGraph, backups: str | None) -> ItemLog | None:
    """The item log of one shard, or of one partition of an operator without state; None if items are not kept."""
    if not operator.protect.keeps_items:
        return None
    return ItemLog(open_folder(needed_backups(operator, backups), graph.name, operator.name, f"items-{index:04d}"))


def shard_folder(state: Path, graph: str, operator: str, index: int) -> Path:
    """Where the memory of a shard lies below the state folder."""
    return state / graph / operator / f"{index:04d}"


def backup_folder(index: int, *, shards: int) -> str:
    """The folder of a shard below that of its operator's backups."""
    return f"{index:04d}-of-{shards:04d}"
