"""Which start of which machine this is: memory does not outlive either.

Files on a disk do, but not as they were. Pages of a mapped file reach the disk in any order, or not at all, when the
power goes: a header may say that batch N is contained over arrays that are older. So what an earlier boot left is not
believed, wherever it lies. In shared memory there is nothing left to believe.
"""

import platform
from functools import cache
from pathlib import Path

import xxhash

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_boot() -> int:
    """A number that is another one after the machine was started again, and on any other machine.

    A container that starts again on a machine that did not has the same. Where the system does not say which boot this
    is, only machines are told apart.
    """
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        boot = platform.node()
    return xxhash.xxh3_64_intdigest(boot.encode()) - 2**63
