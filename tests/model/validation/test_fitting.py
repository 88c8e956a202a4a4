"""How long state takes to be right again, from trials of one fault."""

import math
from pathlib import Path

import pytest

from spillway.apps import APPS
from spillway.model.flow import Flow
from spillway.model.validation.fitting import OUTAGES_S, TAIL_S, Trial, Trials, _fit, last_batch, trials_of
from spillway.model.validation.judging import undisturbed
from spillway.model.validation.ways import Times
from spillway.papers.dissertation.bargain import bargain as paper_flow

INTERVAL_S = 1.0


@pytest.fixture(scope="module")
def flow() -> Flow:
    return paper_flow(500)


@pytest.mark.parametrize(("penalty", "staleness"), [(0.02, 0.5), (0.0, 1.2), (0.1, 0.0)])
def test_the_factors_are_found_again(flow: Flow, penalty: float, staleness: float) -> None:
    rate, state, age_s = 500 * 0.2, 15_495, 1.0
    settled_s = [(penalty * state + staleness * (outage_s + age_s) * rate) / rate for outage_s in OUTAGES_S]
    found = _fit(flow, "aggregate", OUTAGES_S, settled_s, age_s=age_s).settling
    assert math.isclose(found.penalty, penalty, abs_tol=1e-9)
    assert math.isclose(found.staleness, staleness, abs_tol=1e-9)


def test_more_than_the_state_is_not_cut_off(flow: Flow) -> None:
    found = _fit(flow, "aggregate", [1.0], [1000.0], age_s=1.0).settling
    assert found.tuples(state=15_495, lost=200) == pytest.approx(1000.0 * 500 * 0.2)


def test_a_longer_outage_takes_longer_to_mend(tmp_path: Path) -> None:
    """In a window of five trades of each symbol, and nothing is wrong before the outage."""
    app = APPS["bargain"]
    feed = app.generator(seed=3, tuples=40_000, tuples_per_batch=500, **app.short)
    wanted = undisturbed(
        app.build(feed),
        batches=10 + 8 + round(TAIL_S),
        out=tmp_path / "out",
        backups=str(tmp_path / "backups"),
    )
    trials = Trials(graph=app.build(feed), times=Times(), interval_s=INTERVAL_S, tolerance=0.05, wanted=wanted)
    found = [trials.settled_after(Trial(job="Aggregator", batch=10, outage=outage)) for outage in (1, 8)]
    assert 0 < found[0] < found[1] < TAIL_S


def test_every_job_with_state_is_tried() -> None:
    app = APPS["bargain"]
    graph = app.build(app.generator(seed=3, tuples=1_000, tuples_per_batch=500))
    found = list(trials_of(graph, interval_s=0.5, settle_s=5.0, repetitions=3, seed=1))
    assert {trial.job for trial in found} == {"Aggregator", "BargainIndex"}
    assert len(found) == 2 * len(OUTAGES_S) * 3
    assert found == list(trials_of(graph, interval_s=0.5, settle_s=5.0, repetitions=3, seed=1))
    assert all(10 <= trial.batch <= 30 for trial in found)
    assert last_batch(found, 0.5) <= 30 + 16 + 40
