"""Protections in a file: what is written is read, applied to a graph, and run; whatever is unknown is refused."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.inject.small import bargain, ticks

from spillway.apps.bargain import build
from spillway.backup.written import Written, WrittenJob, read_protections
from spillway.errors import GraphError
from spillway.graph import Memory
from spillway.graph.graph import Graph
from spillway.graph.protections import Approximate, Checkpoint, Coordinated, Exact, Nothing
from spillway.graph.replicas import Group
from spillway.local import LocalRun
from spillway.local.jobs import LocalJobs

PLANNED = Written(
    graph="bargain",
    operators={"BargainIndex": Checkpoint(every=1_000)},
    jobs=(
        WrittenJob(name="TradeFilter", operators=("TradeFilter",)),
        WrittenJob(name="QuoteFilter", operators=("QuoteFilter",), drops=("TradeQuote.out",)),
        WrittenJob(name="recent", operators=("Aggregator", "VWAP"), protect=Exact()),
        WrittenJob(name="BargainIndex", operators=("BargainIndex",)),
    ),
)


def kept(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "protections.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    grouped = Written(
        graph="bargain",
        operators={"Aggregator": Nothing()},
        jobs=(WrittenJob(name="a", operators=("Aggregator",), protect=Group(replicas=3, restart="peer")),),
    )
    coordinated = Coordinated(every=timedelta(seconds=10))
    whole = Written(graph="b", jobs=(WrittenJob(name="a", operators=("VWAP",), protect=coordinated),))
    for each in (PLANNED, grouped, whole):
        text = each.toml(comments=["Why:", "two\nlines"])
        assert text.startswith("# Why:\n# two\n# lines\n")
        assert read_protections(kept(tmp_path, text)) == each


def test_a_graph_runs_as_written_and_gives_what_it_gave(tmp_path: Path) -> None:
    with LocalRun(graph(Nothing())) as whole:
        whole.run()
        wanted = whole.result("Sink")
    planned = PLANNED.applied(graph(Exact()))
    parts = planned.divided()
    assert set(parts) == {"bargain", "TradeFilter", "QuoteFilter", "recent", "BargainIndex"}
    assert parts["recent"].checked().operators["Aggregator"].protect == Exact()
    assert parts["BargainIndex"].checked().operators["BargainIndex"].protect == Checkpoint(every=1_000)
    with LocalJobs(planned, backups=str(tmp_path), seed=1) as jobs:
        jobs.run()
        assert jobs.result("Sink").sort_by("seq").equals(wanted.sort_by("seq"))


def graph(protect: Nothing | Exact) -> Graph:
    return build(ticks(4_000), protect=protect, shards=2, sink=Memory(), trades=5)


def test_single_operators_are_protected_in_one_job() -> None:
    written = Written(graph="bargain", operators={"Aggregator": Approximate(theta=5.0)})
    before = bargain()
    operators = written.applied(before).checked().operators
    assert operators["Aggregator"].protect == Approximate(theta=5.0)
    assert operators["BargainIndex"].protect == Nothing()
    assert before.checked().operators["Aggregator"].protect == Nothing()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('graph = "flows"', "of graph 'flows', not of 'bargain'"),
        ('[operators]\nAggregator = "nothing"', "'graph' must be the name of the graph"),
        ('graph = "bargain"\n[operators]\nAggregator = "maybe"', "'maybe' is no protection; there are nothing, exact"),
        ('graph = "bargain"\n[operators]\nAggregator = "checkpoint:often=3"', "should be checkpoint:every="),
        (
            'graph = "bargain"\n[operators]\nAggregator = "group"',
            r"a group is a job's; put it into \[jobs\.Agg",
        ),
        ('graph = "bargain"\n[operators]\nNobody = "nothing"', "'Nobody' is no operator that keeps state"),
        ('graph = "bargain"\n[operators]\nVWAP = "exact"', "'VWAP' is no operator that keeps state.*Aggregator, Barg"),
        ('graph = "bargain"\nprotect = "nothing"', "protect means nothing here"),
        ('graph = "bargain"\n[jobs.a]\noperators = ["VWAP"]\noften = 1', "jobs.a.often means nothing here"),
        ('graph = "bargain"\n[jobs.a]\noperators = "VWAP"', "'operators' must be a list of names"),
        ('graph = "bargain"\n[jobs.a]\noperators = ["Nobody"]', "job 'a': there is no 'Nobody'"),
        ('graph = "bargain"\n[jobs.a]\noperators = ["VWAP"]\ndrops = ["x.out"]', "there is no stream 'x.out' to drop"),
        ('graph = "bargain"\njobs = 3', "'jobs' must be a table"),
        ("graph = ", "cannot be read"),
    ],
)
def test_what_is_unknown_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = kept(tmp_path, text)
    with pytest.raises(GraphError, match=told):
        read_protections(path).applied(bargain())


def test_a_graph_is_not_cut_twice() -> None:
    cut = bargain()
    cut.job("quotes", ["QuoteFilter"])
    with pytest.raises(GraphError, match="was cut into jobs already"):
        PLANNED.applied(cut)
