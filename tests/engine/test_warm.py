"""Loading kernels ahead of time works, and covers what most streams use."""

import subprocess
import sys

SCRIPT = """
from spillway.engine.warm import warm
from spillway.state.compiled import reached
from tests.kernels import kernels
warm()
found = kernels()
# What is compiled into a loaded kernel is not loaded by itself.
loaded = {part for kernel in found.values() if kernel.signatures for part in reached(kernel)}
print(*(name for name, kernel in found.items() if kernel not in loaded and "inline" not in kernel.targetoptions))
"""

# Loaded when they are needed: what no task of a stream calls, what is rare, and operators of one application.
NOT_LOADED = {
    "spillway.benches.limit.upsert_integers": "a bench's yardstick",
    "spillway.benches.limit.upsert_words": "a bench's yardstick",
    "spillway.apps.ticks._walk": "generators run before tasks do",
    "spillway.apps.ticks._normal": "generators run before tasks do",
    "spillway.state.hashing.hash_rows": "checksums of backups, in recovery",
    "spillway.state.hashing._chain_half_words": "keys of narrow integers",
    "spillway.score.reliability_between._walk": "two outputs compared",
    "spillway.operators.arrival._arrive": "inputs merged in an order of their own",
    "spillway.operators.arrival._delay": "inputs merged in an order of their own",
    "spillway.operators.barrier._meet": "Barrier",
    "spillway.operators.barrier._room": "Barrier",
    "spillway.operators.signals._filter": "SignalFilter",
    "spillway.operators.joining._enter": "WindowJoin, SharedWindowJoin",
    "spillway.operators.joining.join": "WindowJoin, SharedWindowJoin",
    "spillway.operators.least_squares._learn": "LeastSquares",
    "spillway.operators.least_squares._near": "LeastSquares",
    "spillway.operators.least_squares._fit": "LeastSquares",
    "spillway.operators.least_squares._solve": "LeastSquares",
    "spillway.state.window._push": "windows of a user's own operators",
    "spillway.state.window._keep_newest": "windows after a recovery",
    "spillway.state.window._copy_newest": "looking into windows",
    "spillway.state.window._find_unsorted": "windows from damaged backups",
}


def test_every_kernel_is_loaded_but_those_no_task_starts_with() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    left = set(ran.stdout.split())
    models = {name for name in left if name.startswith("spillway.san.")}  # replications are no tasks of a stream
    of_apps = {name for name in left if name.startswith(("spillway.apps.qrs.", "spillway.apps.vitals."))}
    assert "spillway.san.kernel.replication" in models, "not all kernels were found"
    assert left - models - of_apps == set(NOT_LOADED)
