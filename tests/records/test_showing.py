"""What notebooks show: everything, escaped, in little room."""

from tests.local.test_jobs import line
from tests.records.progressed import progress

from spillway.graph.protections import Nothing
from spillway.inject import Assumed, Campaign
from spillway.local.jobs import LocalJobs
from spillway.local.run import LocalRun
from spillway.records.showing import ROWS_MAX, small_table
from spillway.records.summary import ShownRun, summarise
from spillway.score import Sum

HOSTILE = """<script>alert("x")</script>&amp;'"""


def test_nothing_breaks_out_of_a_table() -> None:
    shown = small_table(HOSTILE, [HOSTILE], [[HOSTILE]])
    assert shown.count("&lt;script&gt;") == 3
    assert "<script" not in shown


def test_of_many_rows_the_first_are_shown() -> None:
    shown = small_table("many", ["a", "b"], ([f"row {number}", ""] for number in range(ROWS_MAX + 1_234)))
    assert shown.count("row ") == ROWS_MAX
    assert f"row {ROWS_MAX - 1}<" in shown
    assert '<td colspan="2">… and 1,234 more</td>' in shown


def test_progress_is_a_list_that_shows_itself() -> None:
    first = progress(operator="<a>", tuples=131_105_616_049_779, divergence=1.0, threshold=4.0, backup_bytes=1_536)
    told = summarise([first, progress(operator="b", backup=True)])
    assert told == list(told)
    shown = told._repr_html_()
    cells = "<td>&lt;a&gt;</td><td>131 T</td><td>0 of 1</td><td>1.5 kB</td><td>25% of allowed</td>"
    assert cells in shown
    assert "<td>b</td><td>0</td><td>1 of 1</td><td>0 B</td><td>–</td>" in shown


class Told(ShownRun):
    """A run of which only this much is known."""

    name = "<g>"

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def progress(self):  # type: ignore[no-untyped-def]
        return summarise(progress(batch=batch) for batch in range(self.batches))


def test_a_run_says_how_far_it_is() -> None:
    assert "<caption>Told of &lt;g&gt;, nothing reported yet</caption>" in Told(0)._repr_html_()
    assert "<caption>Told of &lt;g&gt;, up to batch 1,499</caption>" in Told(1_500)._repr_html_()


def test_runs_of_this_process_show_themselves() -> None:
    graph = line(Nothing(), pieces=2)
    with LocalJobs(graph) as jobs:
        jobs.run()
        assert "LocalJobs of line, up to batch 1" in jobs._repr_html_()
        assert "LocalRun of line-middle" in jobs.job("middle")._repr_html_()
        assert isinstance(jobs.job("last"), LocalRun)


def test_a_campaign_shows_what_it_asks_for() -> None:
    campaign = Campaign(
        name=HOSTILE,
        input=line,
        sink="out",
        score=Sum("<gain>"),
        offsets=(2_000, 50_000),
        outages_s=(0.5,),
        targets=("<counts>", "times"),
        assumed=(Assumed(name="spare", operators=("times",), how="replicated", outage_s=2.0),),
    )
    shown = campaign._repr_html_()
    assert "<script" not in shown
    assert "<tr><td>operators</td><td>&lt;counts&gt;, times</td></tr>" in shown
    assert "<tr><td>offsets, in tuples</td><td>2,000, 50,000</td></tr>" in shown
    assert "<tr><td>score</td><td>sum(&lt;gain&gt;) of out</td></tr>" in shown
    assert "times: replicated, failover in 2 s" in shown
    assert "chosen by the rules" not in shown
