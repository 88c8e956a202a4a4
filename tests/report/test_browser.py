"""The campaign page in a real browser: what it shows, and what its controls do.

A copy of the page gets a script that presses its controls and writes down what can be seen after each step; the
browser prints the document, and the test reads it. Nothing is reached but the file itself.
"""

import json
import re
import shutil
import subprocess
from html import unescape
from typing import Any

import pytest
from tests.records import campaigns

from spillway.report.campaign_page import campaign_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium here; on Debian: apt-get install chromium. The page is also checked without."
)

# `seen` is what is visible: innerText leaves out what is hidden.
STEPS = """
const seen={};
try{
const text=selector=>[...document.querySelectorAll(selector)].map(e=>e.innerText||e.textContent);
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
  .dispatchEvent(new MouseEvent("click",{bubbles:true}));
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
}catch(error){seen.error=String(error)}
const out=document.createElement("pre");out.id="seen";out.textContent=JSON.stringify(seen);document.body.append(out);
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("browser")
    campaigns.write(folder / "run", small=False)
    html = campaign_page(folder / "run")
    page = folder / "page.html"
    page.write_text(html.replace("</body>", f"<script>{STEPS}</script></body>"), encoding="utf-8")
    dom = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",  # runs as root in containers; the page is our own
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}",
            "--window-size=500,900",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, flags=re.DOTALL)
    assert found, "the page's script or the test's failed; the document was:\n" + dom[:2000]
    result: dict[str, Any] = json.loads(unescape(found[1]))
    assert "error" not in result, result
    return result


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
