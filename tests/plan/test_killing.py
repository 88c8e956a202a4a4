"""Plans put to the test by real kills: the processes of a small graph, each killed with its memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from spillway.errors import RunError
from spillway.graph.protections import Approximate, Exact, Nothing
from spillway.inject import AppInput, Campaign
from spillway.parallel import ThisProcess
from spillway.plan.evidence import Evidence
from spillway.plan.killing import Kills, prove_by_kills
from spillway.plan.planning import Asked, Plan, Weighed, choose, weigh, with_chosen
from spillway.plan.problem import Wishes
from spillway.score import Sum

pytestmark = pytest.mark.kill

WORDS = Campaign(
    name="words",
    input=AppInput(
        app="wordcount", tuples=3_000, tuples_per_batch=100, options={"vocabulary": 500, "words_per_line": 5}
    ),
    sink="out",
    score=Sum("count"),
    rates={"reading": 100.0},
    offsets=(1_800, 2_200),
    outages_s=(1.0,),
    repetitions=1,
    golden_repetitions=1,
    section_tuples=100,
)
ASKED = Asked(wishes=Wishes(quality=0.9, percentile=1.0), restart_s=0.5, window_s=20.0, batch_s=0.5)
QUICK = Kills(rounds=1, settled_s=3.0, after_s=2.5)

Planned = tuple[Evidence, Weighed, Plan]


@pytest.fixture(scope="module")
def planned(directory: Path) -> Planned:
    evidence = Evidence(directory, WORDS, pool=ThisProcess())
    weighed = weigh(evidence, ASKED)
    return evidence, weighed, choose(weighed)


def with_protections(planned: Planned, *kinds: type) -> Plan:
    """The plan with the first option of these kinds for words and for counts."""
    _, weighed, plan = planned
    chosen = tuple(
        next(at for at, option in enumerate(choices.options) if isinstance(option.protection, kind))
        for choices, kind in zip(weighed.problem.operators, kinds, strict=True)
    )
    return with_chosen(weighed.problem, ASKED.wishes, plan, chosen)


@pytest.mark.parametrize(("counts", "least", "most"), [(Approximate, 0.9, 0.9999), (Nothing, 0.0, 0.9)])
def test_kills_tell_what_a_protection_is_worth(planned: Planned, counts: type, least: float, most: float) -> None:
    evidence, weighed, _ = planned
    plan, told = with_protections(planned, Exact, counts), list[str]()
    row = prove_by_kills(evidence, weighed, plan, QUICK, told=told.append)
    assert "Killing words, counts 1 times each, 3 s apart: 6 s." in told
    assert row.faults == 2  # one of each operator; what is sent to words is kept, so that its kill leaves nothing
    assert least <= row.low <= row.measured <= row.high <= most
    assert row.stands == (row.low >= 0.9)


def test_kills_leave_nothing_where_all_goes_back(planned: Planned) -> None:
    evidence, _, _ = planned
    rewinding = weigh(evidence, replace(ASKED, rewinds=True))
    chosen = tuple(
        next(at for at, option in enumerate(choices.options) if option.everywhere)
        for choices in rewinding.problem.operators
    )
    plan = with_chosen(rewinding.problem, ASKED.wishes, choose(rewinding), chosen)
    row = prove_by_kills(evidence, rewinding, plan, QUICK, told=lambda sentence: None)
    assert (row.faults, row.low, row.high) == (2, 1.0, 1.0)


def test_what_kills_cannot_try_is_refused(planned: Planned) -> None:
    evidence, weighed, _ = planned
    elsewhere = Evidence(evidence.directory, WORDS, pool=ThisProcess())
    elsewhere.campaign = replace(WORDS, input=WORDS.input.__call__)
    with pytest.raises(RunError, match="kills want input that an application makes"):
        prove_by_kills(elsewhere, weighed, with_protections(planned, Exact, Exact), QUICK, told=print)
