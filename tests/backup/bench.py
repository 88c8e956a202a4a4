"""A shard with a keeper and a store, driven batch by batch without a graph."""

import hashlib
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.backup.behind import Writing, at_once
from spillway.backup.keeper import Keeper, Loss, Promise, Step
from spillway.backup.manifest import Manifest
from spillway.backup.reach import NOT_NOTED, Reached
from spillway.backup.spread import Spread, spread_of
from spillway.backup.store import ShardStore
from spillway.clock import ManualClock
from spillway.files.folders import Folder, LocalFolder
from spillway.graph.protections import Protection
from spillway.records.progress import ShardProgress
from spillway.state.primitives import Metric, Vector
from spillway.state.shard import Shard

Changes = Mapping[int, float]


class KilledError(BaseException):
    """Stands for a process that ends on the spot."""


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder and a hash of what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class Hooks:
    """What an operator would answer its keeper."""

    def __init__(self, vector: Vector, *, custom: bool, divergence: float | None) -> None:
        self.vector = vector
        self.losses: list[Loss] = []
        self.mended = 0
        self._custom = custom
        self._divergence = divergence

    @property
    def own_divergence(self) -> bool:
        return self._divergence is not None

    def divergence(self) -> float:
        return self.vector.divergence() if self._divergence is None else self._divergence

    def custom_backup(self) -> pa.Table | None:
        return pa.table({"value": self.vector.read().copy()}) if self._custom else None

    def custom_recover(self, table: pa.Table) -> None:
        self.vector.set(np.arange(self.vector.length), np.asarray(table["value"]))

    def mend(self) -> None:
        self.mended += 1

    def spread(self) -> Spread:
        return spread_of({"vector": self.vector}, own_divergence=self.own_divergence)

    def recovered(self, loss: Loss) -> None:
        self.losses.append(loss)


class Bench:
    """One shard with a vector of integers. ``open`` starts anew on the same folders, as another process would."""

    def __init__(
        self,
        folder: Path,
        protection: Protection,
        *,
        files: Folder | None = None,
        metric: Metric = "l1",
        length: int = 64,
        shards: int = 1,
        custom: bool = False,
        divergence: float | None = None,
        writing: Writing = at_once,
    ) -> None:
        self.state = folder / "state"
        self.backups = folder / "backups"
        self.files = files or LocalFolder(self.backups)
        self.protection = protection
        self.clock = ManualClock(now_s=1e9)
        self.steps: list[Step] = []
        self.die_at: Step | None = None
        self.noted = NOT_NOTED  # what the driver knows of the shard
        self._vector = Vector(length, metric=metric, dtype="int64")
        self._shards = shards
        self._custom = custom
        self._divergence = divergence
        self.writing = writing
        self.open()

    def open(self) -> None:
        tracked = self.protection.keeps_backups
        self.shard = Shard(self.state, fingerprint=1, tracked=tracked)
        self.vector = self._vector.bind(self.shard, "vector")
        self.hooks = Hooks(self.vector, custom=self._custom, divergence=self._divergence)
        self.store = self.new_store() if tracked else None
        promise = Promise(operator="bench", shard=0, shards=self._shards, protection=self.protection)
        self.keeper = Keeper(
            self.shard,
            promise,
            self.hooks,
            self.store,
            clock=self.clock,
            observe=self._observe,
            reached=lambda: self.noted,
            writing=self.writing,
        )

    def new_store(self) -> ShardStore:
        return ShardStore(
            self.files,
            graph="graph",
            operator="bench",
            shard=0,
            meaning={"state": self._vector.describe()},
            protection=self.protection.describe(),
            arrays=1,
        )

    def lose_memory(self) -> None:
        shutil.rmtree(self.state)
        self.open()

    def apply(self, batch: int, changes: Changes) -> ShardProgress:
        """One attempt of a batch."""
        self.steps.clear()
        with self.shard.lock():
            self.keeper.begin(batch)
            if changes:
                self.vector.add(np.array(list(changes)), np.array(list(changes.values())))
                self.keeper.applying()
            return self.keeper.commit(seq=batch * 10 if changes else None, tuples=len(changes))

    def dies(self, batch: int, changes: Changes, step: Step) -> None:
        """An attempt that ends at a step."""
        self.die_at = step
        try:
            self.apply(batch, changes)
        except KilledError:
            return
        finally:
            self.die_at = None
        raise AssertionError(f"batch {batch} has no step {step}")

    @property
    def values(self) -> dict[int, int]:
        """The cells that are not zero."""
        cells = self.vector.read()
        return {int(cell): int(cells[cell]) for cell in np.flatnonzero(cells)}

    @property
    def manifest(self) -> Manifest:
        found = self.new_store().manifest()
        assert found is not None
        return found

    @property
    def backed_up(self) -> list[int]:
        """The batches of the backups on record."""
        return [record.batch for record in self.manifest.records]

    def noted_after(self, batch: int) -> Reached:
        """What a driver knows once it has heard of a batch that went well."""
        backups = self.backed_up if self.store else []
        return Reached(noted=True, backups=tuple(backup for backup in backups if backup <= batch))

    @property
    def loss(self) -> Loss:
        return self.hooks.losses[-1]

    def _observe(self, step: Step, operator: str, shard: int, batch: int) -> None:
        self.steps.append(step)
        if step is self.die_at:
            raise KilledError


def total(*changes: Changes) -> dict[int, float]:
    """What several batches add up to."""
    cells = sorted({cell for change in changes for cell in change})
    return {cell: math.fsum(change.get(cell, 0) for change in changes) for cell in cells}
