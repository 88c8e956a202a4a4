"""Quality scores and Coq: hand-computed cases, scipy, and what must hold for all numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spillway.errors import InputError
from spillway.score import outage_impact, quality_score

positive = st.floats(0.01, 1e6)
OUTAGES = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]


@given(scores=st.lists(positive, min_size=1, max_size=8))
def test_golden_scores_have_quality_one(scores: list[float]) -> None:
    assert quality_score(scores, scores) == 1


@given(faulty=st.lists(positive, min_size=1), golden=st.lists(positive, min_size=1), unit=st.floats(0.1, 100))
def test_the_unit_of_the_score_does_not_matter(faulty: list[float], golden: list[float], unit: float) -> None:
    scaled = quality_score([unit * score for score in faulty], [unit * score for score in golden])
    assert math.isclose(scaled, quality_score(faulty, golden), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("faulty", "golden", "message"),
    [
        ([1.0], [0.0, 0.0], "The golden score of the section is zero"),
        ([1.0], [1.0, -1.0], "The golden score of the section is zero"),
        ([], [1.0], "faulty scores of the section have to be finite numbers, at least one; got \\[\\]"),
        ([1.0], [], "golden scores of the section"),
        ([math.nan], [1.0], "faulty scores of the section have to be finite"),
    ],
)
def test_what_has_no_quality(faulty: list[float], golden: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quality_score(faulty, golden, of="the section")


@pytest.mark.parametrize(
    ("rows", "coq"),
    [
        ([[6, 5, 4, 3, 2, 1]], -1.0),
        ([[1, 2, 3, 4, 5, 6]], 1.0),
        ([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]], 0.0),
        ([[1, 1, 1, 1, 1, 1]], 0.0),  # no effect at any outage
        # Two neighbours out of order: 1 - 6·2/(6·35) = 0.942857; with a constant offset the mean is half.
        ([[2, 1, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1]], 0.9428571428571428 / 2),
    ],
)
def test_coq_by_hand(rows: list[list[float]], coq: float) -> None:
    assert outage_impact(OUTAGES, rows).coq == pytest.approx(coq)


# Three digits and many ties.
matrices = st.lists(st.lists(st.integers(0, 9), min_size=6, max_size=6), min_size=1, max_size=5)


@given(rows=matrices)
def test_coq_agrees_with_ranks_correlated_by_pearson(rows: list[list[int]]) -> None:
    found = outage_impact(OUTAGES, rows)
    ranks = stats.rankdata(OUTAGES)
    for value, row in zip(found.by_offset, rows, strict=True):
        if len(set(row)) > 1:
            assert value == pytest.approx(np.corrcoef(ranks, stats.rankdata(row))[0, 1])
    assert found.coq == pytest.approx(np.mean(found.by_offset))


@given(rows=matrices, factor=st.floats(0.1, 10))
def test_coq_lies_within_one_and_follows_ranks_alone(rows: list[list[int]], factor: float) -> None:
    found = outage_impact(OUTAGES, rows)
    assert -1 <= found.coq <= 1
    stretched = [[factor * math.exp(value) for value in row] for row in rows]
    assert outage_impact([outage**2 for outage in OUTAGES], stretched).coq == pytest.approx(found.coq)
    assert outage_impact(OUTAGES, [[-value for value in row] for row in rows]).coq == pytest.approx(-found.coq)


@pytest.mark.parametrize(
    ("outages", "rows", "message"),
    [
        ([1.0], [[1.0]], "two or more outages"),
        ([1.0, 2.0], [[1.0, 2.0, 3.0]], "got 2 outages and scores of shape \\(1, 3\\)"),
        ([1.0, 1.0], [[1.0, 2.0]], "outages that differ"),
        ([1.0, 2.0], [[1.0, math.nan]], "scores that are finite"),
    ],
)
def test_what_has_no_coq(outages: list[float], rows: list[list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        outage_impact(outages, rows)
