"""Thresholds: whatever fails, and however often, the losses add up to no more than the limit."""

from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.backup.keeper import Promise
from spillway.backup.thresholds import FAILURES_MAX, Sharing, threshold
from spillway.graph.protections import Approximate, Checkpoint, Exact, Nothing
from spillway.operators.operator import Operator
from spillway.state import HashTable, Tally
from spillway.state.primitives import Metric

LIMITS = st.floats(min_value=1e-6, max_value=1e15)
ROUNDING = 1 + Fraction(1, 2**52)

Threshold = Callable[..., float]


def losses(formula: Threshold, limit: float, failing: list[int], *, shards: int, outputs_max: float) -> Fraction:
    """What reaches the sink if every failure, in the order of shards given, costs as much as it may."""
    failures: Counter[int] = Counter()
    lost = Fraction(0)
    for shard in failing:
        lost += Fraction(
            formula(limit, failures=failures[shard], shards=shards, downstream_outputs_max=outputs_max)
        ) * Fraction(outputs_max)
        failures[shard] += 1
    return lost


@given(limit=LIMITS, shards=st.integers(1, 64), outputs_max=st.floats(1, 1e6), data=st.data())
def test_losses_of_any_sequence_of_failures_stay_within_the_limit(
    limit: float, shards: int, outputs_max: float, data: st.DataObject
) -> None:
    failing = data.draw(st.lists(st.integers(0, shards - 1), max_size=60))
    lost = losses(threshold, limit, failing, shards=shards, outputs_max=outputs_max)
    assert lost <= Fraction(limit) * ROUNDING


def sum_of_maxima(limit: float, failing: list[tuple[int, int]], *, shards: int, adding_up: int) -> Fraction:
    """The divergence under ``max``, if each failure of a shard (first) costs all it may in one primitive (second)."""
    sharing = Sharing(shards=shards, adding_up=adding_up)
    failures: Counter[int] = Counter()
    lost: dict[int, Counter[int]] = defaultdict(Counter)
    for shard, primitive in failing:
        lost[primitive][shard] += Fraction(sharing.divergence(limit, failures=failures[shard]))
        failures[shard] += 1
    return sum((max(by_shard.values()) for by_shard in lost.values()), Fraction(0))


@given(limit=LIMITS, shards=st.integers(1, 16), primitives=st.integers(1, 4), data=st.data())
def test_maxima_stay_within_the_limit_if_only_the_worst_shards_share_it(
    limit: float, shards: int, primitives: int, data: st.DataObject
) -> None:
    places = st.tuples(st.integers(0, shards - 1), st.integers(0, primitives - 1))
    failing = data.draw(st.lists(places, max_size=60))
    lost = sum_of_maxima(limit, failing, shards=shards, adding_up=min(primitives, shards))
    assert lost <= Fraction(limit) * ROUNDING


@pytest.mark.parametrize(("shards", "primitives"), [(2, 2), (8, 2), (8, 3), (2, 5)])
def test_several_maxima_need_to_be_shared_among_as_many_shards(shards: int, primitives: int) -> None:
    failing = [(place % shards, place) for place in range(primitives) for _ in range(20)]
    adding_up = min(shards, primitives)
    assert sum_of_maxima(64.0, failing, shards=shards, adding_up=adding_up - 1) > 64
    assert 0.99 * 64 < sum_of_maxima(64.0, failing, shards=shards, adding_up=adding_up) <= 64


@pytest.mark.parametrize(
    ("metrics", "key", "own", "expected"),
    [
        (("max",), "key", False, 1),
        (("max", "max"), "key", False, 2),
        (("max",) * 9, "key", False, 8),
        (("max", "l1"), "key", False, 8),
        (("l1",), "key", False, 8),
        (("l2",), "key", False, 8),
        (("keys",), "key", False, 8),
        ((), "key", False, 8),
        (("max",), (), False, 8),  # its shards share out tuples, and its numbers are the sums of theirs
        (("max",), "key", True, 8),  # what its own divergence means nobody knows
    ],
)
def test_how_many_shards_add_up_follows_from_the_declaration(
    metrics: tuple[Metric, ...], key: str, own: bool, expected: int
) -> None:
    class Own(Operator):
        def divergence(self) -> float:
            return 1.0

    operator = (Own if own else Operator)("op", key=key)
    for number, metric in enumerate(metrics):
        setattr(operator, f"table{number}", HashTable(metric=metric))
    operator.steering = Tally(4)  # type: ignore[attr-defined]  # of which no bound speaks
    assert operator.shards_adding_up(8) == expected


def test_items_are_shared_among_all_shards_whatever_the_metric() -> None:
    promise = Promise(operator="flows", shard=0, shards=8, adding_up=1, protection=Approximate(theta=64.0, items=64.0))
    assert promise.threshold(0) == 32.0
    assert promise.items_max(1) == 32.0, "all that a receiver lost may have been for this shard"
    assert Sharing(shards=8, adding_up=1).items(64.0, failures=0) == 4.0


@given(limit=LIMITS, shards=st.integers(1, 64))
def test_the_limit_is_used_up_to_the_last_half(limit: float, shards: int) -> None:
    failing = [shard for shard in range(shards) for _ in range(20)]
    lost = losses(threshold, limit, failing, shards=shards, outputs_max=1.0)
    assert lost * ROUNDING >= Fraction(limit) * (1 - Fraction(1, 2**20))


@pytest.mark.parametrize("exponent_off", [-1, +1])
def test_another_exponent_breaks_one_of_the_two(exponent_off: int) -> None:
    def wrong(limit: float, *, failures: int, shards: int, downstream_outputs_max: float) -> float:
        right = threshold(limit, failures=failures, shards=shards, downstream_outputs_max=downstream_outputs_max)
        return float(right / 2**exponent_off)

    lost = losses(wrong, 100.0, [0] * 20 + [1] * 20, shards=2, outputs_max=1.0)
    assert lost > 100 if exponent_off < 0 else lost < 51


@given(limit=LIMITS, failures=st.integers(0, 200), shards=st.integers(1, 1000), outputs_max=st.floats(1, 1e6))
def test_more_of_anything_allows_less(limit: float, failures: int, shards: int, outputs_max: float) -> None:
    here = threshold(limit, failures=failures, shards=shards, downstream_outputs_max=outputs_max)
    assert here > 0
    assert threshold(limit, failures=failures + 1, shards=shards, downstream_outputs_max=outputs_max) == here / 2
    assert threshold(limit, failures=failures, shards=shards + 1, downstream_outputs_max=outputs_max) < here
    assert threshold(limit, failures=failures, shards=shards, downstream_outputs_max=outputs_max * 2) < here
    assert threshold(limit * 2, failures=failures, shards=shards, downstream_outputs_max=outputs_max) > here


@pytest.mark.parametrize(
    ("failures", "shards", "outputs_max", "expected"),
    [(0, 1, 1.0, 32.0), (1, 1, 1.0, 16.0), (0, 4, 1.0, 8.0), (2, 4, 1.0, 2.0), (0, 2, 8.0, 2.0), (3, 2, 2.0, 1.0)],
)
def test_values(failures: int, shards: int, outputs_max: float, expected: float) -> None:
    assert threshold(64.0, failures=failures, shards=shards, downstream_outputs_max=outputs_max) == expected


def test_after_very_many_failures_nothing_is_allowed() -> None:
    assert threshold(1.0, failures=FAILURES_MAX, shards=1) > 0
    assert threshold(1.0, failures=FAILURES_MAX + 1, shards=1) == 0
    assert threshold(1e300, failures=10**9, shards=1) == 0


def test_a_limit_of_zero_allows_nothing() -> None:
    assert threshold(0.0, failures=0, shards=1) == 0


@pytest.mark.parametrize(
    ("protection", "failures_in_backup", "failures", "expected"),
    [
        (Approximate(theta=64.0), 0, 1, 16.0),
        (Approximate(theta=64.0), 0, 2, 24.0),  # the backup knows of neither failure
        (Approximate(theta=64.0), 1, 2, 8.0),
        (Approximate(theta=64.0), 3, 3, 0.0),
        (Exact(), 0, 5, 0.0),
        (Checkpoint(every=10), 0, 1, float("inf")),
        (Nothing(), 0, 1, float("inf")),
    ],
)
def test_what_a_recovery_can_have_cost(
    protection: Approximate, failures_in_backup: int, failures: int, expected: float
) -> None:
    promise = Promise(operator="flows", shard=0, shards=2, protection=protection)
    assert promise.divergence_max(failures_in_backup=failures_in_backup, failures=failures) == expected
