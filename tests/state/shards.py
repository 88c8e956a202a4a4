"""Opening shards in tests, and applying batches to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.state import HashTable, KeySet, Primitive, Shard

FINGERPRINT = 7


@dataclass(frozen=True, slots=True)
class Opened:
    """A shard and the primitives bound to it, by name."""

    shard: Shard
    state: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.state[name]

    @contextmanager
    def batch(self, number: int | None = None, *, backup: bool = False) -> Iterator[None]:
        """One batch, committed at the end; a backup staged before counts from its beginning, as Spark has it."""
        shard = self.shard
        with shard.lock():
            self.begin(number)
            yield
            shard.settle(seq=shard.version + 1, tuples=1)
            if backup:
                self.back_up()
            shard.commit()

    def begin(self, number: int | None = None) -> None:
        if self.shard.staged != -1:
            self.shard.promote()
        self.shard.begin(self.shard.version + 1 if number is None else number)

    def back_up(self) -> None:
        """Stage all that changed, as if it had been written."""
        self.shard.announce(self.shard.version + 1, time_s=0)
        self.shard.stage([array.changed_chunks() for array in self.shard.arrays])

    def save(self) -> None:
        """Make what is in memory what the last backup holds."""
        with self.shard.lock():
            self.shard.adopt()

    def contents(self) -> dict[str, Any]:
        return {name: content_of(primitive) for name, primitive in self.state.items()}

    def look(self) -> tuple[Any, ...]:
        """All that a rollback has to restore."""
        changed = [array.changed_chunks().tolist() for array in self.shard.arrays]
        divergences = {name: primitive.divergence() for name, primitive in self.state.items()}
        return self.contents(), divergences, changed, self.shard.version, self.shard.seq, self.shard.tuples_since_backup


def open_shard(folder: Path, *, tracked: bool = True, **declared: Primitive) -> Opened:
    shard = Shard(folder, fingerprint=FINGERPRINT, tracked=tracked)
    return Opened(shard, {name: primitive.bind(shard, name) for name, primitive in declared.items()})


def content_of(primitive: Any) -> Any:
    """Everything a primitive holds, as plain Python."""
    if isinstance(primitive, KeySet):
        return set(primitive.items().to_pylist())
    if isinstance(primitive, HashTable):
        keys, numbers = primitive.items()
        return dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))
    return np.array(primitive.read()).tolist()


def as_keys(declaration: Any, numbers: Any) -> Any:
    """Integers as keys of the kind a table was declared with."""
    if declaration.key == "int64":
        return np.asarray(numbers, np.int64)
    return pa.array([f"key {number} " + "é" * (int(number) % 7) for number in numbers], pa.string())
