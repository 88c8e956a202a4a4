"""Whose backups count: compared with a plain reading of the rule."""

from hypothesis import given
from hypothesis import strategies as st

from spillway.protocols.fencing import Fence, Mark, counting, fence_for

marks = st.builds(Mark, st.integers(0, 4), st.integers(0, 9))


def plainly(backups: set[Mark], fences: dict[int, Fence]) -> list[Mark]:
    """From the newest epoch back: all of its own, then what its fence names and what came before that."""
    epoch, most, found = max(fences, default=0), 10**9, list[Mark]()
    while True:
        found += [mark for mark in backups if mark.epoch == epoch and mark.batch <= most]
        if epoch not in fences:
            return sorted(found)
        after = fences[epoch].after
        if after is None:
            return sorted(found)
        epoch, most = after


@given(st.sets(marks, max_size=12), st.dictionaries(st.integers(1, 4), marks, max_size=3))
def test_what_counts_is_what_the_rule_says(backups: set[Mark], named: dict[int, Mark]) -> None:
    fences = {epoch: Fence(epoch, after if after.epoch < epoch else None) for epoch, after in named.items()}
    assert counting(backups, fences.values()) == plainly(backups, fences)


@given(st.sets(marks, max_size=8), st.sets(marks, max_size=8), st.integers(0, 9))
def test_behind_a_fence_nothing_that_is_written_under_an_older_epoch_counts(
    backups: set[Mark], written_later: set[Mark], batch: int
) -> None:
    fence = fence_for(5, backups, [], batch=batch)
    before = counting(backups, [fence])
    late = {mark for mark in written_later if fence.after is None or mark > fence.after}
    assert counting(backups | late, [fence]) == before
    assert all(mark.batch < batch for mark in before[-1:])
    own = Mark(5, batch)
    assert counting({*backups, *late, own}, [fence])[-1] == own
