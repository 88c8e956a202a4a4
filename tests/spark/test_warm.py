"""Loading kernels ahead of time works, and covers what the applications use."""

import subprocess
import sys

SCRIPT = """
from spillway.spark.warm import warm
warm()
from spillway.operators import hashing, sketch, stateless
from spillway.state import kernels
from numba.core.dispatcher import Dispatcher
modules = (kernels, hashing, sketch, stateless, __import__("spillway.state.hashing", fromlist=["x"]))
for module in modules:
    for name, kernel in vars(module).items():
        if isinstance(kernel, Dispatcher) and kernel.targetoptions.get("inline") != "always" and not kernel.signatures:
            print(module.__name__, name)
"""


def test_every_kernel_is_loaded_but_those_no_task_starts_with() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    left = {line.split()[1] for line in ran.stdout.splitlines()}
    # Recovery, checksums and narrow integers: rare enough to be loaded when they are needed.
    assert left <= {"hash_rows", "_chain_half_words", "find_strings", "find_integers", "set_at", "xxh64_bytes"}
