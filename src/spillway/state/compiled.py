"""How kernels are compiled, and when what was compiled is compiled anew.

Numba keeps the compiled code of a function on disk until the file of that function changes. But the functions a kernel
calls and the constants it reads are compiled into it, and may come from other files. After a change in one of those
numba would go on with the old code, which gives wrong numbers without a word. So here code is kept for as long as
everything that went into it is the same, however that was found:

* the bytecode and the compiler's options of every function reached from the kernel by name (what the interpreter holds
  is looked at, not files: a file may change after it was imported);
* the values of the globals these functions read;
* the order of the fields of named tuples among its arguments, since a field is found by its place.

An overload stands beside the plain function it implements, so of a plain function's module all functions count.

What a kernel reaches is looked up when its code is first asked for, not when it is decorated: by then every module has
been imported, and a kernel that is never called costs nothing.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
from numba import njit, types
from numba.core import sigutils
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """A kernel: compiled when it is first called with arguments of some types, and kept for the next process."""
    return compiled_with(function)


def compiled_with(function: Function, **options: Any) -> Function:
    """The same, with options of ``njit``."""
    kernel: Any = njit(**options)(function)
    if isinstance(kernel, Dispatcher):  # it is the function itself where kernels run as plain Python
        kernel._cache = _StampedCache(kernel)  # type: ignore[attr-defined]
    return kernel  # type: ignore[no-any-return]


def is_kept(kernel: Any) -> bool:
    """Whether code of a kernel, as it is now, is on disk; compiling it takes seconds, loading it does not."""
    return not isinstance(kernel, Dispatcher) or kernel._cache.is_kept()  # type: ignore[attr-defined]


class _StampedCache(FunctionCache):
    """Numba's cache of one kernel on disk, under a stamp of all that is compiled into it."""

    def __init__(self, kernel: Dispatcher) -> None:
        super().__init__(kernel.py_func)  # type: ignore[no-untyped-call]
        self._kernel = kernel

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        self._cache_file._source_stamp = self._stamp  # saving comes after an attempt to load
        return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        arguments, _ = sigutils.normalize_signature(sig)  # type: ignore[no-untyped-call]
        return (*super()._index_key(sig, codegen), tuple(map(_fields, arguments)))  # type: ignore[no-untyped-call]

    def is_kept(self) -> bool:
        self._cache_file._source_stamp = self._stamp
        return bool(self._cache_file._load_index())  # type: ignore[no-untyped-call]

    @cached_property
    def _stamp(self) -> str:
        return stamp(self._kernel)


def stamp(kernel: Any) -> str:
    """Differs if the code of a kernel may differ: in any function, option or value that is compiled into it."""
    lines = sorted(map(_described, reached(kernel)))
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()


def reached(kernel: Any) -> list[Any]:
    """The kernel and every function of its package that is compiled into it: kernels, intrinsics, plain functions."""
    found = [kernel]
    package = _package(_python(kernel))
    for part in found:  # grows as it is read
        values = [value for _, value in _globals(_python(part))]
        if isinstance(part, FunctionType):
            values += [value for value in part.__globals__.values() if isinstance(value, FunctionType)]
        for value in values:
            function = _python(value)
            if function is not None and _package(function) == package and not any(value is other for other in found):
                found.append(value)
    return found


@cache
def _described(part: Any) -> str:
    function = _python(part)
    options = sorted(getattr(part, "targetoptions", {}).items())
    values = [f"{name}={_value(value)}" for name, value in _globals(function)]
    return f"{function.__module__}.{function.__qualname__} {_code(function.__code__)} {options} {values}"


@cache
def _globals(function: FunctionType) -> list[tuple[str, Any]]:
    """The globals a function reads, by name; of modules of its package, what it reads in them."""
    names = set(_names(function.__code__))
    found = []
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == _package(function):
            found += [(f"{name}.{inner}", vars(value)[inner]) for inner in sorted(names & vars(value).keys())]
        else:
            found.append((name, value))
    return found


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _python(value: Any) -> Any:
    """The Python function behind a kernel, an intrinsic or a plain function; None for anything else."""
    behind = getattr(value, "py_func", None) or getattr(value, "_defn", None) or value
    return behind if isinstance(behind, FunctionType) else None


def _package(function: FunctionType) -> str:
    return function.__module__.partition(".")[0]


def _code(code: CodeType) -> str:
    """What a function does: not where it stands, nor what its variables are called."""
    constants = [_code(c) if isinstance(c, CodeType) else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _constant(constant: Any) -> str:
    # A set has another order in every process.
    return repr(sorted(constant, key=repr) if isinstance(constant, frozenset) else constant)


def _value(value: Any) -> str:
    """What of a global's value is compiled in; functions have lines of their own."""
    match value:
        case bool() | int() | float() | complex() | str() | np.generic():
            return repr(value)
        case np.ndarray():
            return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
        case tuple():
            return str([_value(inner) for inner in value])
        case type():
            return f"{value.__qualname__} {getattr(value, '_fields', ())}"
        case ModuleType() | BuiltinFunctionType():
            return ""
        case _:
            assert _python(value) is not None, f"A kernel reads {value!r}; what of it is compiled in is not known."
            return ""


def _fields(argument: Any) -> tuple[Any, ...]:
    """The names of a named tuple's fields, and of those inside it, in order; nothing for other types."""
    if not isinstance(argument, types.BaseTuple):
        return ()
    return (getattr(argument, "fields", ()), tuple(_fields(inner) for inner in argument))  # type: ignore[attr-defined]
