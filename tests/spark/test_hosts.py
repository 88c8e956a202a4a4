"""Real hosts are killed, paused, drained and moved from while a graph with every protection runs on them."""

from collections.abc import Iterator

import pytest

from spillway.soak.host_histories import Fault, History, Kind
from spillway.soak.host_world import World

pytestmark = [pytest.mark.spark, pytest.mark.kill]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World(hosts=3) as world:
        yield world


def lived(world: World, *faults: Fault, delay_max_s: float = 3.0) -> tuple[int, int]:
    """How many times shards moved, and how many of those were handed over."""
    verdict = world.live(History(seed=0, delay_max_s=delay_max_s, faults=faults))
    assert verdict.story == ""
    return verdict.moves, verdict.handed_over


# Three operators with state are in the first stage and one is in the second, each with a shard on every host.
OF_HOST = 4


def test_a_move_and_a_drain_cost_nothing(world: World) -> None:
    moves, handed_over = lived(
        world, Fault(kind=Kind.MOVED, batch=2, shard=0), Fault(kind=Kind.DRAINED, batch=5, host=1), delay_max_s=20.0
    )
    assert moves == handed_over >= OF_HOST


def test_a_move_whose_source_or_target_is_killed(world: World) -> None:
    lived(
        world,
        Fault(kind=Kind.SOURCE_KILLED, batch=2, shard=0, after_s=0.1),
        Fault(kind=Kind.TARGET_KILLED, batch=6, shard=1, after_s=0.1),
    )


def test_executors_are_killed_with_and_without_the_memory_of_their_host(world: World) -> None:
    moves, handed_over = lived(
        world,
        Fault(kind=Kind.EXECUTOR, batch=2, host=0),
        Fault(kind=Kind.WIPED, batch=5, host=1, wiped=True),
        delay_max_s=90.0,
    )
    assert (moves, handed_over) == (OF_HOST, 0)  # of the one that lost its memory


def test_two_hosts_go_at_once_and_one_comes_back(world: World) -> None:
    moves, handed_over = lived(world, Fault(kind=Kind.TWO_GONE, batch=3, host=0, other=2, wiped=True))
    assert moves >= 2 * OF_HOST
    assert handed_over == 0


def test_a_host_that_was_paused_wakes_when_its_shards_are_elsewhere(world: World) -> None:
    moves, handed_over = lived(world, Fault(kind=Kind.PAUSED, batch=3, host=2, paused_s=12.0, after_s=0.1))
    assert moves >= OF_HOST
    assert handed_over == 0


def test_the_driver_is_killed_alone_and_with_a_host(world: World) -> None:
    moves, _ = lived(
        world,
        Fault(kind=Kind.DRIVER, batch=2, after_s=0.1),
        Fault(kind=Kind.DRIVER_AND_HOST, batch=6, host=0, wiped=True),
    )
    assert moves >= OF_HOST
