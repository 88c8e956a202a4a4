"""A run killed at any step of any batch loses nothing while memory lives, and no more than was promised without it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backup.crash_world import GoOn, World, after_kill, judge
from tests.state.crash_film import File, Files, Still, crash_points, scratch

import spillway as sw

PLAIN = [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 8, 9], [0, 2, 4, 6, 8, 10, 12], [1, 1, 3], [0, 20, 21], [5, 6]]
GROWING = [[0, 1, 2, 3], [1, 2, *range(100, 900)], [5], [100, 2000], [6]]
ONCE_AND_TWICE = [[0], [0, 1], [1, 2, 3], [3], [3], [3]]
"""A window that ends in batch 1, two that end in batch 2, and none after that."""

APPROXIMATE = sw.Approximate(theta=100)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


def test_the_first_batch(folder: Path) -> None:
    world = World(protect=APPROXIMATE, batches=PLAIN)
    judge(world, world.film(folder / "film", first=0, last=0), folder)


def test_a_batch_that_is_backed_up_and_the_next(folder: Path) -> None:
    world = World(protect=APPROXIMATE, batches=PLAIN)
    functions = judge(world, world.film(folder / "film", first=1, last=2), folder)
    assert {"announce", "stage", "promote", "save", "touch", "settle", "commit", "write_whole"} <= functions


def test_a_batch_in_which_everything_grows(folder: Path) -> None:
    world = World(protect=APPROXIMATE, batches=GROWING)
    judge(world, world.film(folder / "film", first=1, last=1), folder)


def test_windows(folder: Path) -> None:
    """Windows end, once and then twice in a batch, and the batch after that promotes the backup."""
    world = World(protect=APPROXIMATE, batches=PLAIN, windows=ONCE_AND_TWICE)
    functions = judge(world, world.film(folder / "film", first=1, last=3), folder)
    assert {"clear", "set_aside", "forget_aside", "window_ended", "promote"} <= functions


@pytest.mark.parametrize("committed", [False, True], ids=["torn", "committed"])
def test_the_rollback_of_a_batch(committed: bool, folder: Path) -> None:
    """The batch is run again, because its process or the driver died at the very end of it."""
    batch = 2
    world = World(protect=APPROXIMATE, batches=PLAIN, windows=ONCE_AND_TWICE)
    film = world.film(folder / "first", first=batch, last=batch)
    start = film[-1] if committed else next(still for still in film if "commit" in still.before)
    again = world.film(folder / "film", first=batch, last=batch, start=start.files)
    assert "rollback" in judge(world, until(again, "rollback"), folder)


def test_items_and_feedback_of_several_shards(folder: Path) -> None:
    world = World(protect=sw.UpstreamBackup(every=5), batches=PLAIN, shards=2, feedback=True)
    # Items and feedback are made durable by the same lines.
    functions = judge(world, world.film(folder / "film", first=2, last=2), folder, depth=3)
    assert {"put", "_keep_items", "remove"} <= functions


@pytest.mark.parametrize(
    "protect", [APPROXIMATE, sw.UpstreamBackup(every=12), sw.Exact()], ids=lambda p: type(p).__name__
)
def test_a_recovery(protect: sw.Protection, folder: Path) -> None:
    world = World(protect=protect, batches=PLAIN, windows=ONCE_AND_TWICE if isinstance(protect, sw.Exact) else None)
    film = world.film(folder / "film", first=3, last=3, start=durable(world.ideal.files[3]))
    functions = judge(world, until(film, "recover"), folder, lost=1)
    assert {"failed", "reset", "load", "mend", "adopt", "recovered"} <= functions
    assert ("replay" in functions) == isinstance(protect, sw.UpstreamBackup)


def test_a_recovery_from_damaged_backups(folder: Path) -> None:
    world = World(protect=APPROXIMATE, batches=PLAIN)
    film = until(film_of_damage(world, folder / "film"), "recover")
    assert {"save", "adopt"} <= judge(world, film, folder, lost=1, damaged=True)


def test_damage_is_told_whoever_goes_on(folder: Path) -> None:
    """What is missing from the state then is bounded by nothing, so whoever commits the batch has to say so."""
    world = World(protect=APPROXIMATE, batches=PLAIN)
    silent = []
    for point in crash_points(film_of_damage(world, folder / "film"), seed=1):
        if not point.torn:
            run = after_kill(world, point, {}, folder / "on", GoOn.ANEW)
            run.step()
            if not run.local.records()[0].damage:
                silent.append(str(point))
            shutil.rmtree(folder / "on")
    assert not silent, f"nobody was told of the damage after {len(silent)} kills:\n" + "\n".join(silent[:5])


def film_of_damage(world: World, folder: Path) -> list[Still]:
    """A recovery that finds a flipped bit in the newest backup."""
    start = durable(world.ideal.files[3])
    newest = max(name for name in start if "segment" in name)
    data = bytearray(start[newest].data)
    data[len(data) // 2] ^= 1
    start[newest] = File(start[newest].inode, bytes(data))
    return world.film(folder, first=3, last=3, start=start)


def until(stills: list[Still], function: str) -> list[Still]:
    """The film up to where a function was at work last."""
    last = max(i for i, still in enumerate(stills) if any(place.endswith(f" {function}") for place in still.after))
    return stills[: last + 1]


def durable(files: Files) -> Files:
    """What is left when memory is lost."""
    return {name: file for name, file in files.items() if name.startswith("backups")}
