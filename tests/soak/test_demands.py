"""Every protection that can be run can be judged, is chosen, and is missed loudly if it is not."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from spillway.backup.policies import protections
from spillway.errors import GraphError
from spillway.graph.protections import (
    Approximate,
    Checkpoint,
    Exact,
    JobProtection,
    Nothing,
    Protection,
    UpstreamBackup,
)
from spillway.soak.choosing import choose
from spillway.soak.demands import Demands, demands_on


@dataclass(frozen=True, slots=True)
class Unjudged(Protection):
    """Nobody said what to demand of it."""


def test_one_without_demands_is_refused() -> None:
    with pytest.raises(GraphError, match=r"no demands on the protection Unjudged.*Register them with demands_on"):
        demands_on(Unjudged())


def test_demands() -> None:
    assert demands_on(Nothing()) == Demands(all_batches=False)
    assert demands_on(Checkpoint(7)) == Demands(all_batches=False, lost_tuples_below=7)
    assert demands_on(Approximate(0.0)) == Demands(theta=0.0) and not demands_on(Approximate(0.0)).nothing_lost
    assert demands_on(Exact(items=True)) == demands_on(UpstreamBackup(7)) == Demands()
    assert Demands().nothing_lost and not Demands(all_batches=False).nothing_lost


def test_losses_add_up_to_theta_unless_they_decay() -> None:
    demands = Demands(theta=8.0)
    most = partial(demands.off_max, shards=2, maxima=0)
    assert [most(losses=losses, decaying=False) for losses in range(4)] == [0.0, 2.0, 3.0, 3.5]
    assert [most(losses=losses, decaying=True) for losses in range(3)] == [0.0, 4.0, 8.0]


@pytest.mark.parametrize(("maxima", "shards", "expected"), [(1, 4, 4.0), (2, 4, 2.0), (3, 2, 2.0), (0, 4, 1.0)])
def test_of_maxima_only_the_worst_shards_add_up(maxima: int, shards: int, expected: float) -> None:
    assert Demands(theta=8.0).off_max(losses=1, shards=shards, maxima=maxima, decaying=False) == expected


def test_every_protection_is_chosen() -> None:
    plans = [choose(np.random.default_rng(seed)) for seed in range(60)]
    chosen = {type(block.protection) for plan in plans for block in plan.blocks}
    # Those of a whole job are put to the test in tests/local/test_rewinding.py: the judge knows no run that goes back.
    alone = {kind for kind in protections() if not issubclass(kind, JobProtection)}
    ours = {kind for kind in alone if kind.__module__ == Protection.__module__}
    assert chosen == ours
