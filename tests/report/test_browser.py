"""Pages in a real browser: what they show, and what their controls do."""

from pathlib import Path
from typing import Any

import pytest
from tests.records import campaigns
from tests.records.progressed import progress
from tests.report.browser import seen_in_browser
from tests.report.test_run_page import recorded

from spillway.report.campaign_page import campaign_page
from spillway.report.pages import report_page

PHONE, DESK = 400, 1100  # pixels

CAMPAIGN_STEPS = """
const panel=name=>[...document.querySelectorAll(".panels")]
  .filter(p=>p.querySelector('select[name="'+name+'"]'))
  .map(p=>[...p.querySelectorAll(".panel")].filter(e=>!e.hidden).map(e=>e.querySelector("table")?"table":e.querySelector(".title").textContent));
seen.heading=text("h1");
seen.advice=text(".verdicts li strong");
seen.boxes=text("svg.graph .name");
seen.operator=panel("operator");
const rows=()=>[...document.querySelector("table").tBodies[0].rows].map(r=>r.cells[0].textContent);
seen.rows=rows();
const column=[...document.querySelectorAll("table")[0].tHead.rows[0].cells].findIndex(c=>c.textContent==="Ilq");
const button=document.querySelectorAll("table")[0].tHead.rows[0].cells[column].firstChild;
button.click();seen.ascending=rows();
button.click();seen.descending=rows();
const change=(name,value)=>{
  const select=document.querySelector('select[name="'+name+'"]');
  select.selectedIndex=[...select.options].findIndex(o=>o.text===value);
  select.dispatchEvent(new Event("change",{bubbles:true}));
};
change("rate","average");seen.average=panel("rate");
change("operator","VWAP");seen.vwap=panel("operator");
[...document.querySelectorAll("svg.graph a")].find(a=>a.textContent.includes("QuoteFilter"))
  .dispatchEvent(new MouseEvent("click",{bubbles:true,cancelable:true}));
seen.clicked=panel("operator");
const chart=[...document.querySelectorAll(".panel")].find(p=>!p.hidden&&p.querySelector(".entry")).querySelector("svg");
const entry=chart.querySelector(".entry"),line=chart.querySelector('.series[data-series="0"]');
const drawn=()=>getComputedStyle(line).display!=="none";
seen.legend=[drawn()];
entry.dispatchEvent(new MouseEvent("click",{bubbles:true}));seen.legend.push(drawn());
entry.dispatchEvent(new KeyboardEvent("keydown",{key:"Enter",bubbles:true}));seen.legend.push(drawn());
const box=chart.getBoundingClientRect();
chart.dispatchEvent(new PointerEvent("pointermove",
  {bubbles:true,clientX:box.left+box.width*0.95,clientY:box.top+box.height/2}));
seen.readout=text("#readout");
seen.width=[document.documentElement.scrollWidth,document.documentElement.clientWidth];
seen.colours=[...document.querySelectorAll("svg.graph a rect")].map(r=>getComputedStyle(r).fill);
"""

# Which cells of the section reach beyond the screen, and whether the page does.
RUN_STEPS = """
seen.headings = text("h2");
seen.told = text("section p");
const section = [...document.querySelectorAll("section")]
  .find(each => each.querySelector("h2").textContent === "Backups made good");
const cells = [...section.querySelectorAll("td")];
seen.cells = cells.map(cell => cell.innerText);
seen.cut = cells.filter(cell => cell.getBoundingClientRect().right > innerWidth).map(cell => cell.innerText);
seen.rows = [...section.querySelectorAll("tbody tr")].map(row => getComputedStyle(row).display);
seen.width = [document.documentElement.scrollWidth, document.documentElement.clientWidth];
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("campaign")
    campaigns.write(folder / "run", small=False)
    return seen_in_browser(campaign_page(folder / "run"), CAMPAIGN_STEPS, folder=folder, width=PHONE)


def test_it_shows_the_graph_and_what_to_do(seen: dict[str, Any]) -> None:
    assert seen["heading"] == ["What faults do to bargain"]
    assert seen["advice"][0] == "TradeFilter: protect first."
    assert seen["advice"][-1] == "QuoteFilter: restart is enough."
    assert set(seen["boxes"]) == {node.name for node in campaigns.graph().nodes}
    assert len(set(seen["colours"])) >= 3


def test_tables_sort(seen: dict[str, Any]) -> None:
    assert seen["rows"] == list(campaigns.TARGETS)
    assert seen["ascending"] == ["QuoteFilter", "BargainIndex", "VWAP", "Source", "TradeFilter"]
    assert seen["descending"] == seen["ascending"][::-1]


def test_controls_choose_charts_and_follow_each_other(seen: dict[str, Any]) -> None:
    assert seen["operator"] == [["TradeFilter: peak rate, fault at 500,000"]]
    assert [title for [title] in seen["average"]] == [
        "table",
        "Average rate, at all offsets",
        "Average rate, 16 s outage",
        "TradeFilter: average rate, fault at 500,000",
    ]
    assert seen["vwap"] == [["VWAP: average rate, fault at 500,000"]]
    assert seen["clicked"] == [["QuoteFilter: average rate, fault at 500,000"]]


def test_legends_hide_and_show_by_mouse_and_by_key(seen: dict[str, Any]) -> None:
    assert seen["legend"] == [True, False, True]


def test_pointing_at_a_chart_reads_its_values(seen: dict[str, Any]) -> None:
    (told,) = seen["readout"]
    lines = told.splitlines()
    assert lines[0].startswith("at 16")
    assert [line.split(":")[0] for line in lines[1:]] == list(campaigns.TARGETS)
    assert lines[3] == "QuoteFilter: 0"


def test_nothing_sticks_out_on_a_narrow_screen(seen: dict[str, Any]) -> None:
    whole, visible = seen["width"]
    assert whole <= visible


@pytest.mark.parametrize(("width", "rows"), [(PHONE, "block"), (DESK, "table-row")])
def test_words_in_tables_can_be_read_on_any_screen(tmp_path: Path, width: int, rows: str) -> None:
    damage = f"{'a-folder/' * 20}0000-of-0001 had no record of it; memory was whole, and is backed up anew"
    path = recorded(tmp_path / "run", [progress(batch=batch, damage=damage * (batch == 3)) for batch in (0, 1, 3)])
    found = seen_in_browser(report_page(path), RUN_STEPS, folder=tmp_path, width=width)
    assert found["headings"][0] == "What the records lack"
    assert "Of operator 'count', 1 batch lacks a record of one shard or of all: batch 2." in found["told"][0]
    assert found["cells"] == ["count", "0", "3", damage]
    assert not found["cut"]
    assert set(found["rows"]) == {rows}
    whole, visible = found["width"]
    assert whole <= visible
