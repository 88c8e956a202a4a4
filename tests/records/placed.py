"""Moves and waits made by hand."""

from spillway.records.placing import Moved, Waited


def moved(**values: object) -> Moved:
    """Shard 0 from a to b, handed over, but for what is said."""
    given = {
        "batch": 4,
        "operator": "count",
        "shard": 0,
        "source": "a",
        "target": "b",
        "epoch": 1,
        "why": "somebody asked",
        "handed_over": True,
        "seconds": 0.5,
        "bytes": 1_000_000,
        "time_s": 1e9,
    }
    return Moved(**{**given, **values})  # type: ignore[arg-type]


def waited(**values: object) -> Waited:
    """Two seconds for a, which came back, but for what is said."""
    given = {"batch": 4, "host": "a", "seconds": 2.0, "came_back": True, "time_s": 1e9}
    return Waited(**{**given, **values})  # type: ignore[arg-type]
