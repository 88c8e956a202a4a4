"""Real hosts are killed, paused, drained and moved from while a graph with every protection runs on them.

Starting an executor takes as long as fifty batches, so faults share histories, and strike at a step where it matters
which; ``spillway soak --hosts 3`` has all kinds at all steps.
"""

from collections.abc import Iterator

import pytest
from tests.spark_archive import java_options

from spillway.backup.keeper import Step
from spillway.soak.host_histories import Fault, History, Kind, Rescale
from spillway.soak.host_world import World

pytestmark = [pytest.mark.spark, pytest.mark.kill]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(hosts=3, java=java_options()) as world:
        yield world


def lived(world: World, *faults: Fault, delay_max_s: float) -> tuple[int, int]:
    """How many times shards moved, and how many of those were handed over."""
    verdict = world.live(History(seed=0, delay_max_s=delay_max_s, faults=faults))
    assert verdict.story == ""
    assert verdict.struck == len(faults)
    return verdict.moves, verdict.handed_over


# Three operators with state are in the first stage and one is in the second, each with a shard on every host.
OF_HOST = 4
LONG_S, SHORT_S = 90.0, 1.0  # longer than an executor takes to come back, and not


def test_a_move_and_a_drain_cost_nothing(world: World) -> None:
    moves, handed_over = lived(
        world, Fault(kind=Kind.MOVED, batch=1, shard=0), Fault(kind=Kind.DRAINED, batch=3, host=1), delay_max_s=LONG_S
    )
    assert moves == handed_over >= OF_HOST


def test_executors_that_come_back_in_time_cost_nothing(world: World) -> None:
    moves, handed_over = lived(
        world,
        Fault(kind=Kind.EXECUTOR, batch=1, step=Step.APPLYING, operator="near", shard=1),
        Fault(kind=Kind.SOURCE_KILLED, batch=3, step=Step.FETCHED, operator="exact", shard=0),
        delay_max_s=LONG_S,
    )
    assert moves == handed_over == 3  # of the one that was asked for


def test_hosts_that_do_not_are_left_and_whoever_wakes_later_changes_nothing(world: World) -> None:
    moves, handed_over = lived(
        world,
        Fault(kind=Kind.TARGET_KILLED, batch=1, step=Step.SERVED, operator="exact", shard=1, wiped=True),
        Fault(kind=Kind.PAUSED, batch=3, step=Step.BACKED_UP, operator="exact", shard=2, back_after=0),
        Fault(kind=Kind.TWO_GONE, batch=6, host=0, other=2, wiped=True),
        delay_max_s=SHORT_S,
    )
    assert moves >= 2 * OF_HOST
    assert handed_over == 0


def test_the_driver_is_killed_with_a_host_when_a_move_is_durable_and_nobody_knows(world: World) -> None:
    lived(
        world,
        Fault(kind=Kind.MOVED, batch=2, operator="exact", shard=0),
        Fault(kind=Kind.DRIVER_AND_HOST, batch=2, step=Step.HANDED_OVER, host=1, wiped=True),
        delay_max_s=SHORT_S,
    )


def test_another_number_of_shards_on_other_hosts_costs_nothing(world: World) -> None:
    verdict = world.live(History(seed=0, delay_max_s=LONG_S, faults=(), rescale=Rescale(batch=3, shards=4)))
    assert (verdict.story, verdict.recoveries) == ("", 0)  # no failure: nothing of what was approximate is missing


def test_a_driver_that_is_killed_alone_finds_all_memory_again(world: World) -> None:
    verdict = world.live(
        History(seed=0, delay_max_s=LONG_S, faults=(Fault(kind=Kind.DRIVER, batch=2, step=Step.PLACED),))
    )
    assert (verdict.story, verdict.recoveries, verdict.moves) == ("", 0, 0)
