"""An operator with its state at hand: one shard opened in one process."""

from pathlib import Path

import pyarrow as pa
import xxhash

from spillway.backup.files import open_files
from spillway.backup.keeper import Keeper, Loss, Observer, Promise, ignore
from spillway.backup.store import ShardStore
from spillway.clock import Clock, SystemClock
from spillway.errors import GraphError
from spillway.graph.graph import CheckedGraph
from spillway.operators.operator import Operator
from spillway.state.shard import Shard


class OpenOperator:
    """An operator bound to one shard's memory, and the keeper of that shard.

    Satisfies ``backup.keeper.StateHooks``: the keeper asks it what the operator may have taken over.
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
    ) -> None:
        layout = operator.describe_state()
        shards = graph.shards_of(operator.name)
        keeps_backups = operator.protect.keeps_backups
        self.shard = Shard(
            shard_folder(state, graph.name, operator.name, index),
            fingerprint=_fingerprint(graph.name, operator.name, layout, shards, keeps_backups),
            tracked=keeps_backups,
        )
        self.operator = operator.opened(self.shard, graph.output_schemas(operator.name))
        store = None
        if keeps_backups:
            if backups is None:
                raise GraphError(
                    f"Operator {operator.name!r} is protected by {operator.protect.describe()}: name a durable folder "
                    f"with backups=, or protect it with Nothing()."
                )
            store = ShardStore(
                open_files(backups, graph.name, operator.name, f"{index:04d}-of-{shards:04d}"),
                graph=graph.name,
                operator=operator.name,
                shard=index,
                layout=layout,
                arrays=len(self.shard.arrays),
            )
        promise = Promise(
            operator=operator.name,
            shard=index,
            shards=shards,
            protection=operator.protect,
            downstream_outputs_max=graph.downstream_outputs_max(operator.name),
        )
        self.keeper = Keeper(self.shard, promise, self, store, clock=clock or SystemClock(), observe=observe)
        self._own_backup = type(operator).backup is not Operator.backup
        self._own_divergence = type(operator).divergence is not Operator.divergence

    @property
    def own_divergence(self) -> bool:
        return self._own_divergence

    def divergence(self) -> float:
        return self.operator.divergence()

    def custom_backup(self) -> pa.Table | None:
        return self.operator.backup() if self._own_backup else None

    def custom_recover(self, table: pa.Table) -> None:
        self.operator.recover(table)

    def recovered(self, loss: Loss) -> None:
        self.operator.recovered(loss)


def shard_folder(state: Path, graph: str, operator: str, index: int) -> Path:
    """Where the memory of a shard lies below the state folder."""
    return state / graph / operator / f"{index:04d}"


def _fingerprint(*parts: object) -> int:
    """A signed 64-bit number that stands for everything the layout of memory depends on."""
    return xxhash.xxh3_64_intdigest("\0".join(map(str, parts)).encode()) - 2**63
