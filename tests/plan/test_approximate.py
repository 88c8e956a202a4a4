"""Plans in which a theta is chosen: how fast state changes, what it does to be set back, and which theta is enough."""

import itertools
from datetime import timedelta
from pathlib import Path

import pytest

from spillway.apps.wordcount import APP
from spillway.errors import RunError
from spillway.graph import Discard, Graph
from spillway.graph.protections import Approximate, Coordinated, Nothing
from spillway.inject import AppInput, Campaign
from spillway.local import LocalRun
from spillway.parallel import ThisProcess
from spillway.plan.drifting import kept_drifts, measure_drifts, threshold_of_one
from spillway.plan.evidence import Evidence
from spillway.plan.planning import Asked, choose, may_be_everywhere, spelled, weigh, written
from spillway.plan.problem import Wishes
from spillway.plan.reasons import rows_of
from spillway.score import Sum

RATE = 100.0  # lines a second
OPTIONS = {"vocabulary": 500, "words_per_line": 5}
WORDS = Campaign(
    name="words",
    input=AppInput(app="wordcount", tuples=3_000, tuples_per_batch=100, options=OPTIONS),
    sink="out",
    score=Sum("count"),
    rates={"reading": RATE},
    offsets=(1_800, 2_200),
    outages_s=(1.0,),
    repetitions=1,
    golden_repetitions=1,
    section_tuples=500,
)
ASKED = Asked(wishes=Wishes(quality=0.8, percentile=1.0), restart_s=2.0, window_s=20.0)


def words(seconds: int) -> Graph:
    feed = APP.generator(seed=1, tuples=100 * seconds, tuples_per_batch=100, pieces_per_batch=2, **OPTIONS)
    return APP.build(feed, protect=Nothing(), sink=Discard())


@pytest.fixture(scope="module")
def evidence(directory: Path) -> Evidence:
    return Evidence(directory, WORDS, pool=ThisProcess())


def test_state_drifts_as_far_as_a_run_tells() -> None:
    graph = words(30)
    drifts = measure_drifts(graph, ages_s=(2.0, 10.0, 60.0), duration_s=30.0)
    assert set(drifts) == {"counts"}
    two, ten = drifts["counts"]  # the input is too short for the third
    assert (two.age_s, ten.age_s) == (2.0, 10.0)
    assert 0 < two.least <= two.most < ten.least <= ten.most
    # Under a theta of which the first failure may cost the least of two seconds, no backup is older than that.
    theta = two.least / threshold_of_one(graph.checked(), "counts")
    rows = backups(graph, theta)
    assert max(later - earlier for earlier, later in itertools.pairwise(rows)) <= 2
    assert len(rows) >= 10


def backups(graph: Graph, theta: float) -> list[int]:
    """The batches in which any shard was saved under a theta."""
    with LocalRun(graph.protected(Approximate(theta=theta)), backups="memory://backups") as run:
        run.run()
        return sorted({row.batch for row in run.records() if row.backup})


def test_the_theta_chosen_leaves_the_quality_wished(evidence: Evidence) -> None:
    weighed = weigh(evidence, ASKED)
    plan = choose(weighed)
    option = weighed.options(plan.chosen)["counts"]
    assert isinstance(option.protection, Approximate)
    assert 1 - max(option.impairments) >= 0.8
    # A larger theta leaves less, a wish for more wants a smaller one, and one for everything none at all.
    offered = {each.protection.theta: each for each in options(weighed, "counts") if approximate(each)}
    assert len(offered) == 2
    small, large = (max(offered[theta].impairments) for theta in sorted(offered))
    assert 0 < small < large
    again = weigh(evidence, Asked(wishes=Wishes(quality=1.0, percentile=1.0), restart_s=2.0, window_s=20.0))
    assert weighed.problem.cost(plan.chosen) < again.problem.cost(choose(again).chosen)
    lossless = weigh_lossless(evidence)
    assert lossless["words"].protection == lossless["counts"].protection == Coordinated(every=timedelta(seconds=60))


def test_a_plan_with_a_theta_is_told_and_runs(evidence: Evidence) -> None:
    weighed = weigh(evidence, ASKED)
    plan = choose(weighed)
    (row,) = (row for row in rows_of(evidence, weighed, plan, seconds=1.0).operators if row.operator == "counts")
    assert row.written.startswith("approximate:theta=")
    assert row.stale_s in (2.0, 10.0)
    assert not row.lossless
    assert f"lacks the last {row.stale_s:g} s at most of what it keeps" in row.reason
    protections = written(evidence, weighed, plan.chosen)
    assert spelled(protections.operators["counts"]) == row.written
    assert not any(job.drops for job in protections.jobs if job.name == "counts")  # its input is kept


def test_what_would_break_a_lossless_contract_is_refused(evidence: Evidence) -> None:
    weighed = weigh(evidence, Asked(wishes=Wishes(lossless="out"), restart_s=2.0, window_s=20.0))
    chosen = tuple(
        next(at for at, option in enumerate(choices.options) if option.protection == Nothing())
        for choices in weighed.problem.operators
    )
    with pytest.raises(RunError, match=r"Sink 'out' cannot have a lossless contract: counts \(Nothing\): nothing is"):
        written(evidence, weighed, chosen)


def test_all_go_back_together_where_a_graph_may_run_so() -> None:
    graph = words(2)
    assert may_be_everywhere(graph, Coordinated(every=timedelta(seconds=60)))
    graph.job("counting", ["counts"])  # it says itself what its jobs are
    assert not may_be_everywhere(graph, Coordinated(every=timedelta(seconds=60)))


def test_drifts_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "drifts.json"
    path.write_text('{"counts": [{"age_s": 2.0}]}')
    with pytest.raises(RunError, match=r"cannot be read as drifts .* measured again"):
        kept_drifts(path)


def weigh_lossless(evidence: Evidence) -> dict:
    weighed = weigh(evidence, Asked(wishes=Wishes(lossless="out"), restart_s=2.0, window_s=20.0))
    assert not any(map(approximate, options(weighed, "counts")))  # none that could be in a plan, so none is tried
    return weighed.options(choose(weighed).chosen)


def options(weighed, name: str) -> tuple:
    return weighed.problem.operators[weighed.problem.place(name)].options


def approximate(option) -> bool:
    return isinstance(option.protection, Approximate)
