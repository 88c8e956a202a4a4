"""Graphs as pictures, letter by letter."""

import re
import xml.etree.ElementTree as ET

import pytest
from tests.graph.declared import Step, chain, source

from spillway.apps import APPS
from spillway.graph import Approximate, Checkpoint, Discard, Graph, Memory, Parquet
from spillway.graph.nodes import Stream

TEXT = {
    "grep": """\
grep
lines  source Generator
  -> matches  Match
    -> out  sink Discard
""",
    "wordcount": """\
wordcount
lines  source Generator
  -> words  Words
    -> counts  Count  by word  counts HashTable(string,int64,max)  Approximate(theta 1,000)
      -> out  sink Discard
""",
    "flows": """\
flows
packets  source Generator
  -> sketch  CountMin  by src, dst  sketch Matrix(4x8192,int64,max)  Approximate(theta 1,000)
    -> heavy  Where
      -> out  sink Discard
""",
    "lr": """\
lr
tuples  source Generator
  -> local  LocalModel  """
    """weights HashTable(int64,float64,l2), counts Tally(2), changed TallyTable(int64)  Approximate(theta 1,000)
    -> global  GlobalModel  weights HashTable(int64,float64,l2), whole Tally(1)  Approximate(theta 1,000)
      ~> [global] local (above)
    -> out  sink Discard
""",
}

MERMAID = {
    "grep": """\
flowchart LR
  n0(["lines<br/>source Generator"])
  n1["matches<br/>Match"]
  n2(["out<br/>sink Discard"])
  n0 --> n1
  n1 --> n2
""",
    "wordcount": """\
flowchart LR
  n0(["lines<br/>source Generator"])
  n1["words<br/>Words"]
  n2[["counts<br/>Count<br/>by word<br/>counts HashTable(string,int64,max)<br/>Approximate(theta 1,000)"]]
  n3(["out<br/>sink Discard"])
  n0 --> n1
  n1 --> n2
  n2 --> n3
""",
    "flows": """\
flowchart LR
  n0(["packets<br/>source Generator"])
  n1[["sketch<br/>CountMin<br/>by src, dst<br/>sketch Matrix(4x8192,int64,max)<br/>Approximate(theta 1,000)"]]
  n2["heavy<br/>Where"]
  n3(["out<br/>sink Discard"])
  n0 --> n1
  n1 --> n2
  n2 --> n3
""",
    "lr": """\
flowchart LR
  n0(["tuples<br/>source Generator"])
  n1[["local<br/>LocalModel<br/>"""
    """weights HashTable(int64,float64,l2), counts Tally(2), changed TallyTable(int64)<br/>Approximate(theta 1,000)"]]
  n2[["global<br/>GlobalModel<br/>weights HashTable(int64,float64,l2), whole Tally(1)<br/>Approximate(theta 1,000)"]]
  n3(["out<br/>sink Discard"])
  n0 --> n1
  n1 --> n2
  n2 -.->|"global"| n1
  n1 --> n3
""",
}

NODE = re.compile(r'  (n\d+)(?:\(\["([^"]*)"\]\)|\[\["([^"]*)"\]\]|\["([^"]*)"\])')
EDGE = re.compile(r'  (n\d+) (?:-->|-\.->)(?:\|"([^"]*)"\|)? (n\d+)')
# What Mermaid takes between quotes without giving it a meaning: our own line break, entities, and plain characters.
LABEL = re.compile(r"(?:<br/>|#(?:\d+|quot|amp|lt|gt);|[^<>&#\"`\n])*")


def assert_valid(drawing: str) -> None:
    """The part of Mermaid's grammar that we use, and no more."""
    first, *lines = drawing.removesuffix("\n").split("\n")
    assert first == "flowchart LR"
    known = set()
    for line in lines:
        node, edge = NODE.fullmatch(line), EDGE.fullmatch(line)
        assert node or edge, line
        label = next((text for text in (node or edge).groups()[1:] if text is not None), "")  # type: ignore[union-attr]
        assert LABEL.fullmatch(label), line
        if node:
            known.add(node[1])
        if edge:
            assert {edge[1], edge[3]} <= known, line


def app_graph(name: str) -> Graph:
    feed = APPS[name].generator(seed=1, tuples=10, tuples_per_batch=10)
    return APPS[name].build(feed, protect=Approximate(1000.0), sink=Discard())


@pytest.mark.parametrize("name", TEXT)
def test_apps_as_text(name: str) -> None:
    assert app_graph(name).draw() == TEXT[name]


@pytest.mark.parametrize("name", APPS)
def test_apps_as_mermaid(name: str) -> None:
    drawing = app_graph(name).draw(style="mermaid")
    assert_valid(drawing)
    if name in MERMAID:
        assert drawing == MERMAID[name]


def winding() -> Graph:
    """Two sources, two ports, feedback, a node reached twice, one that is missing and one without input."""
    graph = Graph("winding")
    first, second = source(graph, "s1"), source(graph, "s2")
    join = Step(name="join", inputs=("left", "right"), key=("k",), stateful=True, protect=Checkpoint(every=500))
    joined = graph.add(join, first, second)
    graph.connect(joined, "join", "left", feedback=True)
    graph.sink("end", joined, Parquet('a "b" <c> #1 & `d`/'))
    graph.connect(joined, "ghost", "in")
    graph.add(Step(name="alone"))
    return graph


def test_everything_at_once_as_text() -> None:
    assert (
        winding().draw()
        == """\
winding
s1  source Generator
  -> [left] join  Step  by k  table HashTable(string,int64,max)  Checkpoint(every 500 tuples)
    ~> [left] join (above)
    -> end  sink Parquet(a "b" <c> #1 & `d`/)
    -> ghost (not in the graph)
s2  source Generator
  -> [right] join (above)
(no input) alone  Step
"""
    )


def test_everything_at_once_as_mermaid() -> None:
    drawing = winding().draw(style="mermaid")
    assert (
        drawing
        == """\
flowchart LR
  n0(["s1<br/>source Generator"])
  n1(["s2<br/>source Generator"])
  n2[["join<br/>Step<br/>by k<br/>table HashTable(string,int64,max)<br/>Checkpoint(every 500 tuples)"]]
  n3(["end<br/>sink Parquet(a #quot;b#quot; #lt;c#gt; #35;1 #amp; #96;d#96;/)"])
  n4["alone<br/>Step"]
  n5["ghost (not in the graph)"]
  n0 -->|"left"| n2
  n1 -->|"right"| n2
  n2 -.->|"left"| n2
  n2 --> n3
  n2 --> n5
"""
    )
    assert_valid(drawing)


@pytest.mark.parametrize(
    "text", ['"', "|", "]]", "`**x**`", "<b>", "&lt;", "#quot;", "a\nb", "end", "%%", "ä→b", "--> n1"]
)
def test_no_text_breaks_out_of_its_quotes(text: str) -> None:
    graph = chain(Step(name="join", inputs=(text, "other")))
    graph.connect(Stream("s", "out"), "join", "other")
    graph.sink("more", Stream("s", "out"), Parquet(text))
    assert_valid(graph.draw(style="mermaid"))
    assert graph.draw().count("\n") - text.count("\n") * 2 == len(graph.nodes) + 2


SVG = "{http://www.w3.org/2000/svg}"


def drawn(graph: Graph) -> tuple[list[list[str]], list[str]]:
    """The texts of each box, and what is told of each on hovering, of a drawing in a notebook."""
    root = ET.fromstring(graph._repr_html_())
    assert not [*root.iter(f"{SVG}script")]
    boxes = [box for box in root.iter(f"{SVG}g") if (box.get("class") or "").startswith("level")]
    texts = [["".join(text.itertext()) for text in box.iter(f"{SVG}text")] for box in boxes]
    return texts, [str(box.findtext(f"{SVG}title")) for box in boxes]


def test_everything_at_once_as_a_notebook_shows_it() -> None:
    graph = winding()
    texts, told = drawn(graph)
    assert texts == [
        ["s1", "source Generator"],
        ["s2", "source Generator"],
        ["join", "Step by k", "Checkpoint(every 500 tupl…"],
        ["end", 'sink Parquet(a "b" <c> #1…'],
        ["alone", "Step"],
        ["ghost", "not in the graph"],
    ]
    assert told[2] == "join\nStep\nby k\ntable HashTable(string,int64,max)\nCheckpoint(every 500 tuples)"
    streams = [*ET.fromstring(graph.draw(style="svg")).iter(f"{SVG}path")]
    assert len([path for path in streams if "stream" in (path.get("class") or "")]) == len(graph.edges)
    assert len([path for path in streams if "back" in (path.get("class") or "")]) == 1


def test_a_drawing_tells_the_jobs() -> None:
    graph = chain(Step(name="a"), Step(name="b"))
    graph.job("second", ["b"])
    texts, told = drawn(graph)
    assert ["b", "Step", "job second"] in texts
    assert "b\nStep\njob second" in told


def test_a_graph_too_large_to_be_read_is_told_in_words() -> None:
    graph = chain(*(Step(name=f"n{number}") for number in range(300)))
    graph.sink("more", Stream("n299", "out"), Parquet("<here>"))
    shown = graph._repr_html_()
    assert shown.startswith("<pre>")
    assert "-&gt; n299  Step" in shown
    assert "&lt;here&gt;" in shown
    assert "<here>" not in shown


def test_a_graph_can_be_drawn_before_it_is_well_formed() -> None:
    graph = Graph("empty")
    assert graph.draw() == "empty\n"
    assert graph.draw(style="mermaid") == "flowchart LR\n"
    assert drawn(graph) == ([], [])
    graph.sink("out", Stream("ghost", "out"), Memory())
    assert graph.draw() == "empty\n(no input) out  sink Memory\n"
    assert_valid(graph.draw(style="mermaid"))
