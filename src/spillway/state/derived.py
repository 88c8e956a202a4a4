"""Memory that follows from the arrays of a shard, and is never backed up."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

ValidCounts = npt.NDArray[np.int64]
"""For each chunk loaded from a backup: the array's length when that chunk was saved; -1 for a chunk that is missing.

Elements of the chunk at or beyond it are unknown. All alike unless the backup was damaged.
"""


class Derived(Protocol):
    """Memory that can be rebuilt from the arrays, such as the index of a table."""

    def rollback(self) -> None:
        """Follow the arrays, which are back at an earlier length."""

    def clear(self) -> None: ...
    def forget_aside(self) -> None: ...
    def rebuild(self, valid_counts: Mapping[str, ValidCounts]) -> None: ...
    def reset(self) -> None: ...
    def refresh(self) -> None: ...
    def close(self) -> None: ...
    @property
    def bytes(self) -> int: ...
