"""The page of a plan, from records made by hand: what it shows, on a desk and on a phone."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.browser import seen_in_browser

from spillway.errors import RunError
from spillway.records.campaign import read_manifest
from spillway.records.campaign_rows import CampaignGraph, GraphEdge, GraphNode
from spillway.records.plan import JudgedRow, OperatorRow, PlanRecords, PlanRows, PointRow, ProofRow
from spillway.report.pages import report_page
from spillway.report.plan_markdown import plan_markdown


def operator(name: str, *, cost: float, restarted: float, protection: str, written: str) -> OperatorRow:
    return OperatorRow(
        operator=name,
        protection=protection,
        written=written,
        reason=f"What becomes of {name} <alone>.",
        cost=cost,
        cores=cost / 2,
        memory_bytes=2e6,
        written_bytes_per_s=1e3,
        latency_s=0.01 if cost else 0.0,
        lost_s=0.0 if cost else 16.0,
        forgets=False,
        back_s=16.0,
        lossless=cost > 0,
        quality_restarted=restarted,
        quality=1.0 if cost else restarted,
    )


ROWS = PlanRows(
    wishes={"quality": 0.97, "percentile": 0.95},
    met=True,
    quality=0.98,
    cost=0.5,
    cost_of_losing_nothing=1.0,
    cost_of_everything=4.0,
    written_bytes_per_hour=3.6e6,
    back_s=16.0,
    next="For 0.5 cores more: first by Exact.",
    operators=(
        operator("first", cost=0.0, restarted=0.98, protection="Nothing", written="nothing"),
        operator("second", cost=0.5, restarted=0.7, protection="Exact", written="exact"),
    ),
    frontier=(
        PointRow(cost=0.0, quality=0.7, protected={}),
        PointRow(cost=0.5, quality=0.98, protected={"second": "Exact"}, chosen=True),
        PointRow(cost=1.0, quality=1.0, protected={"first": "Exact", "second": "Exact"}),
    ),
    measured=("Outages of 16 s.",),
    assumed=("A restart takes 16 s.",),
    seconds=12.0,
    judged=(
        JudgedRow(
            plan="chosen",
            cost=0.5,
            availability=0.99,
            availability_half_width=0.001,
            tainted_share=0.002,
            lost_per_hour=1e4,
            delayed_per_hour=2e4,
            holds=True,
        ),
    ),
    proof=(
        ProofRow(
            plan="cheaper",
            cost=0.0,
            foretold=0.7,
            measured=0.71,
            low=0.65,
            high=0.75,
            faults=40,
            stands=False,
        ),
        ProofRow(
            plan="chosen",
            cost=0.5,
            foretold=0.98,
            measured=0.981,
            low=0.975,
            high=0.99,
            faults=40,
            stands=True,
        ),
    ),
    cost_of_one_for_all=2.0,
    killed=(
        ProofRow(plan="chosen", cost=0.5, foretold=0.98, measured=0.95, low=0.94, high=0.96, faults=8, stands=False),
    ),
)

RECORDS = PlanRecords(
    planned="pair",
    identity={"graph": "first: Where; second: Count", "input": "{}", "score": "count() of out", "design": "[]"},
    graph=CampaignGraph(
        nodes=(
            GraphNode(name="in", kind="source", type="source", chosen=False, reason=""),
            GraphNode(name="first", kind="operator", type="Where", chosen=True, reason=""),
            GraphNode(name="second", kind="operator", type="Count", stateful=True, chosen=True, reason=""),
            GraphNode(name="out", kind="sink", type="Memory", chosen=False, reason=""),
        ),
        edges=(
            GraphEdge(source="in", target="first", port="in"),
            GraphEdge(source="first", target="second", port="in"),
            GraphEdge(source="second", target="out", port="in"),
        ),
    ),
    spillway="0.1.0",
    figures={"tuples": 100, "rates": {"peak": 10.0}, "first_s": 61.0, "again_s": 4.0},
    rows=ROWS,
)

STEPS = """
seen.headings = text("h2");
seen.plan = text(".verdicts li strong");
seen.boxes = text("svg.graph .name");
seen.subtitle = text(".subtitle");
seen.tables = [...document.querySelectorAll("table")].map(each => each.tBodies[0].rows.length);
seen.points = document.querySelectorAll('svg .series[data-series="0"] title').length;
seen.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth];
"""


def test_a_plan_stands_if_every_proof_says_so() -> None:
    assert ROWS.stands is False  # the kills said no
    assert replace(ROWS, killed=()).stands is True  # that the cheaper one does not is no matter
    assert replace(ROWS, killed=(), proof=()).stands is None
    assert ROWS.as_json()["stands"] is False


def test_a_document_says_what_a_plan_costs_and_how_it_stood(tmp_path: Path) -> None:
    RECORDS.write(tmp_path)
    told = plan_markdown(tmp_path, read_manifest(tmp_path)).splitlines()
    assert told[0] == (
        "`./run spillway plan pair --quality 0.97`: 61 s from nothing, 4 s with evidence at hand, 12 s with the proof. "
        "Quality 0.9800 for 0.5 cores: 50% of losing nothing as cheaply as can be (1), 25% of doing so by one "
        "protection for all operators (2), 12% of the best for every operator (4)."
    )
    assert told[4:6] == [
        "| first | 0.980 | a restart | 0 | 16 s | 0.980 |",
        "| second | 0.700 | Exact | 0.5 | nothing | 1.000 |",
    ]
    assert told[-1] == (
        "Really run, with processes killed, 8 in all: the chosen plan leaves 0.9500 (0.9400 to 0.9600; foretold "
        "0.9800) and does not stand."
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    RECORDS.write(tmp_path)
    found = PlanRecords.read(tmp_path, read_manifest(tmp_path))
    assert found.rows == ROWS
    assert found.graph == RECORDS.graph
    (tmp_path / "manifest.json").write_text('{"format": 1, "kind": "plan"}')
    with pytest.raises(RunError, match="not as a plan is written: KeyError: 'planned'"):
        report_page(tmp_path)


@pytest.mark.parametrize("width", [360, 1100])
def test_a_plan_can_be_read_anywhere(tmp_path: Path, width: int) -> None:
    RECORDS.write(tmp_path)
    page = report_page(tmp_path)
    assert "What becomes of first &lt;alone&gt;." in page
    seen = seen_in_browser(page, STEPS, folder=tmp_path, width=width)
    assert "error" not in seen
    assert seen["plan"] == ["second: Exact.", "first: a restart."]  # what is protected stands first
    assert {"first", "second"} <= {*seen["boxes"]}
    assert seen["headings"][:4] == ["The plan", "The graph", "What it costs, and what it leaves", "What can be had"]
    told = {"Over hours, by the model", "The proof", "The proof by kills", "What was measured", "What was assumed"}
    assert told <= {*seen["headings"]}
    assert seen["tables"][:4] == [2, 3, 1, 2]
    assert seen["points"] == 3
    assert "After 95% of all faults the quality is 0.9800 or more" in seen["subtitle"][0]
    assert seen["width"][0] <= seen["width"][1]  # nothing reaches beyond the screen
