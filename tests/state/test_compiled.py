"""Compiled code is kept from process to process, until anything in it changes, wherever that stands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels import SOURCE, kernel_modules, kernels

from spillway.state.compiled import reached, stamp

CALLER = """
from numba import njit
from sample import called
from sample.called import FACTOR, TABLE, Pair, absolute, offset, plus
from spillway.state.compiled import compiled

@compiled
def calls(x):
    return plus(x)

@compiled
def calls_what_calls(x):
    return calls(x) + below(x)

@compiled
def reads_a_constant(x):
    return x * FACTOR

@compiled
def reads_an_array(x):
    return x * TABLE[0]

@compiled
def reads_by_way_of_the_module(x):
    return called.plus(x) * called.FACTOR

@compiled
def uses_an_overload(x):
    return absolute(x)

@compiled
def uses_an_intrinsic(x):
    return offset(x)

@compiled
def takes_a_named_tuple(pair):
    return pair.first - pair.second

@compiled
def makes_a_named_tuple(x):
    return Pair(x, 1)[0]

# Defined after its caller.
@njit(inline="always")
def below(x):
    return plus(x)

KERNELS = [
    calls, calls_what_calls, reads_a_constant, reads_an_array, reads_by_way_of_the_module, uses_an_overload,
    uses_an_intrinsic, takes_a_named_tuple, makes_a_named_tuple,
]
"""

CALLED = """
from typing import NamedTuple
import numpy as np
from numba import njit
from numba.extending import intrinsic, overload

FACTOR = 2
TABLE = np.array([2])

class Pair(NamedTuple):
    first: int
    second: int

@njit
def plus(x):
    return x + 1

def absolute(x):
    return abs(x)

@overload(absolute)
def _compiled_absolute(x):
    def integers(x):
        return x + 1
    return integers

@intrinsic
def offset(context, x):
    def generate(context, builder, signature, arguments):
        return builder.add(arguments[0], arguments[0].type(1))
    return x(x), generate
"""

# Nothing but what is compiled in changes: no name, and no number of lines.
CHANGED = (
    CALLED.replace("= 2\n", "= 3\n")
    .replace("[2]", "[3]")
    .replace("first: int\n    second: int", "second: int\n    first: int")
    .replace("x + 1", "x + 2")
    .replace(".type(1)", ".type(2)")
)

ASK = """
import json
from sample import caller
from sample.called import Pair
found = {}
for kernel in caller.KERNELS:
    name = kernel.py_func.__name__
    value = kernel(Pair(first=9, second=5) if name == "takes_a_named_tuple" else 7)
    found[name] = int(value), sum(kernel.stats.cache_hits.values())
print(json.dumps(found))
"""

FIRST = {
    "calls": 8,
    "calls_what_calls": 16,
    "reads_a_constant": 14,
    "reads_an_array": 14,
    "reads_by_way_of_the_module": 16,
    "uses_an_overload": 8,
    "uses_an_intrinsic": 8,
    "takes_a_named_tuple": 4,
    "makes_a_named_tuple": 7,
}
THEN = {
    "calls": 9,
    "calls_what_calls": 18,
    "reads_a_constant": 21,
    "reads_an_array": 21,
    "reads_by_way_of_the_module": 27,
    "uses_an_overload": 9,
    "uses_an_intrinsic": 9,
    "takes_a_named_tuple": 4,
    "makes_a_named_tuple": 7,
}


def run(script: str, folder: Path, *paths: Path, **environment: str) -> str:
    """What a fresh process prints that keeps compiled code in ``folder``."""
    path = os.pathsep.join(map(str, (folder, *paths)))
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "kept"), **environment}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_code_is_kept_until_something_in_it_changes(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER)
    (package / "called.py").write_text(CALLED)

    def answers() -> tuple[dict[str, int], set[str]]:
        """What each kernel returns, and which of them had not to be compiled."""
        found = json.loads(run(ASK, tmp_path, SOURCE))
        return {name: value for name, (value, _) in found.items()}, {name for name, (_, hits) in found.items() if hits}

    assert answers() == (FIRST, set())
    (package / "called.py").write_text(CALLED + "# A comment is not compiled.\n")
    assert answers() == (FIRST, set(FIRST))
    (package / "called.py").write_text(CHANGED)
    assert answers() == (THEN, set())


KEPT = """
from sample.called import kernel
from spillway.state.compiled import is_kept
print(is_kept(kernel), kernel(1), is_kept(kernel))
"""
KERNEL = """
from spillway.state.compiled import compiled

@compiled
def kernel(x):
    return x + 1
"""


@pytest.mark.slow
def test_whether_code_is_kept_is_known_before_it_is_asked_for(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "called.py").write_text(KERNEL)
    assert run(KEPT, tmp_path, SOURCE).split() == ["False", "2", "True"]
    assert run(KEPT, tmp_path, SOURCE).split() == ["True", "2", "True"]
    (package / "called.py").write_text(KERNEL.replace("x + 1", "x + 2"))
    assert run(KEPT, tmp_path, SOURCE).split() == ["False", "3", "True"]


HASH = """
import numpy as np
from spillway.operators.sketch import _columns
out = np.zeros((3, 4), np.int64)
_columns(np.arange(1, 5).astype(np.uint64), 1000, out)
print(out.tolist())
"""


@pytest.mark.slow
def test_a_kernel_follows_a_change_in_another_module_of_the_package(tmp_path: Path) -> None:
    shutil.copytree(SOURCE / "spillway", tmp_path / "spillway", ignore=shutil.ignore_patterns("__pycache__"))
    before = run(HASH, tmp_path)
    hashing = tmp_path / "spillway" / "state" / "hashing.py"
    text = hashing.read_text()
    assert "_U64(0xBF58476D1CE4E5B9)" in text  # in mix
    hashing.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    after = run(HASH, tmp_path)
    assert after == run(HASH, tmp_path, NUMBA_DISABLE_JIT="1")
    assert after != before


def test_every_kernel_that_is_kept_is_kept_under_a_stamp() -> None:
    found = kernels()
    assert {name.rpartition(".")[0] for name in found} == set(kernel_modules())
    for name, kernel in found.items():
        kind = type(kernel._cache).__name__
        assert kind == "_StampedCache" or (kind == "NullCache" and "inline" in kernel.targetoptions), name
        assert len(stamp(kernel)) == 32, name


@pytest.mark.parametrize(
    ("kernel", "modules"),
    [
        ("spillway.operators.sketch._columns", {"operators.sketch", "state.hashing"}),
        ("spillway.state.kernels.settle", {"state.kernels", "state.gaps", "state.prefetch"}),
        (
            "spillway.san.kernel.replication",
            {f"san.{name}" for name in ("kernel", "firing", "fast_forward_jump", "heap", "programs", "random_numbers")},
        ),
    ],
)
def test_what_is_compiled_into_a_kernel_is_found(kernel: str, modules: set[str]) -> None:
    found = {getattr(part, "py_func", part).__module__ for part in reached(kernels()[kernel])}
    assert found == {f"spillway.{module}" for module in modules}
