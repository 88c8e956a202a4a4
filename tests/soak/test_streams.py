"""Random streams, under sw.protect and by Spark alone: every batch is the same, whatever is late, stopped or lost."""

from typing import Any

import pytest

from spillway.soak.stream_world import StreamWorld
from spillway.soak.streams import random_stream

pytestmark = pytest.mark.spark

STREAMS, PARTS = 12, 2


@pytest.mark.parametrize("part", range(PARTS))
def test_no_batch_differs(part: int, spark: Any) -> None:
    with StreamWorld(spark) as world:
        found = {seed: world.live(random_stream(seed)) for seed in range(part, STREAMS, PARTS)}
    broken = {seed: verdict.story for seed, verdict in found.items() if verdict.story}
    assert not broken, "replay: spillway soak streams --schedules 1 --seed SEED"
