"""Where batches of a topic end, and how their tuples are numbered, whatever comes to which partition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.graph.kafka.offsets import Held, Place, next_place, ranges, shared


def after(start: Place, held: dict[int, tuple[int, int]], most: int | None = None, **how: bool) -> Place:
    there = {partition: Held(begin=begin, end=end) for partition, (begin, end) in held.items()}
    return next_place(start, there, most=most, topic="t", **how)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 50), max_size=6), st.integers(0, 200))
def test_as_much_is_taken_as_may_be_and_nobody_gives_way_to_who_has_more(backlogs: dict[int, int], most: int) -> None:
    taken = shared(backlogs, most)
    assert sum(taken.values()) == min(most, sum(backlogs.values()))
    assert all(0 <= taken[each] <= backlogs[each] for each in backlogs)
    cut = [taken[each] for each in backlogs if taken[each] < backlogs[each]]
    assert not cut or max(taken.values()) <= min(cut) + 1


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 3), st.integers(0, 20)),  # what comes to each partition
        st.integers(1, 30),  # records in a batch at most
    ),
    min_size=1,
    max_size=12,
)


@given(STEPS)
def test_every_offset_is_read_once_and_numbers_ascend_strictly(steps: list[tuple[dict[int, int], int]]) -> None:
    held: dict[int, tuple[int, int]] = {}
    place, seen, numbers = Place(), [], []
    for come, most in steps:
        for partition, count in come.items():
            begin, end = held.get(partition, (10 * partition, 10 * partition))
            held[partition] = (begin, end + count)
        end = Place.of(after(place, held, most).as_json())
        assert end.count - place.count <= most
        for part in ranges(place, end) if end != place else []:
            seen += [(part.partition, offset) for offset in range(part.begin, part.end)]
            numbers += [part.first + offset - part.begin for offset in range(part.begin, part.end)]
        place = end
    end = after(place, held)
    seen += [(part.partition, o) for part in ranges(place, end) for o in range(part.begin, part.end)]
    assert sorted(seen) == [(partition, o) for partition in sorted(held) for o in range(*held[partition])]
    assert numbers == list(range(len(numbers)))


def test_a_place_says_where_new_partitions_begin_and_then_forgets_it() -> None:
    first = after(Place(), {0: (5, 8)})
    assert first == Place(count=3, ends={0: 8}, begins={0: 5})
    grown = after(first, {0: (5, 8), 1: (0, 2), 2: (7, 7)})
    assert grown == Place(count=5, ends={0: 8, 1: 2, 2: 7}, begins={1: 0, 2: 7})
    assert after(grown, {0: (5, 8), 1: (0, 2), 2: (7, 7)}) is grown


def test_who_begins_behind_the_latest_reads_partitions_that_come_later_whole() -> None:
    first = after(Place(), {0: (5, 8)}, from_end=True)
    assert first == Place(count=0, ends={0: 8}, begins={0: 8})
    grown = after(first, {0: (5, 9), 1: (0, 2)}, from_end=True)
    assert [(part.partition, part.begin, part.end) for part in ranges(first, grown)] == [(0, 8, 9), (1, 0, 2)]


def test_records_that_have_expired_are_refused_or_are_no_part_of_what_a_batch_may_read() -> None:
    start = Place(count=4, ends={0: 4})
    with pytest.raises(InputError, match=r"^kafka: 96 records of partition 0 of topic 't' have expired"):
        after(start, {0: (100, 200)}, 10)
    end = after(start, {0: (100, 200)}, 10, skips=True)
    assert end.ends == {0: 110} and end.count == 110
    assert after(start, {0: (100, 100)}, 10, skips=True) is start, "there is nothing to read yet"


@pytest.mark.parametrize("now", [{0: (0, 3)}, {1: (0, 9)}], ids=["shorter", "gone"])
def test_a_topic_that_was_made_anew_is_refused(now: dict[int, tuple[int, int]]) -> None:
    for skips in (False, True):
        with pytest.raises(InputError, match=r"was read up to offset 4, .*: the topic was made anew\. Begin anew"):
            after(Place(count=4, ends={0: 4}), now, skips=skips)
