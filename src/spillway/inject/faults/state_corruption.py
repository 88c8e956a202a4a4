"""Corrupted state: numbers an operator keeps turn into others, and nothing says so.

Which keys are struck, and which bit of which of their numbers flips, follows from seed and key: it is the same however
keys are spread over shards.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError
from spillway.inject.faults.fault import Fault, StateFault
from spillway.operators.hashing import key_hashes
from spillway.operators.merging import Int64s
from spillway.operators.operator import Operator
from spillway.seeds import generator
from spillway.state.primitives import HashTable
from spillway.state.window import Window

UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCorruption(StateFault):
    """One bit flips in the state of a ``share`` of an operator's keys."""

    model: ClassVar[str] = "state"
    in_words: ClassVar[str] = "corrupted state"
    share: float = 0.01

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 0 < self.share <= 1:
            raise GraphError(f"StateCorruption: share must be above 0 and up to 1; got {self.share}.")

    def corrupt(self, operator: Operator) -> None:
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
