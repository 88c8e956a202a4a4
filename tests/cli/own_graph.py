"""Graphs of one's own for ``spillway run``, as a module names them."""

import os
from pathlib import Path
from typing import Any

from tests.local.test_losses import SCHEMA, make

import spillway as sw


def counting(sink: sw.Parquet | sw.Memory | None = None, protect: sw.Protection | None = None) -> sw.Graph:
    """Counts of three pieces; the folder that output goes to is named by the test."""
    drawn = sw.Graph("own")
    feed = sw.Generator(make=make, schema=SCHEMA, pieces=3)
    counts = drawn.add(sw.operators.Count("counts", key="key", protect=protect), drawn.source("in", feed))
    drawn.sink("out", counts, sink or sw.Parquet(str(Path(os.environ.get("OWN_OUTPUT", "unused")) / "out")))
    return drawn


graph = counting(protect=sw.Nothing())


def of_session(spark: Any) -> sw.Graph:
    """One that looks at the session it is given."""
    assert spark.version
    return counting(sw.Memory())


def of_two(spark: Any, folder: str) -> sw.Graph:
    return counting()


def broken() -> sw.Graph:
    return counting(sw.Parquet(str(1 // 0)))


def badly_drawn() -> sw.Graph:
    drawn = counting()
    drawn.add(sw.operators.Count("counts", key="key"), sw.Stream("in", "out"))
    return drawn


number = 3
