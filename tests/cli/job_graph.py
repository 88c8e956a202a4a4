"""A graph of one's own for ``spillway job``, as a module names it."""

import os
from pathlib import Path

from tests.local.test_losses import SCHEMA, make

import spillway as sw


def graph() -> sw.Graph:
    """Two jobs; the folder that output goes to is named by the test."""
    drawn = sw.Graph("two")
    feed = sw.Generator(make=make, schema=SCHEMA, pieces=3)
    counts = drawn.add(sw.operators.Count("counts", key="key"), drawn.source("in", feed))
    some = drawn.add(sw.operators.Where("some", sw.field("count") > 3), counts)
    drawn.sink("out", some, sw.Parquet(str(Path(os.environ.get("JOB_OUTPUT", "unused")) / "out")))
    drawn.job("counting", ["counts"])
    drawn.job("choosing", ["some"])
    return drawn
