"""How late output may be while a host is gone: declared for a graph, or for one of its operators."""

from datetime import timedelta

from spillway.errors import GraphError

DELAY_MAX = timedelta(seconds=60)
"""Unless something is said. An executor that died is back well before, and then nothing is lost."""


def check_delay(who: str, delay: object, *, what: str = "delay_max") -> None:
    """Refuse what is no length of time."""
    if not isinstance(delay, timedelta) or delay < timedelta(0):
        raise GraphError(f"{who}: {what} must be a timedelta of 0 or more; got {delay!r}.")
