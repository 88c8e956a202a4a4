"""Plans of a small graph: evidence gathered, used again and refused; a plan, its reasons, its proof and its page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.inject.small import campaign
from tests.model.simulating import runs

from spillway.backup.written import read_protections
from spillway.errors import ModelError, RunError
from spillway.graph.protections import Checkpoint, Coordinated, Exact
from spillway.graph.replicas import Group
from spillway.inject.running import Progress
from spillway.parallel import ThisProcess
from spillway.plan.evidence import Evidence, identity_of
from spillway.plan.judging import heeded, judged_by_model
from spillway.plan.planning import Asked, Plan, Weighed, choose, spelled, weigh, written
from spillway.plan.problem import EVEN, Wishes
from spillway.plan.proof import prove
from spillway.plan.reasons import rows_of
from spillway.records.campaign import CampaignRecords, read_manifest
from spillway.records.plan import PlanRecords, PlanRows
from spillway.report.pages import report_page
from spillway.score import Count

ASKED = Asked(wishes=Wishes(quality=0.95, percentile=0.95), restart_s=0.5, takeover_s=0.1, window_s=10.0)
DESIGN = campaign(offsets=(2_000, 4_000), repetitions=2, golden_repetitions=2)


def open_evidence(directory: Path, told: list[str], **changes: object) -> Evidence:
    return Evidence(directory, replace(DESIGN, **changes), pool=ThisProcess(), told=told.append)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def planned(directory: Path) -> tuple[Evidence, Weighed, Plan, PlanRows]:
    told: list[str] = []
    evidence = open_evidence(directory, told)
    weighed = weigh(evidence, ASKED)
    plan = choose(weighed)
    rows = rows_of(evidence, weighed, plan, seconds=1.0)
    evidence.keep(replace(evidence.records, rows=rows))
    assert len(told) == 4  # what operators cost, how fast state changes, outages, lost state
    return evidence, weighed, plan, rows


Planned = tuple[Evidence, Weighed, Plan, PlanRows]


def test_a_plan_is_as_wished_and_cheaper_than_everything(planned: Planned) -> None:
    _, weighed, plan, rows = planned
    assert weighed.problem.meets(plan.chosen, ASKED.wishes)
    assert rows.met
    assert rows.quality >= 0.95
    assert rows.cost_of_losing_nothing is not None
    assert 0 < rows.cost < rows.cost_of_losing_nothing <= rows.cost_of_everything + EVEN
    assert [point.cost for point in rows.frontier] == sorted(point.cost for point in rows.frontier)
    assert rows.frontier[0].cost == 0
    assert rows.frontier[-1].quality == pytest.approx(1.0, abs=1e-4)
    assert sum(point.chosen for point in rows.frontier) == 1


def test_what_is_left_is_what_trials_recorded(planned: Planned) -> None:
    evidence, weighed, _, _ = planned
    folder = next(each for each in evidence.directory.iterdir() if each.name.startswith("outage-"))
    records = CampaignRecords.read(folder)
    sections = ASKED.window_s * 2200.0 / DESIGN.section_tuples
    wanted = [row.ilq / sections for row in records.trials if row.target == "QuoteFilter" and row.outage_s == 0.5]
    options = weighed.problem.operators[weighed.problem.place("QuoteFilter")].options
    assert list(options[0].impairments) == pytest.approx(wanted)
    # What TradeFilter is sent reaches Aggregator, too: it has the outages of that, and loses what it keeps besides.
    filtered, kept = (
        weighed.problem.operators[weighed.problem.place(name)].options[0].impairments
        for name in ("TradeFilter", "Aggregator")
    )
    assert all(more >= less for more, less in zip(kept, filtered, strict=True))
    assert sum(kept) > sum(filtered)


def test_every_operator_has_a_reason(planned: Planned) -> None:
    evidence, _, _, rows = planned
    assert [row.operator for row in rows.operators] == list(evidence.checked.order)
    for row in rows.operators:
        assert ("A restart is enough" in row.reason) or row.cost > 0 or "below the wish" in row.reason
        assert row.quality >= row.quality_restarted


def test_evidence_is_used_again(planned: Planned) -> None:
    evidence, _, plan, rows = planned
    told: list[str] = []
    again = open_evidence(evidence.directory, told)
    weighed = weigh(again, ASKED)
    assert not told
    assert choose(weighed).chosen == plan.chosen
    assert again.records.rows is not None
    assert again.records.rows.operators == rows.operators


def test_a_plan_is_written_so_that_it_runs(planned: Planned, tmp_path: Path) -> None:
    evidence, weighed, plan, rows = planned
    path = tmp_path / "plan.toml"
    path.write_text(written(evidence, weighed, plan.chosen).toml())
    parts = read_protections(path).applied(evidence.graph).divided()
    for row in rows.operators:
        if row.lossless and evidence.checked.operators[row.operator].stateful:
            assert parts[row.operator].checked().operators[row.operator].protect == Exact()
    dropped = [row.operator for row in rows.operators if not row.lossless]
    assert {job.name for job in read_protections(path).jobs if job.drops} == {*dropped} - {"TradeQuote"}


def test_replicas_for_everything_may_run_too(planned: Planned) -> None:
    evidence, weighed, _, _ = planned
    for wanted in (Group(restart="peer"), Group(failover="free running", restart="nothing")):
        chosen = tuple(
            next(at for at, option in enumerate(choices.options) if option.protection == wanted)
            for choices in weighed.problem.operators
        )
        assert all(job.protect == wanted for job in written(evidence, weighed, chosen).jobs)


def test_the_model_judges_plans_without_replicas(planned: Planned) -> None:
    evidence, weighed, plan, _ = planned
    kept, replicas = (
        tuple(
            next(at for at, option in enumerate(choices.options) if option.protection == wanted)
            for choices in weighed.problem.operators
        )
        for wanted in (Exact(), Group(restart="peer"))
    )
    plans = {"unprotected": plan.frontier[0].plan, "chosen": plan.chosen, "kept": kept, "replicas": replicas}
    often = replace(weighed, asked=replace(ASKED, crash_rate=0.01))
    said = {
        name: judged_by_model(evidence, often, name, chosen, pool=ThisProcess(), horizon_s=300.0, precision=runs(5))
        for name, chosen in plans.items()
    }
    assert said.pop("replicas") is None
    judged = {name: row for name, row in said.items() if row is not None}
    assert set(judged) == {"unprotected", "chosen", "kept"}
    assert judged["kept"].lost_per_hour == judged["kept"].tainted_share == judged["unprotected"].delayed_per_hour == 0
    assert judged["unprotected"].lost_per_hour > judged["chosen"].lost_per_hour > 0
    assert 0 < judged["unprotected"].availability < 1


def test_where_crashes_are_frequent_the_model_has_the_next_plan_chosen(planned: Planned) -> None:
    evidence, weighed, plan, _ = planned
    quick = {"pool": ThisProcess(), "horizon_s": 300.0, "precision": runs(20)}
    seldom, rows = heeded(evidence, replace(weighed, asked=replace(ASKED, crash_rate=1e-6)), plan, **quick)
    assert seldom.chosen == plan.chosen
    assert {row.plan: row.holds for row in rows}["chosen"]
    assert plan.dearer is not None
    # So frequent that what is chosen taints more than a twentieth, while the best there is still holds.
    often = replace(weighed, asked=replace(ASKED, crash_rate=0.1))
    found, rows = heeded(evidence, often, plan, **quick)
    said = [(row.plan, row.holds) for row in rows]
    assert ("refused", False) in said
    assert weighed.problem.cost(found.chosen) > weighed.problem.cost(plan.chosen)
    assert found.cheaper is not None
    assert weighed.problem.meets(found.chosen, ASKED.wishes)
    # Where none of the few holds, the cheapest stays, and is told not to.
    none = replace(weighed, asked=replace(ASKED, crash_rate=0.1, wishes=Wishes(quality=0.95, percentile=0.95)))
    lossy = replace(plan, frontier=plan.frontier[: plan.frontier.index(plan.dearer)])
    kept, rows = heeded(evidence, none, lossy, **quick)
    assert kept.chosen == plan.chosen
    assert [row.holds for row in rows if row.plan == "chosen"] == [False]


def test_a_wish_that_asks_for_more_finds_what_is_there(planned: Planned) -> None:
    evidence, _, _, _ = planned
    told: list[str] = []
    again = open_evidence(evidence.directory, told)
    weighed = weigh(again, replace(ASKED, wishes=Wishes(lossless="Sink", back_within_s=30.0)))
    rows = rows_of(again, weighed, choose(weighed), seconds=1.0)
    assert not told
    assert all(row.lossless for row in rows.operators)
    assert all("nothing may be lost of what reaches Sink" in row.reason for row in rows.operators)


def test_being_back_at_once_takes_replicas(planned: Planned) -> None:
    evidence, _, _, _ = planned
    weighed = weigh(evidence, replace(ASKED, restart_s=0.5, wishes=Wishes(lossless="Sink", back_within_s=1.2)))
    options = weighed.options(choose(weighed).chosen)
    assert any(isinstance(option.protection, Group) for option in options.values()) or all(
        option.back_s <= 1.2 for option in options.values()
    )


def test_wishes_that_contradict_each_other_take_a_sentence(planned: Planned) -> None:
    evidence, _, _, _ = planned
    asked = replace(ASKED, wishes=Wishes(quality=0.9, lossless="Sink", back_within_s=0.01))
    with pytest.raises(RunError, match=r"No plan gives all of this: .*back within 0.01 s.* at the soonest"):
        choose(weigh(evidence, asked))
    with pytest.raises(RunError, match="no sink 'Elsewhere' that could lose nothing; it has Sink"):
        weigh(evidence, replace(ASKED, wishes=Wishes(lossless="Elsewhere")))
    with pytest.raises(RunError, match="has no operator 'Nobody'"):
        weigh(evidence, replace(ASKED, rates={"Nobody": 2.0}))
    with pytest.raises(ModelError, match="over some time"):
        replace(ASKED, window_s=0.0)


def test_evidence_of_something_else_is_refused(planned: Planned, tmp_path: Path) -> None:
    evidence, _, _, _ = planned
    with pytest.raises(RunError, match=r"with another score: sum\(gain\) of Sink.* there, count\(\) of Sink"):
        open_evidence(evidence.directory, [], score=Count())
    with pytest.raises(RunError, match="with another design"):
        open_evidence(evidence.directory, [], offsets=(1_000, 3_000))
    manifest = json.loads((evidence.directory / "manifest.json").read_bytes())
    for changes, told in (
        ({"spillway": "0.0.1"}, r"Spillway 0\.0\.1 measured, .* too old"),
        ({"machine": {**manifest["machine"], "cores": 960}}, "measured on another machine: 960 cores"),
        ({"planned": "flows"}, "evidence of graph 'flows', not of 'bargain'"),
        ({"kind": "campaign"}, "holds a 'campaign', not a plan"),
        ({"format": 99}, "newer Spillway"),
        ({"figures": None}, "not as a plan is written"),
    ):
        other = tmp_path / told[:8]
        other.mkdir()
        (other / "manifest.json").write_text(json.dumps({**manifest, **changes}))
        with pytest.raises(RunError, match=told):
            open_evidence(other, [])


def test_a_proof_tries_other_places(planned: Planned) -> None:
    evidence, weighed, plan, _ = planned
    told: list[str] = []
    seen: list[Progress] = []
    proof = prove(evidence, weighed, plan, pool=ThisProcess(), told=told.append, observe=seen.append)
    assert seen
    assert {row.plan for row in proof} >= {"chosen"}
    for row in proof:
        assert row.low <= row.measured <= row.high + 1e-9
        assert row.stands == (row.low >= 0.95 - 1e-9)
        assert row.faults == 6 * 10 * 2
    cheaper = [row for row in proof if row.plan == "cheaper"]
    assert not cheaper or cheaper[0].cost < next(row.cost for row in proof if row.plan == "chosen")
    trial = PlanRecords.read(evidence.directory / "proof", read_manifest(evidence.directory / "proof"))
    assert trial.identity != evidence.records.identity


def test_the_page_tells_of_the_plan(planned: Planned) -> None:
    evidence, _, _, rows = planned
    page = report_page(evidence.directory)
    assert page == report_page(evidence.directory)
    for row in rows.operators:
        assert row.protection in page
    assert "What was assumed" in page
    assert "Quality for cost" in page


def test_evidence_alone_has_a_page_too(tmp_path: Path) -> None:
    open_evidence(tmp_path, [])
    assert "No plan yet" in report_page(tmp_path)


def test_the_same_graph_has_the_same_identity(planned: Planned) -> None:
    evidence, _, _, _ = planned
    assert identity_of(DESIGN.input().checked(), DESIGN) == evidence.records.identity


@pytest.mark.parametrize(
    ("protection", "written"),
    [
        (Coordinated(batches=10, extended=True), "coordinated:batches=10,extended"),
        (Checkpoint(every=500), "checkpoint:every=500"),
        (Group(failover="free running"), "group:failover=free"),
        (Group(replicas=3), "group:replicas=3"),
    ],
)
def test_protections_are_spelled_as_they_are_read(protection: object, written: str) -> None:
    from spillway.cli.protection import parse_modelled

    assert spelled(protection) == written
    assert parse_modelled(written) == protection
