"""Drivers of jobs, really killed: every job puts out, batch by batch, what an undisturbed run does.

Every start of a driver takes Spark some ten seconds: the histories that show most are here, and ``spillway soak jobs``
has the others, with a driver for each job.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.spark_archive import java_options

from spillway.engine.job_logs import LogStep
from spillway.soak.kill_graph import JOBS, Loss
from spillway.soak.kill_world import TOGETHER, KillVerdict, KillWorld
from spillway.soak.kills import Kill, Kills, stopped_at

pytestmark = [pytest.mark.kill, pytest.mark.spark]


def lived(
    kills: Sequence[Kill], processes: Sequence[str], *, inside: Any = None, protection: str = "exact"
) -> KillVerdict:
    with KillWorld(processes=processes, inside=inside, java=java_options()) as world:
        verdict = world.live(Kills(seed=0, protection=protection, kills=tuple(kills)))
    assert not verdict.story, verdict.story
    assert verdict.struck == len(kills), "a kill waited for a step to which nobody came"
    return verdict


def test_a_job_between_others_that_go_on(spark: Any) -> None:
    """The others run here: what is to be shown is that they do not notice."""
    verdict = lived([stopped_at(LogStep.READ, "middle", batch=2, loss=Loss.SHARDS)], ["middle"], inside=spark)
    assert verdict.recovered


def test_a_job_that_is_saved_with_others_loses_everything_and_is_killed_while_it_goes_back(spark: Any) -> None:
    """In the planning phase; between permanence and acknowledgement, with all memory; while it goes back."""
    lived(
        [
            stopped_at(LogStep.NAMED, "middle", batch=1),
            stopped_at(LogStep.SAVED, "middle", batch=1, loss=Loss.ALL),
            stopped_at(LogStep.WENT_BACK, "middle", batch=1),
        ],
        ["middle"],
        inside=spark,
        protection="coordinated",
    )


def test_all_jobs_that_save_alone_lose_everything_while_a_log_is_trimmed() -> None:
    kill = stopped_at(LogStep.TRIMMING, "first", batch=1, others=JOBS, loss=Loss.ALL)
    lived([kill], [TOGETHER], protection="uncoordinated")
