"""Random walks through what may happen to a group of replicas (see ``failover_world``)."""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from spillway.soak.failover_world import BrokenError, FailoverWorld
from spillway.soak.summing import Summed


@dataclass(slots=True, kw_only=True)
class Walks(Summed):
    """What came of some walks."""

    schedules: int = 0
    crashes: int = 0
    failovers: int = 0
    let_go: int = 0
    lost: int = 0  # batches, by groups that run freely


def walk_some(seeds: Iterable[int]) -> Walks:
    """Walk these, the broken ones too."""
    totals = Walks()
    for seed in seeds:
        try:
            world = walk(seed)
        except BrokenError as error:
            totals.add(Walks(schedules=1, broken={seed: str(error)}))
        else:
            totals.add(
                Walks(
                    schedules=1,
                    crashes=world.crashes,
                    failovers=world.failovers,
                    let_go=world.let_go,
                    lost=world.lost,
                )
            )
    return totals


def walk(seed: int) -> FailoverWorld:
    """A random walk, to its end; raises ``BrokenError``, with its seed, if something must not have happened."""
    random = Random(seed)
    world = FailoverWorld.of(random.choice([2, 2, 3]), by_position=random.random() < 0.7)
    crashes_max = random.randrange(6)
    try:
        for _ in range(random.randrange(20, 120)):
            steps = list(world.steps(crashes_max=crashes_max))
            weights = [0.15 if step.startswith(("die", "look late")) else 1.0 for step, _ in steps]
            world.take(*random.choices(steps, weights)[0])
        world.settle()
    except AssertionError as error:
        raise BrokenError(f"Walk {seed}: {error}") from error
    return world
