"""What each protection does, decision by decision, without a shard; and that every one declared can be acted on."""

import math
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from spillway.backup.policies import Committing, Policy, policy_of, protections
from spillway.backup.policies.upstream_backup import ITEM_BATCHES_MAX
from spillway.backup.thresholds import Sharing
from spillway.errors import GraphError
from spillway.graph import protections as declared
from spillway.graph.protections import (
    Approximate,
    Checkpoint,
    Coordinated,
    Exact,
    JobProtection,
    Nothing,
    Protection,
    Uncoordinated,
    UpstreamBackup,
)

QUIET = Committing(
    tuples=0,
    changed=False,
    divergence=0.0,
    threshold=0.0,
    tuples_since_backup=0,
    batches_since_backup=1,
    since_backup_s=0.0,
    checkpoint=False,
)
BUSY = Committing(
    tuples=10**9,
    changed=True,
    divergence=math.inf,
    threshold=0.0,
    tuples_since_backup=10**9,
    batches_since_backup=10**9,
    since_backup_s=1e9,
    checkpoint=True,
)
PROTECTIONS = [
    Nothing(),
    Checkpoint(10),
    Approximate(64.0, items=16),
    Exact(),
    Exact(items=True),
    UpstreamBackup(10),
    Coordinated(batches=3),
    Uncoordinated(batches=3),
]
SHARED = Sharing(shards=2, adding_up=2, downstream_outputs_max=4.0)


def named(protection: Protection) -> str:
    return protection.describe()


def test_every_protection_there_is_has_a_policy() -> None:
    there_are = {
        kind
        for kind in vars(declared).values()
        if isinstance(kind, type) and issubclass(kind, Protection) and kind not in (Protection, JobProtection)
    }
    assert there_are <= set(protections())
    assert {type(protection) for protection in PROTECTIONS} == there_are


@pytest.mark.parametrize("protection", [Protection(), "exact"])
def test_what_is_not_declared_has_no_policy(protection: Protection) -> None:
    with pytest.raises(GraphError, match=f"nothing acts on the protection {type(protection).__name__}, so nothing"):
        policy_of(protection)


@pytest.mark.parametrize(
    ("protection", "batch", "due"),
    [
        (Nothing(), BUSY, False),
        (Exact(), QUIET, False),
        (Exact(), replace(QUIET, tuples=1), True),
        (Exact(), replace(QUIET, changed=True), True),
        (Approximate(1.0), replace(BUSY, divergence=5.0, threshold=5.0), False),
        (Approximate(1.0), replace(QUIET, divergence=5.1, threshold=5.0), True),
        (Approximate(1.0), replace(QUIET, divergence=math.nan, threshold=5.0), True),
        (UpstreamBackup(10), replace(QUIET, tuples_since_backup=9), False),
        (UpstreamBackup(10), replace(QUIET, tuples_since_backup=10), True),
        (UpstreamBackup(10), replace(QUIET, batches_since_backup=ITEM_BATCHES_MAX - 1), False),
        (UpstreamBackup(10), replace(QUIET, batches_since_backup=ITEM_BATCHES_MAX), True),
        (Checkpoint(10), replace(BUSY, tuples_since_backup=9), False),
        (Checkpoint(10), replace(QUIET, tuples_since_backup=10), True),
        (Checkpoint(timedelta(seconds=10)), replace(BUSY, since_backup_s=9.9), False),
        (Checkpoint(timedelta(seconds=10)), replace(QUIET, since_backup_s=10.0), True),
        (Coordinated(batches=3), replace(BUSY, checkpoint=False), False),
        (Coordinated(batches=3), replace(QUIET, checkpoint=True), True),
        (Uncoordinated(batches=3), replace(BUSY, checkpoint=False), False),
        (Uncoordinated(batches=3), replace(QUIET, checkpoint=True), True),
    ],
)
def test_when_a_backup_is_due(protection: Protection, batch: Committing, due: bool) -> None:
    assert policy_of(protection).is_due(batch) is due


@pytest.mark.parametrize("protection", PROTECTIONS, ids=named)
def test_a_threshold_is_allowed_only_to_what_allows_a_divergence(protection: Protection) -> None:
    thresholds = [policy_of(protection).threshold(SHARED, failures=failures) for failures in range(4)]
    assert thresholds == ([4.0, 2.0, 1.0, 0.5] if isinstance(protection, Approximate) else [0.0] * 4)


@pytest.mark.parametrize(
    ("protection", "costs"),
    [
        (Nothing(), math.inf),
        (Checkpoint(10), math.inf),
        (Approximate(64.0), 2.0 + 1.0),
        (Exact(), 0.0),
        (UpstreamBackup(10), 0.0),
        (Coordinated(batches=3), 0.0),
        (Uncoordinated(batches=3), 0.0),
    ],
    ids=str,
)
def test_what_failures_that_no_backup_knows_of_cost(protection: Protection, costs: float) -> None:
    assert policy_of(protection).divergence_max(SHARED, failures_in_backup=1, failures=3) == costs


def test_items_are_lost_only_where_some_may_be() -> None:
    items = {protection: policy_of(protection).items_max(SHARED, failures=2) for protection in PROTECTIONS}
    # A quarter after the first of two failures, over what becomes of an item; for all shards, since one receiver serves
    # them.
    assert items.pop(Approximate(64.0, items=16)) == 16 / 4 / 4
    assert set(items.values()) == {0.0}


@pytest.mark.parametrize("protection", PROTECTIONS, ids=named)
def test_items_stay_as_long_as_a_recovery_may_ask_for_them(protection: Protection) -> None:
    policy = policy_of(protection)
    assert policy.replays_items == isinstance(protection, UpstreamBackup)
    assert policy.trim_to(batch=7, backup_batch=3) == (3 if policy.replays_items else 6)


def test_only_what_may_diverge_may_be_saved_in_part() -> None:
    in_part = [protection for protection in PROTECTIONS if policy_of(protection).leaves_out_light_chunks]
    assert in_part == [Approximate(64.0, items=16)]


def test_a_policy_cannot_replay_items_that_its_declaration_does_not_keep() -> None:
    @dataclass(frozen=True, slots=True)
    class Careless(Protection):
        pass

    class CarelessPolicy(Policy[Careless]):
        replays_items = True

        def is_due(self, batch: Committing) -> bool:
            return False

    with pytest.raises(AssertionError, match="Careless"):
        CarelessPolicy(Careless())
