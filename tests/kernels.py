"""All kernels of the package, found in its sources."""

import re
from importlib import import_module
from pathlib import Path

from numba.core.dispatcher import Dispatcher

SOURCE = Path(__file__).parents[1] / "src"


def kernel_modules() -> list[str]:
    """The modules that have functions compiled by numba, by what stands above these."""
    decorated = re.compile(r"^\s*@(njit|jit|compiled|inlined)\b", re.MULTILINE)
    return [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted((SOURCE / "spillway").rglob("*.py"))
        if decorated.search(path.read_text())
    ]


def kernels() -> dict[str, Dispatcher]:
    """Every kernel, by the module that defines it and its name there."""
    return {
        f"{module}.{name}": value
        for module in kernel_modules()
        for name, value in vars(import_module(module)).items()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == module
    }
