"""Lines that match a pattern (seed 002, section 4.1): no state, so nothing to protect."""

from typing import Any

from spillway.apps.app import App, Option
from spillway.apps.text import OPTIONS, generate_lines, read_lines
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.stateless import Match


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink, pattern: str) -> Graph:
    """lines -> matches -> out. An operator without state has nothing to protect but its items."""
    graph = Graph("grep", shards=shards)
    lines = graph.source("lines", data)
    keeps_items = protect is not None and protect.keeps_items
    graph.sink("out", graph.add(Match("matches", pattern, protect=protect if keeps_items else None), lines), sink)
    return graph


APP = App(
    name="grep",
    description="lines of text that match a pattern",
    graph=build,
    generated=generate_lines,
    read=read_lines,
    options=(Option(name="pattern", default="love", meaning="a regular expression, in RE2 syntax"),),
    generator_options=OPTIONS,
)
