"""A Bernoulli sample of a stream: every tuple is kept with the same probability, whatever the others are.

Whether a tuple is kept follows from the seed and its ``seq`` alone, so a batch that is run again, on this runtime or
another, samples the same tuples, and a tuple offered twice is chosen twice or not at all. Let u(seed, seq) be 53 bits
of a 64-bit mixture of both, as a fraction of 2^53. Then

    tuple kept  <=>  u(seed, seq) < rate        Pr[kept] = rate        for a seed chosen at random

Samples with different seeds are independent for every practical purpose, those with the same seed are the same: two
streams that are joined want two seeds. Under a given seed a larger rate keeps a superset.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole, is_number
from spillway.state.compiled import compiled
from spillway.state.hashing import mix
from spillway.state.keys import Int64s, Keys, KeyType
from spillway.state.primitives import HashTable, Primitive
from spillway.state.shard import Shard

__all__ = ["Sample"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SEED_MAX = 2**63 - 1


class Sample(Primitive):
    """How many sampled tuples each key has; the divergence is the number of sampled tuples that the backup lacks.

    That is Σ |s_k - b_k| over the keys k: the sample only grows, so no difference is negative.

    >>> Sample(rate=0.25, seed=3).chosen(np.arange(20)).tolist()
    [10, 14, 17, 19]
    """

    _table: HashTable

    def __init__(self, *, rate: float = 0.1, key: KeyType = "int64", seed: int = 1) -> None:
        if not is_number(rate, above=0, most=1):
            raise GraphError(f"Sample: rate is the part of all tuples to keep, above 0 and at most 1; got {rate!r}.")
        check_whole("Sample: seed", seed, least=0)
        if seed > _SEED_MAX:
            raise GraphError(f"Sample: seed must be at most {_SEED_MAX}; got {seed}.")
        self.rate = float(rate)
        self.key: KeyType = key
        self.seed = seed
        self.metric = "l1"
        self._table = HashTable(key=key, metric="l1", dtype="int64")

    def describe(self) -> str:
        return f"Sample({self.key},{self.rate!r},{self.seed})"

    def divergence(self) -> float:
        return self._table.divergence()

    def chosen(self, seqs: Any) -> Int64s:
        """The positions of those tuples, among the ones numbered ``seqs``, that the sample keeps."""
        numbers = np.asarray(seqs)
        if numbers.size and numbers.dtype.kind not in "iu":
            raise InputError(f"{self.describe()} chooses tuples by their number, an integer; {numbers.dtype} came.")
        positions = np.empty(numbers.size, np.int64)
        return positions[: _choose(np.ascontiguousarray(numbers, np.int64), np.uint64(self.seed), self.rate, positions)]

    def add(self, keys: Keys, seqs: Any) -> Int64s:
        """Offer tuples, by their key and number; returns the positions of those that were kept."""
        if len(keys) != len(seqs):
            raise InputError(f"{self.describe()} takes one number for each key: {len(keys)} keys, {len(seqs)} numbers.")
        positions = self.chosen(seqs)
        self._table.add(keys.take(pa.array(positions)) if isinstance(keys, pa.Array) else keys[positions], 1)
        return positions

    def get(self, keys: Keys) -> Int64s:
        """How many sampled tuples each key has."""
        return cast(Int64s, self._table.get(keys))

    def items(self) -> tuple[pa.Array, npt.NDArray[Any]]:
        """All keys, oldest first, and how many sampled tuples each has."""
        return self._table.items()

    def updates(self) -> tuple[pa.Array, npt.NDArray[Any]]:
        """The keys that got a tuple in this batch, oldest first, and how many sampled tuples each has."""
        return self._table.updates()

    @property
    def table(self) -> HashTable:
        """Where the numbers are kept."""
        return self._table

    @property
    def size(self) -> int:
        """How many tuples were sampled."""
        return int(self._table.items()[1].sum())

    def __len__(self) -> int:
        return len(self._table)

    def _allocate(self, shard: Shard, name: str) -> None:
        self._table = self._table.bind(shard, name, operator=self._operator)


@compiled
def _choose(seqs: Any, seed: Any, rate: float, positions: Any) -> int:
    """Positions of the tuples to keep; returns how many."""
    offset = mix(seed + _GOLDEN)
    count = 0
    for i in range(seqs.size):
        chosen = mix(offset + (np.uint64(seqs[i]) + np.uint64(1)) * _GOLDEN) >> np.uint64(11)
        positions[count] = i
        if np.float64(chosen) * 2.0**-53 < rate:
            count += 1
    return count
