"""Theta holds over losses and changes of the number of shards, whatever comes when: every loss costs all it may."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.backup.thresholds import FAILURES_MAX, failures_divided

Event = tuple[str, int]

EVENTS = st.lists(st.tuples(st.sampled_from(["lose", "change"]), st.integers(0, 11)), max_size=30)


def cost(failures: int, *, shards: int) -> Fraction:
    """What the next loss of a shard may cost, as a part of theta."""
    return Fraction(0) if failures > FAILURES_MAX else Fraction(1, 2 ** (failures + 1) * shards)


@given(events=EVENTS)
def test_shards_that_add_up(events: list[Event]) -> None:
    failures, lost = [0], Fraction(0)
    for what, number in events:
        if what == "lose":
            lost += cost(failures[number % len(failures)], shards=len(failures))
            failures[number % len(failures)] += 1
        else:
            begins = failures_divided(failures, worst_of=0, added_up=True)
            assert begins is not None
            failures = [begins] * (1 + number % 4)
        assert lost < 1


@pytest.mark.parametrize("added_up", [False, True])
@given(events=EVENTS)
def test_the_worst_number_of_any_shard(added_up: bool, events: list[Event]) -> None:
    failures, off = [0] * 4, [Fraction(0)] * 4  # of each shard: how far its worst number may be off
    for what, number in events:
        if what == "lose":
            off[number % len(off)] += cost(failures[number % len(off)], shards=1)
            failures[number % len(off)] += 1
        else:
            shards = [of for of in range(1, len(off) + 1) if len(off) % of == 0]
            now = shards[number % len(shards)] if added_up else 1 + number % 4
            begins = failures_divided(failures, worst_of=1, added_up=added_up)
            if begins is None:
                continue  # refused
            off = [sum(off[index::now], Fraction(0)) for index in range(now)] if added_up else [max(off)] * now
            failures = [begins] * now
        assert max(off) <= 1


def test_what_has_lost_all_it_may_loses_nothing_more() -> None:
    assert failures_divided([1, 1], worst_of=1, added_up=True) == FAILURES_MAX + 1
    assert failures_divided([1, 2], worst_of=1, added_up=True) is None
    assert failures_divided([2, 0], worst_of=2, added_up=True) is None
