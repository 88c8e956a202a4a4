"""Read and write several bytes of a byte array at once, wherever they lie.

Bytes taken one by one cost a check and a jump each. A processor reads eight of them as fast as one, but numba has no
way to ask for that, and does not find it by itself. All bytes named must lie in the array: nothing here checks it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

WORD_BYTES = 8
HALF_BYTES = 4

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def load_word(data: Any, at: Any) -> Any:
        """The little-endian unsigned integer of 8 bytes at ``at``."""
        return np.uint64(int.from_bytes(data[int(at) : int(at) + WORD_BYTES].tobytes(), "little"))

    def load_half(data: Any, at: Any) -> Any:
        """The little-endian unsigned integer of 4 bytes at ``at``, as 64 bits."""
        return np.uint64(int.from_bytes(data[int(at) : int(at) + HALF_BYTES].tobytes(), "little"))

    def store_word(data: Any, at: Any, word: Any) -> None:
        """Write 8 bytes, the lowest first."""
        data[int(at) : int(at) + WORD_BYTES] = np.frombuffer(int(word).to_bytes(WORD_BYTES, "little"), np.uint8)

else:

    def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any, *, bits: int) -> Any:
        """The address of the byte at ``at``, as that of an integer."""
        assert isinstance(kind, types.Array) and kind.dtype == types.uint8 and kind.layout == "C", kind
        struct = context.make_array(kind)(context, builder, array)
        wide = builder.sext(at, ir.IntType(64)) if at.type.width < 64 else at
        return builder.bitcast(builder.gep(struct.data, [wide]), ir.IntType(bits).as_pointer())

    def _loading(bits: int) -> Callable[..., Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(_place(context, builder, signature.args[0], *arguments, bits=bits), align=1)
            return builder.zext(loaded, ir.IntType(64)) if bits < 64 else loaded

        return generate

    @intrinsic
    def load_word(typing_context: Any, data: Any, at: Any) -> Any:
        """The little-endian unsigned integer of 8 bytes at ``at``."""
        return types.uint64(data, at), _loading(64)

    @intrinsic
    def load_half(typing_context: Any, data: Any, at: Any) -> Any:
        """The little-endian unsigned integer of 4 bytes at ``at``, as 64 bits."""
        return types.uint64(data, at), _loading(32)

    @intrinsic
    def store_word(typing_context: Any, data: Any, at: Any, word: Any) -> Any:
        """Write 8 bytes, the lowest first."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, place, value = arguments
            builder.store(value, _place(context, builder, signature.args[0], array, place, bits=64), align=1)
            return context.get_dummy_value()

        return types.void(data, at, types.uint64), generate


@njit(inline="always")
def same_bytes(a: Any, at: Any, b: Any, other: Any, length: Any) -> Any:
    """Whether ``length`` bytes of ``a`` from ``at`` on are those of ``b`` from ``other`` on.

    What a whole number of words leaves over is read as the last word of the string: it overlaps the one before.
    """
    if length >= WORD_BYTES:
        last = length - WORD_BYTES
        differ = load_word(a, at + last) ^ load_word(b, other + last)
        for i in range(0, last, WORD_BYTES):
            differ |= load_word(a, at + i) ^ load_word(b, other + i)
        return differ == 0
    if length >= HALF_BYTES:
        last = length - HALF_BYTES
        return (load_half(a, at) ^ load_half(b, other)) | (load_half(a, at + last) ^ load_half(b, other + last)) == 0
    same = True
    for i in range(length):
        same &= a[at + i] == b[other + i]
    return same


@njit(inline="always")
def copy_bytes(a: Any, at: Any, length: Any, out: Any, to: Any) -> None:
    """Copy ``length`` bytes of ``a`` from ``at`` on into ``out`` from ``to`` on."""
    if length >= WORD_BYTES:
        for i in range(0, length - WORD_BYTES, WORD_BYTES):
            store_word(out, to + i, load_word(a, at + i))
        last = length - WORD_BYTES
        store_word(out, to + last, load_word(a, at + last))
    else:
        for i in range(length):
            out[to + i] = a[at + i]
