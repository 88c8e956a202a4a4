"""A campaign's metrics from its records, against the definitions applied by hand to a small campaign."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.records import campaigns

from spillway.errors import InputError
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import AffectedRow, CampaignDeclaration, CampaignGraph, GoldenRow, TrialRow
from spillway.score import evaluate


def tiny(**changes: object) -> CampaignRecords:
    """Two offsets, two outages, two repetitions, two golden runs of ten sections that score 10 and 10.2."""
    declared = CampaignDeclaration(
        name="tiny",
        sink="out",
        score="count()",
        fault="bursty loss",
        targets=("a",),
        offsets_seq=(0, 40),
        outages_s=(1.0, 4.0),
        rates={"peak": 5.0},
        repetitions=2,
        golden_repetitions=2,
        section_tuples=10,
    )
    golden = tuple(GoldenRow(repetition=i, seed=i, local_osf=tuple([10.0 + 0.2 * i] * 10)) for i in range(2))
    affected = tuple(
        AffectedRow(
            target="a", rate="peak", offset_seq=offset, tuples=9, seq_first=0, seq_last=9, golden_osf=(20.0, 30.0)
        )
        for offset in (0, 40)
    )
    # Mean golden score 25; QS at offset 0: 20/25 and 10/25, at offset 40: 25/25 and 5/25.
    osf = {(0, 1.0): (19.0, 21.0), (0, 4.0): (9.0, 11.0), (40, 1.0): (24.0, 26.0), (40, 4.0): (4.0, 6.0)}
    # Local scores at the longest outage: mean golden 10.1. At offset 0 silence for one section; at 40 double for two.
    local = {0: (0.0,), 40: (20.2, 20.2)}
    trials = tuple(
        TrialRow(
            target="a",
            rate="peak",
            offset_s=offset / 5,
            offset_seq=offset,
            offset_tuples=offset,
            outage_s=outage,
            outage_tuples=int(outage * 5),
            repetition=k,
            seed=k,
            golden=k,
            osf=osf[offset, outage][k],
            qs=osf[offset, outage][k] / 25,
            ilq=0.0,
            rlq_sections=0,
            rejoined_seq=offset + 20,
            section_first=offset // 10,
            local_osf=local[offset],
        )
        for offset in (0, 40)
        for outage in (1.0, 4.0)
        for k in range(2)
    )
    records = CampaignRecords(
        declaration=declared,
        graph=CampaignGraph(nodes=(), edges=()),
        golden=golden,
        affected=affected,
        trials=trials,
        metrics=(),
        finished=False,
        about={},
    )
    return replace(records, **changes)  # type: ignore[arg-type]


def test_metrics_by_hand() -> None:
    (row,) = evaluate(tiny())
    assert row.coq == -1.0  # quality falls with the outage at both offsets
    assert row.qs == pytest.approx((0.4 + 0.2) / 2)
    assert row.sigma == pytest.approx(np.std([0.4, 0.2], ddof=1))
    # Groups (0.36, 0.44) and (0.16, 0.24): between 0.04, within 0.0064 / 2 = 0.0032, F = 12.5, (1, 2) degrees.
    assert row.anova_p == pytest.approx(0.0715, abs=1e-3)
    assert row.anova_accepted is True
    assert row.rlq_sections == 2  # offset 40: both wrong sections are needed for nine tenths of two
    assert row.rlq_s == pytest.approx(2 * 10 / 5)
    assert row.ilq == pytest.approx(2.0)  # 1² + 1²; offset 0 gives 1² alone
    assert (row.ks_sections, row.outage_s) == (3, 4.0)


def test_after_rejoining_a_trial_is_its_golden_run() -> None:
    """Only golden run 1 is rejoined: the trials' mean is 10.2 there, 1 % off, and within the threshold."""
    trials = tuple(replace(trial, golden=1) for trial in tiny().trials)
    assert evaluate(tiny(trials=trials))[0].rlq_sections == 2
    strict = replace(tiny().declaration, threshold=0.009)
    assert evaluate(tiny(trials=trials, declaration=strict))[0].rlq_sections > 2


def test_a_target_that_lacks_a_trial_is_left_out() -> None:
    assert evaluate(tiny(trials=tiny().trials[:-1])) == ()
    assert evaluate(tiny(golden=tiny().golden[:1])) == ()


def test_too_few_of_anything_is_told_as_nothing() -> None:
    records = tiny()
    declared = replace(records.declaration, offsets_seq=(0,), outages_s=(4.0,), repetitions=1)
    (row,) = evaluate(
        replace(
            records,
            declaration=declared,
            trials=tuple(t for t in records.trials if t.key[3:] == (0, 4.0, 0)),
        )
    )
    assert (row.coq, row.sigma, row.anova_p, row.anova_accepted, row.ks_sections) == (None, None, None, None, 0)
    assert row.ilq == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"affected": ()}, "without their affected section"),
        (
            {"affected": tuple(replace(row, golden_osf=(0.0, 0.0)) for row in tiny().affected)},
            "golden score of the section that 'a' affects at offset 0 is zero",
        ),
        ({"trials": tuple(replace(t, golden=7) for t in tiny().trials)}, "has no golden run"),
        ({"trials": tuple(replace(t, local_osf=(1.0,) * 11) for t in tiny().trials)}, "more sections than the golden"),
        (
            {"golden": (tiny().golden[0], replace(tiny().golden[1], local_osf=(1.0,)))},
            r"equally many sections; these have \[1, 10\]",
        ),
    ],
)
def test_records_that_do_not_fit_together(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(tiny(**changes))


def test_the_shape_of_a_whole_campaign(tmp_path: Path) -> None:
    campaigns.write(tmp_path / "run")
    rows = evaluate(CampaignRecords.read(tmp_path / "run"))
    assert [row.target for row in rows if not row.plan] == list(campaigns.TARGETS)
    found = {(row.plan, row.target): row for row in rows}
    silent = found["", "QuoteFilter"]
    assert (silent.coq, silent.sigma, silent.anova_accepted) == (-1.0, 0.0, True)
    assert max((row for row in rows if not row.plan), key=lambda row: row.ilq).target == "TradeFilter"
    plan = campaigns.REPLICATED.name
    assert found["", "TradeFilter"].ilq > 10 * found[plan, "TradeFilter"].ilq
    assert found["", "Source"] == replace(found[plan, "Source"], plan="")
