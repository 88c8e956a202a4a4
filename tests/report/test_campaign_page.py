"""The page of a campaign: what it says, from records alone."""

import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from tests.records import campaigns
from tests.report.test_page import Elements

from spillway.errors import RunError
from spillway.records.campaign import CampaignRecords, CampaignWriter
from spillway.records.campaign_rows import CampaignGraph, GraphEdge, GraphNode
from spillway.report.campaign_page import campaign_page
from spillway.report.pages import report_page
from spillway.score import evaluate


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("campaign") / "run"
    campaigns.write(path)
    return path


def words(html: str) -> str:
    """The page's text without its markup, styles and scripts."""
    body = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def test_it_says_what_to_do(run: Path) -> None:
    said = words(campaign_page(run))
    assert "What faults do to bargain" in said
    assert "TradeFilter: protect first." in said
    assert "QuoteFilter: restart is enough." in said
    assert "Bursty loss in 5 of 8 nodes, 120 trials against 8 golden runs. Score of Sink: sum(gain)." in said


def test_it_tells_every_metric(run: Path) -> None:
    html = campaign_page(run)
    records = CampaignRecords.read(run)
    for row in (row for row in records.metrics if not row.plan):
        assert f'data-sort="{row.ilq}"' in html
        assert f'data-sort="{row.rlq_s}"' in html
    assert "replicated, failover in 2 s" in words(html)


def test_it_explains_every_node(run: Path) -> None:
    said = words(campaign_page(run))
    for node in campaigns.graph().nodes:
        assert f"{node.name} {node.type}" in said
        assert node.reason in said
    assert "like TradeFilter" in said  # what Aggregator's box says


def test_there_is_a_chart_for_each_choice(run: Path) -> None:
    html = campaign_page(run)
    declared = campaigns.declaration()
    # One rate: offsets and "all" for outages, outages for offsets, operators × offsets over time, and the table.
    expected = (1 + len(declared.offsets_seq)) + len(declared.outages_s) + 5 * len(declared.offsets_seq) + 1
    assert html.count('class="panel"') == expected
    assert html.count('class="panels"') == 4
    shown = re.findall(r'class="panel" data-choice="[\d,]+">', html)
    assert len(shown) == 4


def test_it_is_well_formed_and_the_same_each_time(run: Path) -> None:
    html = campaign_page(run)
    assert Elements(html).count("main") == 1
    assert html == campaign_page(run) == report_page(run)


def test_nothing_of_where_it_was_made_gets_in(run: Path) -> None:
    assert str(run.parent) not in campaign_page(run)


def test_it_needs_the_directory_alone(run: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run, tmp_path / "run")
    assert campaign_page(moved) == campaign_page(run)


def test_an_unfinished_campaign_says_so(tmp_path: Path) -> None:
    declared = campaigns.declaration()
    golden = campaigns.golden_rows(declared)
    trials = [row for row in campaigns.trial_rows(declared, golden) if row.target != "VWAP"]
    with CampaignWriter(tmp_path / "run", declaration=declared, graph=campaigns.graph()) as writer:
        said = words(campaign_page(writer.path))
        assert "No target has all of its trials yet." in said
        writer.append(golden=golden, affected=campaigns.affected_rows(declared), trials=trials)
    said = words(campaign_page(tmp_path / "run"))
    assert "This campaign has not finished: 96 trials are there so far." in said
    assert "TradeFilter: protect first." in said
    assert "VWAP: protect" not in said


def test_feedback_and_groups_are_drawn(tmp_path: Path) -> None:
    graph = campaigns.graph()
    back = GraphEdge(source="BargainIndex", target="TradeQuote", feedback=True)
    declared = replace(campaigns.declaration(), groups={"TradeFilter": ("Sink",)})
    with CampaignWriter(
        tmp_path / "run", declaration=declared, graph=replace(graph, edges=(*graph.edges, back))
    ) as writer:
        golden = campaigns.golden_rows(declared)
        rows = list(campaigns.trial_rows(declared, golden))
        writer.append(golden=golden, affected=campaigns.affected_rows(declared), trials=rows)
    html = campaign_page(tmp_path / "run")
    assert "BargainIndex to TradeQuote, going back" in html


def test_names_cannot_leave_their_place(tmp_path: Path) -> None:
    hostile = """</script><script>alert("x")</script><img src=x onerror=alert(1)>'"&amp;"""
    declared = campaigns.declaration()
    declared = replace(
        declared,
        name=hostile,
        score=hostile,
        sink=hostile,
        fault=hostile,
        targets=(hostile,),
        rates={hostile: 2200.0},
        input={hostile: hostile},
        reconfigurations=(),
    )
    node = GraphNode(name=hostile, kind="source", type=hostile, state=hostile, chosen=True, reason=hostile)
    golden = campaigns.golden_rows(declared)
    plain = campaigns.declaration()
    with CampaignWriter(tmp_path / "run", declaration=declared, graph=CampaignGraph(nodes=(node,), edges=())) as writer:
        writer.append(
            golden=golden,
            affected=[
                replace(row, target=hostile, rate=hostile)
                for row in campaigns.affected_rows(plain)
                if row.target == "Source" and not row.plan
            ],
            trials=[
                replace(row, target=hostile, rate=hostile)
                for row in campaigns.trial_rows(plain, golden)
                if row.target == "Source" and not row.plan
            ],
        )
        writer.finish(evaluate(writer.records()))
    elements = Elements(campaign_page(tmp_path / "run"))
    assert elements.count("script") == 1
    assert elements.count("img") == 0
    assert f"What faults do to {hostile}" in elements.text["h1"]


def test_a_kind_without_a_report_is_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 1, "kind": "bake-off"}')
    with pytest.raises(RunError, match="holds a 'bake-off'; there are reports of a run, a campaign, a model,"):
        report_page(tmp_path)
