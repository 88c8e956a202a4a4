"""Sums of 64 bits are right or refused: what does not fit changes nothing, and no divergence is fooled by it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.state import naive
from tests.state.shards import Opened, open_shard

from spillway.errors import InputError
from spillway.state import HashTable, KeySet, Matrix, Number, Sample, Tally, TallyTable, Vector, kernels
from spillway.state.kernels import CHUNK_CELLS

LEAST, MOST = -(2**63), 2**63 - 1
EXTREMES = st.one_of(
    st.sampled_from([LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2**62, MOST - 1, MOST]), st.integers(LEAST, MOST)
)


@given(live=st.lists(EXTREMES, min_size=3, max_size=3), added=st.lists(st.tuples(st.integers(0, 2), EXTREMES)))
@example(live=[0, 0, 0], added=[(1, 2**62), (0, 1), (1, 2**62)])
@example(live=[0, LEAST, 0], added=[(1, MOST), (1, -1), (1, LEAST)])
@settings(max_examples=300)
def test_all_is_added_or_nothing(live: list[int], added: list[tuple[int, int]]) -> None:
    cells = np.array([cell for cell, _ in added], np.int64)
    amounts = np.array([amount for _, amount in added], np.int64)
    found = np.array(live, np.int64)
    place = kernels.add_at(found, cells, amounts)
    expected_place, expected = naive.add_at(live, added)
    assert (place, found.tolist()) == (expected_place, expected)


@given(live=st.lists(st.floats(), min_size=2, max_size=2), added=st.lists(st.tuples(st.integers(0, 1), st.floats())))
@example(live=[1e308, -5e-324], added=[(0, 1e308), (1, -5e-324)])
def test_floating_point_numbers_are_never_refused(live: list[float], added: list[tuple[int, float]]) -> None:
    found, expected = np.array(live), list(live)
    place = kernels.add_at(
        found, np.array([c for c, _ in added], np.int64), np.array([a for _, a in added], np.float64)
    )
    for cell, amount in added:
        expected[cell] += amount
    assert place == -1
    assert np.array_equal(found, np.array(expected), equal_nan=True)


@pytest.mark.parametrize("metric", ["l1", "l2", "max"])
@given(data=st.data())
@settings(max_examples=60)
def test_no_difference_of_extremes_looks_small(metric: str, data: st.DataObject) -> None:
    chunk = st.lists(EXTREMES, min_size=CHUNK_CELLS, max_size=CHUNK_CELLS)
    live, saved = data.draw(chunk), data.draw(chunk)
    chunks = np.zeros((1, 2), np.int64)
    gaps = chunks.view(np.float64)
    code = {"l1": kernels.L1, "l2": kernels.L2, "max": kernels.MAX}[metric]
    kernels.settle(np.array(live), np.array(saved), chunks, gaps, np.zeros(1), np.zeros(1, np.int64), code)
    apart = [abs(a - b) for a, b in zip(live, saved, strict=True)]  # Python's integers have no end
    exact = {"l1": sum(apart), "l2": sum(gap * gap for gap in apart), "max": max(apart)}[metric]
    assert math.isclose(gaps[0, kernels.GAP], exact, rel_tol=1e-12)


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    opened = open_shard(
        tmp_path,
        number=Number(dtype="int64"),
        vector=Vector(40, metric="max", dtype="int64"),
        matrix=Matrix(3, 7, dtype="int64"),
        table=HashTable(metric="max"),
        words=HashTable(key="string"),
        sample=Sample(rate=1),
        tally=Tally(3),
        tallies=TallyTable(),
    )
    with opened.batch():
        opened["number"].write(MOST)
        opened["vector"].set(np.array([5, 6]), [MOST, LEAST])
        opened["matrix"].set(np.array([2]), np.array([3]), MOST - 1)
        opened["table"].set(np.array([1, 2]), [MOST, LEAST])
        opened["words"].set(pa.array(["a"]), 2**62)
        opened["tally"].set(np.array([0]), MOST)
        opened["tallies"].set(np.array([8]), MOST)
        opened["sample"]._table.set(np.array([4]), MOST)
    return opened


def look(opened: Opened) -> tuple[Any, ...]:
    """All that a refusal must leave alone, and which keys a batch has touched."""
    tables = [opened["table"], opened["words"], opened["tallies"], opened["sample"]]
    cells = [opened[name].read().tolist() for name in ("vector", "matrix", "tally")]
    content = [[part.tolist() for part in table.items()] for table in tables]
    updates = [set(table.updates()[0].to_pylist()) & {77, "new"} for table in tables]
    return opened["number"].read(), cells, content, updates, [len(table) for table in tables]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            lambda s: s["vector"].add(np.array([0, 5]), [3, 1]),
            r"Vector\(40,int64,max\) has 9223372036854775807 in cell 5, and 1 more came: the sum does not fit 64 bits",
        ),
        (lambda s: s["vector"].add(np.array([0, 6]), [3, -1]), "has -9223372036854775808 in cell 6, and -1 more came"),
        (
            lambda s: s["matrix"].add(np.array([2, 2]), np.array([3, 3]), [1, 1]),
            "has 9223372036854775806 in row 2, column 3, and 2 more came",
        ),
        (lambda s: s["matrix"].add_to_all(2), "has 9223372036854775806 in row 2, column 3, and 2 more came"),
        (
            lambda s: s["table"].add(np.array([77, 1]), 5),
            r"HashTable\(int64,int64,max\) has 9223372036854775807 for key 1, and 5 more came",
        ),
        (
            lambda s: s["words"].add(pa.array(["new", "a", "a", "a"]), [1, 2**62 - 1, 0, 1]),
            "has 4611686018427387904 for key 'a', and 4611686018427387904 more came",
        ),
        (lambda s: s["sample"].add(np.array([77, 4]), np.array([1, 2])), "for key 4, and 1 more came"),
        (lambda s: s["tally"].add(np.array([0]), 1), "in cell 0, and 1 more came"),
        (lambda s: s["tallies"].add(np.array([77, 8]), 1), "for key 8, and 1 more came"),
        (lambda s: s["number"].write(s["number"].read() + 1), "has 9223372036854775807, and 1 more came: the sum does"),
        (lambda s: s["number"].write(LEAST - 1), "has 9223372036854775807, and -18446744073709551616 more came"),
        (lambda s: s["number"].write(np.uint64(2**63)), "has 9223372036854775807, and 1 more came"),
        (lambda s: s["vector"].add(np.array([1]), 2**63), "holds int64; 9223372036854775808 came, which does not fit"),
        (lambda s: s["vector"].set(np.array([1]), 2**70), "holds int64; 1180591620717411303424 came"),
        (lambda s: s["vector"].set(np.array([1, 2]), [0, 2**70]), "holds int64; 1180591620717411303424 came"),
        (lambda s: s["vector"].add(np.array([1, 2]), np.array([1, 2**63], np.uint64)), "9223372036854775808 came"),
        (lambda s: s["table"].add(np.array([77]), pa.array([2**64 - 1], pa.uint64())), "18446744073709551615 came"),
        (lambda s: s["table"].add(np.array([2**63 + 5], np.uint64), 1), "A key must fit int64; 9223372036854775813"),
        (lambda s: s["table"].add(pa.array([7, 2**63], pa.uint64()), 1), "A key must fit int64; 9223372036854775808"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    use: Callable[[Opened], Any], said: str, opened: Opened
) -> None:
    with opened.batch():
        before = look(opened)
        with pytest.raises(InputError, match=said):
            use(opened)
        assert look(opened) == before
        opened["table"].add(np.array([78, 79]), 1)
        assert opened["table"].updates()[0].to_pylist()[-2:] == [78, 79]
    assert opened["table"].get(np.array([77, 78, 79])).tolist() == [0, 1, 1]


@pytest.mark.parametrize("numbers", [math.inf, math.nan, [math.nan], np.array([1e19]), np.array([1.0])])
def test_floating_point_numbers_are_refused_where_whole_ones_are_held(numbers: Any, opened: Opened) -> None:
    with opened.batch():
        before = look(opened)
        with pytest.raises(Exception, match=r"holds int64; numbers of float64 came, which do not always fit"):
            opened["vector"].add(np.array([0]), numbers)
        assert look(opened) == before


def test_unsigned_numbers_that_fit_are_taken(opened: Opened) -> None:
    with opened.batch():
        opened["vector"].add(np.array([0]), np.array([MOST], np.uint64))
        opened["table"].add(np.array([MOST], np.uint64), np.uint64(3))
    assert opened["vector"].read()[0] == MOST
    assert opened["table"].get(np.array([MOST])).tolist() == [3]


def test_keys_that_do_not_fit_are_in_no_set(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, keys=KeySet())
    with opened.batch(), pytest.raises(InputError, match="A key must fit int64"):
        opened["keys"].add(np.array([2**63], np.uint64))
    assert len(opened["keys"]) == 0
