"""Random streams, under sw.protect and by Spark alone: every batch is the same, whatever is late, stopped or lost."""

from dataclasses import replace
from typing import Any

import pytest

from spillway.soak.stream_world import StreamWorld
from spillway.soak.streams import random_stream
from spillway.spark import summing

pytestmark = pytest.mark.spark

STREAMS, PARTS = 12, 2
WITH_LATE_ROWS = 22  # a seed whose rows come late for a window that has ended


@pytest.mark.parametrize("part", range(PARTS))
def test_no_batch_differs(part: int, spark: Any) -> None:
    with StreamWorld(spark) as world:
        found = {seed: world.live(random_stream(seed)) for seed in range(part, STREAMS, PARTS)}
    broken = {seed: verdict.story for seed, verdict in found.items() if verdict.story}
    assert not broken, "replay: spillway soak streams --schedules 1 --seed SEED"


def test_a_row_that_counts_though_it_is_too_late_is_found(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_in_time(query: Any, *, batch: int) -> summing.Times:
        return replace(times_of(query, batch=batch), late_us=-(2**62))

    times_of = summing.times_of
    stream = random_stream(WITH_LATE_ROWS)
    with StreamWorld(spark) as world:
        assert not world.live(stream).story
        monkeypatch.setattr(summing, "times_of", all_in_time)
        assert "in batch" in world.live(stream).story
