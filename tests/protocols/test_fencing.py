"""Whose backups count."""

from hypothesis import given
from hypothesis import strategies as st

from spillway.protocols.fencing import Mark, counting, is_fenced_off

marks = st.sets(st.builds(Mark, st.integers(0, 4), st.integers(0, 9)), max_size=12)


@given(marks, marks, st.integers(0, 9))
def test_once_taken_over_nothing_done_under_an_older_epoch_makes_a_difference(
    before: set[Mark], later: set[Mark], batch: int
) -> None:
    own = Mark(5, batch)
    for files in ({*before, own}, {*before, *later, own}, {own}):
        assert counting(files) == [own]
        assert is_fenced_off(4, files) and not is_fenced_off(5, files)


def test_where_there_is_none_none_counts() -> None:
    assert counting([]) == [] and not is_fenced_off(0, [])
