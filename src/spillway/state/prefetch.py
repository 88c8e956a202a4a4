"""Ask the processor to fetch an element a kernel will need a few iterations later.

A batch that touches a few keys of a large table waits for main memory at every one of them, unless the fetches
overlap. Measured on 10,000 random keys of a table of 10 million, this makes the lookups about twice as fast.
"""

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

AHEAD = 16  # iterations between asking for an element and using it

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def prefetch(array: Any, position: Any) -> None:
        """Nothing to do when kernels run as plain Python."""

else:

    @intrinsic
    def prefetch(typing_context: Any, array: Any, position: Any) -> Any:
        """Fetch ``array[position]`` (first dimension) into the cache; the position may be past the end."""
        assert isinstance(array, types.Array)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, index = arguments
            struct = context.make_array(signature.args[0])(context, builder, pointer)
            stride = cgutils.unpack_tuple(builder, struct.strides)[0]  # type: ignore[no-untyped-call]
            base = builder.bitcast(struct.data, ir.IntType(8).as_pointer())
            offset = builder.mul(builder.sext(index, stride.type) if index.type.width < 64 else index, stride)
            address = builder.gep(base, [offset])
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), i32, i32, i32])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
            # Arguments: for reading, keep as long as possible, data cache.
            builder.call(function, [address, i32(0), i32(3), i32(1)])
            return context.get_dummy_value()

        return types.void(array, position), generate
