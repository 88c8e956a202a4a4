"""How often each word occurred (seed 002, section 4.1): a table of counts, off by at most theta per word."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import App
from spillway.apps.text import OPTIONS, generate_lines, read_lines
from spillway.graph.feeds import Feed
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.counting import Count
from spillway.operators.stateless import Words

COUNTS = pa.schema([("word", pa.string()), ("count", pa.int64())])


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink) -> Graph:
    """lines -> words, counted per portion -> counts by word -> out."""
    graph = Graph("wordcount", shards=shards)
    words = graph.add(Words("words"), graph.source("lines", data))
    counts = graph.add(Count("counts", key="word", value="count", metric="max", protect=protect), words)
    graph.sink("out", counts, sink)
    return graph


APP = App(
    name="wordcount",
    description="how often each word occurred",
    graph=build,
    generated=generate_lines,
    read=read_lines,
    generator_options=OPTIONS,
)


def exact_counts(feed: Feed, *, pieces: int | None = None) -> pa.Table:
    """The true count of every word in the first ``pieces`` of a feed (all of them by default): word, count."""
    counts = COUNTS.empty_table()
    for piece in range(feed.pieces if pieces is None else pieces):
        lines = pc.utf8_lower(feed.read(piece)["line"])
        words = pc.list_flatten(pc.split_pattern_regex(lines, r"[^\p{L}\p{N}]+"))
        found = words.filter(pc.not_equal(words, "")).value_counts()
        part = pa.table([found.field("values"), found.field("counts")], schema=COUNTS)
        summed = pa.concat_tables([counts, part]).group_by("word", use_threads=False).aggregate([("count", "sum")])
        counts = summed.rename_columns(COUNTS.names)
    return counts


def latest_counts(out: pa.Table) -> pa.Table:
    """The last count that the application put out for each word: word, count."""
    latest = out.group_by("word", use_threads=False).aggregate([("count", "last")])
    return latest.rename_columns(COUNTS.names)


def error_max(counts: pa.Table, exact: pa.Table) -> int:
    """The largest difference of one word between two tables of counts; a word that is missing counts as 0."""
    both = exact.join(counts, "word", join_type="full outer", right_suffix="_came", use_threads=False)
    differences = pc.abs(pc.subtract(pc.fill_null(both["count"], 0), pc.fill_null(both["count_came"], 0)))
    return int(pc.max(differences).as_py() or 0)
