"""Which tuples a fault affected, against a plain comparison of multisets."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.score import affected_seqs, select

rows = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from([1.0, 2.0, float("nan")]), st.sampled_from(["a", None])), max_size=20
)


def table(found: list[tuple[int, float, str | None]]) -> pa.Table:
    return pa.table(
        {
            "gain": pa.array([gain for _, gain, _ in found], pa.float64()),
            "seq": pa.array([seq for seq, _, _ in found], pa.int64()),
            "name": pa.array([name for _, _, name in found], pa.string()),
        }
    )


@given(golden=rows, faulty=rows)
def test_agrees_with_comparing_multisets(
    golden: list[tuple[int, float, str | None]], faulty: list[tuple[int, float, str | None]]
) -> None:
    def by_seq(found: list[tuple[int, float, str | None]]) -> dict[int, Counter[str]]:
        return {seq: Counter(repr(row) for row in found if row[0] == seq) for seq, _, _ in found}

    left, right = by_seq(golden), by_seq(faulty)
    plain = sorted(seq for seq in {*left, *right} if left.get(seq) != right.get(seq))
    assert affected_seqs(table(golden), table(faulty)).tolist() == plain


@given(golden=rows)
def test_a_golden_output_is_not_affected_whatever_its_order(golden: list[tuple[int, float, str | None]]) -> None:
    assert len(affected_seqs(table(golden), table(golden[::-1]))) == 0


@given(golden=rows, seqs=st.sets(st.integers(0, 10)))
def test_select_keeps_the_tuples_of_these_seqs(golden: list[tuple[int, float, str | None]], seqs: set[int]) -> None:
    found = select(table(golden), np.array(sorted(seqs), dtype=np.int64))
    assert found["seq"].to_pylist() == [seq for seq, _, _ in golden if seq in seqs]


def test_outputs_of_other_columns_are_refused() -> None:
    with pytest.raises(InputError, match="the golden one has seq, the faulty one seq, more"):
        affected_seqs(pa.table({"seq": [1]}), pa.table({"seq": [1], "more": [2]}))
