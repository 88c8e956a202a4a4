"""Replicas of a job, really killed: whoever dies when, the reader writes down what an undisturbed run does."""

from typing import Any

import pytest
from tests.spark_archive import java_options

from spillway.soak.replica_world import ReplicaWorld

pytestmark = [pytest.mark.kill, pytest.mark.spark]


def test_standby_active_and_both_are_killed_and_one_again_while_it_takes_over(spark: Any) -> None:
    with ReplicaWorld("group", spark, java=java_options(), pace_s=4.0) as world:
        world.settle()
        active = world.active()
        (standby,) = {*world.names} - {active}

        world.kill(standby)
        world.settle()
        assert world.active() == active, "a standby is not missed"

        world.start(standby)
        world.settle()  # it has all that is needed
        world.kill(active, with_memory=True)
        world.until(lambda: world.active() == standby)

        world.kill(standby)  # it has just taken over, and nobody is left
        for name in world.names:
            world.start(name)
        # Either may be the active one then: the other has lost its log, but the reader may have gone beyond that.
        world.settle()

        written = world.compared()
    assert written.identical and written.lost == 0
