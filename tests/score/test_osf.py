"""Output scores: the shipped ones, users' own, and what happens when one misbehaves."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.errors import InputError
from spillway.score import Count, Mean, OutputScore, Sum, local_scores, score
from spillway.score.osf import name

GAINS = pa.table({"seq": [0, 1, 7, 12], "gain": [1.0, 2.0, 4.0, -3.0]})


def spread(output: pa.Table) -> float:
    """A user's own score."""
    values = output["gain"].to_numpy()
    return float(values.max() - values.min()) if len(values) else 0.0


@pytest.mark.parametrize(
    ("osf", "expected"), [(Sum("gain"), 4.0), (Mean("gain"), 1.0), (Count(), 4.0), (spread, 7.0), (Sum("seq"), 20.0)]
)
def test_scores_of_a_table(osf: OutputScore, expected: float) -> None:
    assert score(osf, GAINS) == expected


@pytest.mark.parametrize("osf", [Sum("gain"), Mean("gain"), Count(), spread])
def test_no_tuples_score_nothing(osf: OutputScore) -> None:
    assert score(osf, GAINS.slice(0, 0)) == 0


def test_decimals_are_numbers() -> None:
    assert score(Sum("price"), pa.table({"price": [Decimal("1.5"), Decimal("2.25")]})) == 3.75


@pytest.mark.parametrize(
    ("osf", "output", "message"),
    [
        (Sum("loss"), GAINS, "no column 'loss' to score; it has seq, gain"),
        (Mean("name"), pa.table({"name": ["a"]}), "is string; only numbers can be scored"),
        (Sum("gain"), pa.table({"gain": [1.0, None]}), "holds 1 nulls"),
        (Sum("gain"), pa.table({"gain": [1.0, float("nan")]}), r"sum\(gain\) gave nan for the output \(2 tuples\)"),
        (lambda output: float("inf"), GAINS, "<lambda> gave inf for the output"),
        (lambda output: 1 / 0, GAINS, r"<lambda> failed on the output \(4 tuples\): ZeroDivisionError"),
        (lambda output: "much", GAINS, "failed on the output .*ValueError"),
        (lambda output: None, GAINS, "failed on the output .*TypeError"),
    ],
)
def test_a_score_that_misbehaves_is_named(osf: OutputScore, output: pa.Table, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score(osf, output)


SCHEMA = pa.schema([("seq", pa.int64()), ("gain", pa.float64())])
tables = st.lists(st.fixed_dictionaries({"seq": st.integers(0, 99), "gain": st.floats(-1e6, 1e6)}), max_size=60).map(
    lambda rows: pa.Table.from_pylist(rows, schema=SCHEMA)
)


@given(output=tables, section_tuples=st.integers(1, 40), first=st.integers(0, 5), count=st.integers(1, 12))
def test_local_scores_are_the_scores_of_sections(output: pa.Table, section_tuples: int, first: int, count: int) -> None:
    seqs = output["seq"].to_numpy()
    for osf in (Sum("gain"), Mean("gain"), Count(), spread):
        found = local_scores(osf, output, section_tuples=section_tuples, first=first, count=count)
        plain = [
            osf(output.filter(pa.array(seqs // section_tuples == section))) for section in range(first, first + count)
        ]
        np.testing.assert_allclose(found, plain, rtol=1e-9, atol=1e-6)


def test_a_section_that_cannot_be_scored_is_named() -> None:
    def firm(output: pa.Table) -> float:
        return float(output["gain"][0].as_py())

    with pytest.raises(InputError, match=r"firm failed on section 3 \(0 tuples\): IndexError"):
        local_scores(firm, GAINS, section_tuples=5, first=0, count=4)
    bad = pa.table({"seq": [0, 6], "gain": [1.0, float("inf")]})
    with pytest.raises(InputError, match="no finite number for section 1"):
        local_scores(Sum("gain"), bad, section_tuples=5, first=0, count=2)


@pytest.mark.parametrize("count", [0, -1, 2_000_000])
def test_the_number_of_sections_has_limits(count: int) -> None:
    with pytest.raises(InputError, match="from 1 to 1,000,000 sections"):
        local_scores(Count(), GAINS, section_tuples=5, first=0, count=count)


def test_names() -> None:
    assert [name(osf) for osf in (Sum("gain"), Mean("gain"), Count(), spread)] == [
        "sum(gain)",
        "mean(gain)",
        "count()",
        "spread",
    ]
