"""Verdicts: each rule, and what the rules make of the paper's own table."""

from typing import Any

import pytest
from tests.records import campaigns

from spillway.records.campaign_rows import MetricsRow
from spillway.score.verdicts import verdicts

DECLARED = campaigns.declaration()  # sections of 5,000 tuples at 2,200 tuples a second


def row(target: str, *, rlq: int, ilq: float, accepted: bool | None = False, **more: Any) -> MetricsRow:
    values: dict[str, Any] = {"coq": 0.5, "sigma": 0.3, "anova_p": 0.5, "qs": 1.5, "ks_sections": 9, "ks_rejected": 9}
    return MetricsRow(
        target=target,
        rate="peak",
        outage_s=16.0,
        rlq_sections=rlq,
        rlq_s=rlq * DECLARED.section_s("peak"),
        ilq=ilq,
        anova_accepted=accepted,
        **{**values, **more},
    )


def test_the_table_of_the_paper() -> None:
    """000_220a5ca218124795, table 2: its authors replicate TradeFilter and VWAP and restart QuoteFilter."""
    found = verdicts(
        [
            row("Source", rlq=340, ilq=21.23, coq=-0.38, sigma=0.21, accepted=False),
            row("TradeFilter", rlq=340, ilq=48.70, coq=0.97, sigma=0.76, accepted=False),
            row("QuoteFilter", rlq=6, ilq=6.00, coq=-1.0, sigma=0.0, accepted=True),
            row("VWAP", rlq=73, ilq=30.87, coq=0.99, sigma=0.14, accepted=False),
            row("BargainIndex", rlq=43, ilq=7.89, coq=-0.69, sigma=0.08, accepted=True),
        ],
        DECLARED,
    )
    assert {verdict.target: verdict.words for verdict in found} == {
        "Source": "protect next",
        "TradeFilter": "protect first",
        "QuoteFilter": "restart is enough",
        "VWAP": "protect first",
        "BargainIndex": "recover fast",
    }


@pytest.mark.parametrize(
    ("rlq", "ilq", "accepted", "words"),
    [
        (0, 0.0, False, "nothing needed"),
        (9, 99.0, False, "restart is enough"),  # 16 s are 7.04 sections: 8 whole ones, and the one it starts in
        (10, 49.0, False, "protect next"),
        (10, 50.0, False, "protect first"),
        (10, 50.0, True, "protect first"),
        (10, 49.0, True, "recover fast"),
        (10, 49.0, None, "protect next"),  # each offset tried once, and they differ
        (10, 4.9, False, "restart is enough"),
        (10, 5.0, False, "protect next"),
    ],
)
def test_each_rule_at_its_edge(rlq: int, ilq: float, accepted: bool | None, words: str) -> None:
    worst = row("worst", rlq=300, ilq=100.0)
    assert verdicts([worst, row("a", rlq=rlq, ilq=ilq, accepted=accepted)], DECLARED)[1].words == words


@pytest.mark.parametrize(
    ("sigma", "accepted", "words"),
    [
        (0.1, False, "recover fast"),
        (0.11, False, "protect next"),
        (None, None, "protect next"),
        (0.5, True, "recover fast"),
    ],
)
def test_a_difference_too_small_to_matter(sigma: float | None, accepted: bool | None, words: str) -> None:
    worst = row("worst", rlq=300, ilq=100.0)
    found = verdicts([worst, row("a", rlq=99, ilq=20.0, accepted=accepted, sigma=sigma)], DECLARED)[1]
    assert found.words == words
    assert ("depends on the data hit" in found.why) == (sigma == 0.11)


def test_reasons_tell_figures() -> None:
    worst, other, silent = verdicts(
        [
            row("worst", rlq=300, ilq=100.0, coq=0.97, sigma=0.76, qs=2.4),
            row("other", rlq=44, ilq=60.0, accepted=True, qs=0.7),
            row("silent", rlq=0, ilq=0.0, ks_rejected=0),
        ],
        DECLARED,
    )
    assert worst.why == (
        "The output stays wrong for 682 s after a 16 s outage, and further off than for any other target. It is 140% "
        "too high there. The longer the outage, the worse: each second saved helps. How bad it is depends on the data "
        "hit (σ 0.76), so it cannot be foretold."
    )
    assert other.why == (
        "The output stays wrong for 100 s after a 16 s outage; 60% of the worst Ilq. It is 30% too low there."
    )
    assert "make sure that it is the right score" in silent.why


def test_no_rows_no_verdicts() -> None:
    assert verdicts([], DECLARED) == []
