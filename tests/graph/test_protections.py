"""Protections as values: what they take, what they refuse, what they say."""

import math
from collections.abc import Callable
from datetime import timedelta

import pytest

from spillway.errors import GraphError
from spillway.graph import Approximate, Checkpoint, Exact, Nothing, Protection, UpstreamBackup
from spillway.graph.protections import Allowed

THETA = "Approximate: theta is the largest divergence allowed, a number of zero or more; got "


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Approximate(-1.0), THETA + "-1.0."),
        (lambda: Approximate(-1), THETA + "-1."),
        (lambda: Approximate(math.nan), THETA + "nan."),
        (lambda: Approximate(math.inf), THETA + "inf."),
        (lambda: Approximate(True), "Approximate: theta must be a number; got True."),
        (lambda: Approximate("1e5"), "Approximate: theta must be a number; got '1e5'."),
        (lambda: Approximate(None), "Approximate: theta must be a number; got None."),
        (lambda: Checkpoint(0), "Checkpoint: every must be above zero; got 0."),
        (lambda: Checkpoint(-5), "Checkpoint: every must be above zero; got -5."),
        (
            lambda: Checkpoint(timedelta(0)),
            "Checkpoint: every must be above zero; got datetime.timedelta(0).",
        ),
        (
            lambda: Checkpoint(timedelta(seconds=-1)),
            "Checkpoint: every must be above zero; got datetime.timedelta(days=-1, seconds=86399).",
        ),
        (lambda: Checkpoint(True), "Checkpoint: every must be a number of tuples or a timedelta; got True."),
        (lambda: Checkpoint(2.5), "Checkpoint: every must be a number of tuples or a timedelta; got 2.5."),
        (lambda: Checkpoint("10s"), "Checkpoint: every must be a number of tuples or a timedelta; got '10s'."),
    ],
)
def test_a_protection_is_checked(make: Callable[[], Protection], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("protection", "says", "keeps"),
    [
        (Nothing(), "Nothing", False),
        (Exact(), "Exact", True),
        (Approximate(0), "Approximate(theta 0)", True),
        (Approximate(1e5), "Approximate(theta 100,000)", True),
        (Approximate(0.25), "Approximate(theta 0.25)", True),
        (Checkpoint(10_000), "Checkpoint(every 10,000 tuples)", True),
        (Checkpoint(timedelta(milliseconds=1500)), "Checkpoint(every 1.5 s)", True),
    ],
)
def test_a_protection_says_what_it_is(protection: Protection, says: str, keeps: bool) -> None:
    assert protection.describe() == says
    assert protection.keeps_backups == keeps


@pytest.mark.parametrize(
    ("protection", "loses_nothing", "loss_max", "allows"),
    [
        (Nothing(), False, math.inf, Allowed()),
        (Checkpoint(1), False, math.inf, Allowed()),
        (Approximate(5.0, items=3, unacked=2), False, 5.0, Allowed(theta=5.0, items=3, unacked=2)),
        (Approximate(0.0), False, 0.0, Allowed()),  # what no metric measures may still be lost
        (Exact(), True, 0.0, Allowed()),
        (Exact(items=True), True, 0.0, Allowed()),
        (UpstreamBackup(1), True, 0.0, Allowed()),
    ],
)
def test_a_protection_says_what_may_be_lost(
    protection: Protection, loses_nothing: bool, loss_max: float, allows: Allowed
) -> None:
    assert (protection.loses_nothing, protection.loss_max, protection.allows) == (loses_nothing, loss_max, allows)


def test_an_interval_is_of_tuples_or_of_time() -> None:
    assert (Checkpoint(7).every_tuples, Checkpoint(7).every_s) == (7, 0.0)
    of_time = Checkpoint(timedelta(minutes=1))
    assert (of_time.every_tuples, of_time.every_s) == (0, 60.0)


def test_protections_are_values() -> None:
    assert Approximate(1e5) == Approximate(100_000)
    assert len({Nothing(), Nothing(), Exact(), Checkpoint(1), Checkpoint(1)}) == 3
    with pytest.raises(AttributeError):
        Approximate(1.0).theta = 2.0  # type: ignore[misc]
