"""Waiting for what other processes do."""

import time
from collections.abc import Callable

WAIT_S_MAX = 60.0


def waited_for(what: Callable[[], bool], *, seconds_max: float = WAIT_S_MAX) -> bool:
    """Whether it has come about; asked again and again, for a minute at most, or as long as is said."""
    until_s = time.monotonic() + seconds_max
    while not what():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True
