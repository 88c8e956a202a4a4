"""64-bit hashes of keys, in numba: which shard a key belongs to, and where it lies in a table.

Sharding uses XXH64 with seed 42 because that is what Spark's ``xxhash64`` computes: Spark can then place a
tuple without a trip through Python, and the local runtime places it in the same shard. Tables must not reuse
that hash: all keys of one shard agree on ``hash % shards``, which would leave most slots of a table unused as
a first probe. They use an independent mixer.

The algorithm is XXH64 as its public specification describes it. pyarrow is not imported here, so that the
Python daemon of Spark can load the kernels before it forks.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from spillway.state.compiled import compiled
from spillway.state.unaligned import load_half, load_word

SHARDING_SEED = np.uint64(42)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_U64 = np.uint64

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


@njit(inline="always")
def _rotl(x: Any, bits: int) -> Any:
    return (x << _U64(bits)) | (x >> _U64(64 - bits))


@njit(inline="always")
def _avalanche(h: Any) -> Any:
    h ^= h >> _U64(33)
    h *= _P2
    h ^= h >> _U64(29)
    h *= _P3
    return h ^ (h >> _U64(32))


@njit(inline="always")
def _round(lane: Any, word: Any) -> Any:
    return _rotl(lane + word * _P2, 31) * _P1


@njit(inline="always")
def _xxh64_word(word: Any, seed: Any) -> Any:
    """XXH64 of one 8-byte word."""
    h = seed + _P5 + _U64(8)
    h ^= _round(_U64(0), word)
    h = _rotl(h, 27) * _P1 + _P4
    return _avalanche(h)


@njit(inline="always")
def _xxh64_half_word(word: Any, seed: Any) -> Any:
    """XXH64 of one 4-byte word; what Spark does for integers of 32 bits or fewer."""
    h = seed + _P5 + _U64(4)
    h ^= word * _P1
    h = _rotl(h, 23) * _P2 + _P3
    return _avalanche(h)


@compiled
def xxh64_bytes(data: Any, start: int, end: int, seed: Any) -> Any:
    """XXH64 of ``data[start:end]``."""
    length = end - start
    at = start
    if length >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            a = _round(a, load_word(data, at))
            b = _round(b, load_word(data, at + 8))
            c = _round(c, load_word(data, at + 16))
            d = _round(d, load_word(data, at + 24))
            at += 32
        h = _rotl(a, 1) + _rotl(b, 7) + _rotl(c, 12) + _rotl(d, 18)
        for lane in (a, b, c, d):
            h = (h ^ _round(_U64(0), lane)) * _P1 + _P4
    else:
        h = seed + _P5
    h += _U64(length)
    while at + 8 <= end:
        h ^= _round(_U64(0), load_word(data, at))
        h = _rotl(h, 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        h ^= load_half(data, at) * _P1
        h = _rotl(h, 23) * _P2 + _P3
        at += 4
    while at < end:
        h ^= _U64(data[at]) * _P5
        h = _rotl(h, 11) * _P1
        at += 1
    return _avalanche(h)


@compiled
def _chain_words(words: Any, seeds: Any) -> None:
    for i in range(words.size):
        seeds[i] = _xxh64_word(_U64(words[i]), seeds[i])


@compiled
def _chain_half_words(words: Any, seeds: Any) -> None:
    for i in range(words.size):
        seeds[i] = _xxh64_half_word(_U64(words[i]) & _U64(0xFFFFFFFF), seeds[i])


@compiled
def _chain_strings(data: Any, offsets: Any, seeds: Any) -> None:
    for i in range(seeds.size):
        seeds[i] = xxh64_bytes(data, offsets[i], offsets[i + 1], seeds[i])


def chain_integers(words: npt.NDArray[np.signedinteger[Any]], hashes: UInt64s) -> None:
    """Fold an integer column into the running ``hashes``, as Spark's ``xxhash64(a, b, …)`` does."""
    if words.dtype.itemsize == 8:
        _chain_words(words, hashes)
    else:
        _chain_half_words(words, hashes)


def chain_strings(data: Bytes, offsets: npt.NDArray[np.signedinteger[Any]], hashes: UInt64s) -> None:
    """Fold a string column (Arrow bytes and offsets) into the running ``hashes``."""
    _chain_strings(data, offsets, hashes)


def sharding_hashes(count: int) -> UInt64s:
    """The running hashes before any column was folded in."""
    return np.full(count, SHARDING_SEED, dtype=np.uint64)


def shard_of(hashes: UInt64s, shards: int) -> npt.NDArray[np.int32]:
    """The shard of each hash: its value as a signed number, modulo ``shards``, never negative."""
    return cast("npt.NDArray[np.int32]", np.mod(hashes.view(np.int64), shards).astype(np.int32))


@njit(inline="always")
def mix(key: Any) -> Any:
    """A bijection of 64 bits in which every input bit moves every output bit (splitmix64's finaliser)."""
    h = _U64(key)
    h = (h ^ (h >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> _U64(27))) * _U64(0x94D049BB133111EB)
    return h ^ (h >> _U64(31))


@compiled
def hash_strings(data: Any, offsets: Any, seed: Any, out: Any) -> None:
    """XXH64 of each string, as a signed number: the 64-bit name under which a table keeps it."""
    for i in range(out.size):
        out[i] = np.int64(xxh64_bytes(data, offsets[i], offsets[i + 1], seed))


@compiled
def hash_rows(table: Any, seeds: Any, out: Any) -> None:
    """XXH64 of each row of a two-dimensional byte array, row ``i`` under ``seeds[i]``: chunk checksums."""
    for i in range(out.size):
        row = table[i]
        out[i] = xxh64_bytes(row, 0, row.size, seeds[i])
