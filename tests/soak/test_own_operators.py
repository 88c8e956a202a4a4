"""The operators that schedules are made of keep what the bounds ask of an operator."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

import spillway as sw
from spillway.soak.own_operators import RecentSums
from spillway.soak.tuples import SCHEMA, Times

TIMES = Times(origin_us=0, step_us=1, punctuation_every=10)


Batch = tuple[list[int], list[int]]
"""The numbers of its tuples, and their values."""


def last_sum(folder: Path, batches: list[Batch], *, lost: Collection[int]) -> int:
    """What is said of the last batch, if memory is lost before some of them."""
    pieces = [TIMES.tuples(seqs, np.zeros(len(seqs)), values) for seqs, values in batches]
    graph = sw.Graph("recent")
    source = graph.source("in", sw.Generator(make=pieces.__getitem__, schema=SCHEMA, pieces=len(pieces)))
    recent = RecentSums(
        "recent", slots=4, width=20, metric="l2", protect=sw.Approximate(theta=0), shards=1, window=sw.Sliding(count=80)
    )
    graph.sink("out", graph.add(recent, source), sw.Memory())
    with sw.LocalRun(graph, backups=str(folder)) as run:
        while run.batch < len(batches):
            if run.batch in lost:
                run.wipe()
            run.step()
        return int(run.result("out")["value"].to_pylist()[-1])


def test_recent_sums_that_are_of_another_time_are_not_taken_for_the_same(tmp_path: Path) -> None:
    batches = [([1, 58], [2, 2]), ([85], [2]), ([152], [2])]  # in a ring of four, 85 would lie where 1 did
    assert last_sum(tmp_path / "whole", batches, lost=[]) == 4
    assert last_sum(tmp_path / "lost", batches, lost=[2]) == 4
