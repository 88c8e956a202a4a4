"""Corrupted state: numbers an operator keeps turn into others, and nothing says so.

The moment is a batch's beginning, the last one before the fault's ``offset``, which here counts tuples of the source by
``seq``. Which keys are struck, and which bit of which of their numbers flips, follows from seed and key: it is the same
however keys are spread over shards.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ
from spillway.inject.faults.fault import Fault
from spillway.operators.hashing import key_hashes
from spillway.operators.keyed import Keyed
from spillway.operators.merging import Int64s, Merging
from spillway.operators.operator import Operator, Out
from spillway.seeds import generator
from spillway.state.primitives import HashTable, Number
from spillway.state.window import Window

UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCorruption(Fault):
    """One bit flips in the state of a ``share`` of an operator's keys; ``length`` says nothing here and is 1."""

    model: ClassVar[str] = "state"
    share: float = 0.01

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 0 < self.share <= 1:
            raise GraphError(f"StateCorruption: share must be above 0 and up to 1; got {self.share}.")

    def strike(self, tuples: pa.RecordBatch) -> pa.RecordBatch:
        return tuples

    def corrupt(self, operator: Operator) -> None:
        """Corrupt what an operator keeps, in the middle of a batch."""
        for primitive in operator.opened_state.values():
            if isinstance(primitive, HashTable) and primitive.dtype == "float64":
                keys, numbers = primitive.items()
                keys, numbers, dice = self._struck(keys, numbers)
                if len(keys):
                    primitive.set(keys, _flipped(numbers, dice))
            elif isinstance(primitive, Window):
                keys = primitive.keys()
                keys, positions, dice = self._struck(keys, np.arange(len(keys)))
                if len(keys):
                    primitive.enter(keys)
                    _flip_newest(primitive, positions, dice)

    def _struck(self, keys: pa.Array, values: npt.NDArray[Any]) -> tuple[pa.Array, npt.NDArray[Any], UInt64s]:
        """The keys struck, what belongs to them, and a random word for each."""
        salt = np.uint64(generator(self.seed, "state corruption").integers(2**63))
        dice = _mixed(key_hashes(pa.record_batch([keys], names=["key"]), ["key"]) ^ salt)
        chosen = dice < np.uint64(min(int(self.share * 2.0**64), 2**64 - 1))
        return keys.filter(pa.array(chosen)), values[chosen], _mixed(dice[chosen])


def corrupted(operator: Operator, fault: StateCorruption) -> Operator:
    """The operator as it is, or, if it is a target, one whose state is struck."""
    if operator.name not in fault.targets:
        return operator
    assert isinstance(operator, Keyed)
    kind = type(operator)
    struck = copy.copy(operator)
    base = _StruckWhenMerging if isinstance(operator, Merging) else _StruckWhenProcessing
    struck.__class__ = type(f"Corrupted{kind.__name__}", (base, kind), {})
    struck.__dict__["fault"] = fault
    return struck


class _Struck:
    """Strikes once, as soon as a batch reaches the fault's moment; that it has done so is part of the state."""

    fault: StateCorruption
    struck = Number(dtype="int64")
    parameters: ClassVar[tuple[str, ...]] = ("fault",)

    def _strike_before(self, batch: pa.RecordBatch) -> None:
        reached = batch.num_rows and pc.max(batch[SEQ]).as_py() >= self.fault.offset
        if reached and not self.struck:
            assert isinstance(self, Operator)
            self.struck = 1
            self.fault.corrupt(self)


class _StruckWhenProcessing(_Struck, Operator):
    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self._strike_before(batch)
        return super().process(port, batch)


class _StruckWhenMerging(_Struck, Merging):
    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        for batch in batches.values():
            self._strike_before(batch)
        return super().merged(batches, ports)  # type: ignore[safe-super]


def _flip_newest(window: Window, positions: Int64s, dice: UInt64s) -> None:
    """Flip a bit in one of the numbers of each group's newest row."""
    columns = (dice >> np.uint64(32)).astype(np.int64) % window.columns
    slots = (window.counts[positions] - 1) % window.rows
    rings = window.rings
    rings[positions, slots, columns] = _flipped(rings[positions, slots, columns], dice)


def _flipped(numbers: npt.NDArray[Any], dice: UInt64s) -> npt.NDArray[np.float64]:
    """One of the bits 48 to 53 flipped: a number becomes clearly another, and stays finite."""
    bits = np.uint64(48) + dice % np.uint64(6)
    words = np.ascontiguousarray(numbers, np.float64).view(np.uint64) ^ (np.uint64(1) << bits)
    return words.view(np.float64)


def _mixed(words: UInt64s) -> UInt64s:
    mixed = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
