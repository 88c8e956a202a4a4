"""State that no bound speaks of: it is kept, undone and backed up like any other, and never makes a backup due.

It fits what follows from other state (and is computed anew after a recovery), and what an operator only steers
itself by, such as how many tuples ago it last spoke. What the answer depends on belongs in a primitive with a metric:
of a tally, a failure loses whatever came since the last backup.
"""

from spillway.state.index import KeyIndex
from spillway.state.primitives import HashTable, KeyType, Vector
from spillway.state.shard import Shard

__all__ = ["Tally", "TallyTable"]


class Tally(Vector):
    """Whole numbers, all zero at first; ``divergence() == 0`` always.

    >>> Tally(3).describe()
    'Tally(3)'
    """

    def __init__(self, length: int) -> None:
        super().__init__(length, metric="l1", dtype="int64")

    def describe(self) -> str:
        return f"Tally({self.length})"

    def _allocate(self, shard: Shard, name: str) -> None:
        self._cells = shard.cells(name, dtype=self.dtype, metric=None, fixed_count=self.length)


class TallyTable(HashTable):
    """A whole number for each key, 0 for a key not entered; ``divergence() == 0`` always."""

    def __init__(self, *, key: KeyType = "int64") -> None:
        super().__init__(key=key, metric="l1", dtype="int64")

    def describe(self) -> str:
        return f"TallyTable({self.key})"

    def _allocate(self, shard: Shard, name: str) -> None:
        self._cells = shard.cells(name, dtype=self.dtype, metric=None)
        self._index = KeyIndex(shard, name, key=self.key, counted=False, values=[self._cells])
