"""Sketches of how many different values there were: registers, each of which keeps the highest *rank* it was shown.

The hash of a value says which register is its own, and its rank: how many zeros the rest of the hash begins with, and
one more. High ranks are rare, so the registers tell about how many values there were, and showing one twice changes
nothing. What a batch brings for a row is a list of ``64 * register + rank``, each once; a row keeps its registers as
Spark does, ten of 6 bits in a word from the lowest bits on, so that Spark can make the estimate from them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.state.compiled import compiled
from spillway.state.rows import RowTable

Int64s = npt.NDArray[np.int64]

SEEN = pa.list_(pa.int32())
"""What comes for a row."""

WORDS = pa.list_(pa.int64())
"""What a row keeps."""

RANKS = 64
_PER_WORD = 10


def words_of(registers: int) -> int:
    """How many words so many registers take, by Spark's count: an incomplete one more, even if it is empty."""
    return registers // _PER_WORD + 1


def raise_registers(rows: RowTable, column: str, positions: Int64s, seen: pa.Array) -> None:
    """Show the registers of these rows what was seen; nothing where it is null."""
    codes = np.asarray(seen.flatten())
    if not codes.size:
        return
    lengths = np.asarray(seen.value_lengths().fill_null(0))
    words = rows.columns[column].width
    cells = np.repeat(positions * words, lengths) + codes // (RANKS * _PER_WORD)
    live = rows.read(column).reshape(-1)
    higher = np.empty(cells.size, np.int64)
    higher = higher[: above(live, cells, codes, higher)]
    if higher.size:
        put_ranks(rows.change_cells(column, cells[higher]), cells[higher], codes[higher])


def as_lists(words: npt.NDArray[np.int64]) -> pa.Array:
    """The words of some rows, (rows, words), as they are put out."""
    offsets = np.arange(words.shape[0] + 1, dtype=np.int32) * words.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(words).reshape(-1)))


@compiled
def above(live: Any, cells: Any, codes: Any, places: Any) -> int:
    """The places of the codes whose rank is above that of their register; returns how many there are."""
    count = 0
    for i in range(cells.size):
        register, rank = codes[i] // 64, codes[i] % 64
        places[count] = i
        count += ((live[cells[i]] >> (6 * (register % 10))) & 63) < rank
    return count


@compiled
def put_ranks(live: Any, cells: Any, codes: Any) -> None:
    """Raise registers to the ranks of these codes, where they are lower."""
    for i in range(cells.size):
        register, rank = codes[i] // 64, codes[i] % 64
        shift = 6 * (register % 10)
        word = live[cells[i]]
        if ((word >> shift) & 63) < rank:
            live[cells[i]] = (word & ~(np.int64(63) << shift)) | (np.int64(rank) << shift)
