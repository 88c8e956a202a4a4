"""A limit on items per second, as a bucket that fills while time passes.

>>> rate = RateLimit(items_per_s=100, now_s=0.0)
>>> rate.wait_s(100, now_s=0.0), rate.wait_s(50, now_s=0.0), rate.wait_s(50, now_s=2.0)
(0.0, 0.5, 0.0)
"""


class RateLimit:
    """Lets one second's worth through at once, and ``items_per_s`` in the long run."""

    def __init__(self, *, items_per_s: float, now_s: float) -> None:
        self._items_per_s = items_per_s
        self._left = items_per_s
        self._at_s = now_s

    def wait_s(self, items: int, *, now_s: float) -> float:
        """Let these items through; returns how long to wait before any others."""
        self._left = min(self._items_per_s, self._left + (now_s - self._at_s) * self._items_per_s) - items
        self._at_s = now_s
        return max(0.0, -self._left / self._items_per_s)
