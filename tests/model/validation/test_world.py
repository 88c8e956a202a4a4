"""Jobs as processes that are really killed: by the protections that lose nothing, nothing is lost."""

from pathlib import Path

import pytest

from spillway.apps import APPS
from spillway.model.validation.judging import NOTHING, judge, read, undisturbed
from spillway.model.validation.ways import WAYS, Times, cut
from spillway.model.validation.world import Terms, World

pytestmark = pytest.mark.kill

TERMS = Terms(interval_s=0.25, settle_s=1.0, horizon_s=4.0, crash_rate=1.5, recovery_s=0.2, seed=5)


@pytest.mark.parametrize("way", ["checkpoint", "group", "replication"])
def test_processes_are_killed_and_come_back(way: str, tmp_path: Path) -> None:
    app = APPS["bargain"]
    feed = app.generator(seed=1, tuples=20_000, tuples_per_batch=125, **app.short)
    wanted = undisturbed(
        app.build(feed),
        TERMS.batches,
        out=tmp_path / "wanted",
        backups=str(tmp_path / "backups"),
    )
    graph = cut(app.build(feed), WAYS[way], Times(detection_s=0.5), out=tmp_path / "out")
    with World(graph, TERMS) as world:
        lived = world.live(lambda said: None)
    assert lived.kills > 0 and lived.heard
    judged = judge(wanted, read(tmp_path / "out", ["Sink"]), range(TERMS.batches))
    total = sum(judged.values(), NOTHING)
    assert total.wanted > 0 and total.duplicates == 0
    if way == "checkpoint":
        assert lived.dropped > 0 and total.wrong > 0
    else:
        assert total.wrong == 0 and lived.dropped == 0
