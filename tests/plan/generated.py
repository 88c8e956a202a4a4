"""Problems made from random graphs: forks, joins, costs and sensitivities drawn from a seed."""

from dataclasses import dataclass

import numpy as np

from spillway.plan.problem import Choices, Option, Problem, Together, Wishes
from spillway.seeds import generator

SAMPLES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    problem: Problem
    wishes: Wishes


def generated(seed: int, *, operators: int, options: int, hosts: int = 0, everywhere: int = 0) -> Generated:
    """A graph of so many operators that read one or two before them; one sink in two wants everything."""
    random = generator(seed, "plans")
    reads = [
        sorted({int(random.integers(at)) for _ in range(1 + int(random.random() < 0.4))}) if at else []
        for at in range(operators)
    ]
    watched = {operators - 1}
    for at in range(operators - 1, 0, -1):  # all that the last one can be reached from
        if at in watched:
            watched |= set(reads[at])
    made = []
    for at in range(operators):
        # How much of the answer goes through it: a fork divides that, a join adds it up.
        share = float(random.uniform(0.2, 1.0)) / (1 + sum(at in each for each in reads))
        moments = random.uniform(0.2, 1.0, SAMPLES)
        found = []
        for number in range(options):
            worth = 0.0 if number == options - 1 else float(random.uniform(0.0, 0.3))
            found.append(
                Option(
                    name=f"option{number}",
                    cost=0.0 if number == 0 else round(float(random.uniform(0.1, 9.0)), 2),
                    impairments=tuple(float(each) for each in share * worth * moments),
                    written_bytes_per_s=0.0 if number == 0 else float(random.integers(1, 9)),
                    back_s=float(random.choice([1.0, 16.0])),
                    lossless=worth == 0.0,
                )
            )
        found += [_everywhere(random, name, share * moments) for name in ("twice", "thrice")[:everywhere]]
        made.append(
            Choices(
                operator=f"o{at}",
                options=tuple(found),
                rate=float(random.uniform(0.5, 2.0)),
                watched=at in watched,
            )
        )
    joint = tuple(
        Together(
            name=f"host{number}",
            operators=tuple(f"o{at}" for at in sorted(random.choice(operators, size=3, replace=False).tolist())),
            rate=float(random.uniform(0.5, 2.0)),
        )
        for number in range(hosts)
    )
    wishes = Wishes(
        quality=float(random.uniform(0.9, 1.0)),
        percentile=float(random.choice([0.8, 0.9, 0.95, 1.0])),
        bytes_per_hour=float(random.uniform(2.0, 8.0)) * operators * 3600 if random.random() < 0.5 else None,
        lossless="sink" if random.random() < 0.15 else None,
        back_within_s=None if random.random() < 0.8 else 16.0,
    )
    return Generated(problem=Problem(operators=tuple(made), together=joint), wishes=wishes)


def _everywhere(random: np.random.Generator, name: str, moments: np.ndarray) -> Option:
    """An option that all operators have or none: cheap, and with some luck one that loses nothing."""
    worth = 0.0 if random.random() < 0.7 else float(random.uniform(0.0, 0.1))
    return Option(
        name=name,
        cost=round(float(random.uniform(0.1, 3.0)), 2),
        impairments=tuple(float(each) for each in worth * moments),
        written_bytes_per_s=float(random.integers(1, 5)),
        back_s=16.0,
        lossless=worth == 0.0,
        everywhere=name,
    )


def weights_add_up(problem: Problem) -> bool:
    _, weights = problem.left((0,) * len(problem.operators))
    return bool(np.isclose(weights.sum(), 1.0))
