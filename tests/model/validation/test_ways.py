"""How a graph is cut and protected to be run in processes that are killed."""

from pathlib import Path

import pytest
from tests.local.test_losses import SCHEMA, make

import spillway as sw
from spillway.apps import APPS
from spillway.errors import ModelError
from spillway.model.validation.ways import WAYS, Times, cut, jobs_of

TRIES = {"reading", "TradeQuote", "Aggregator", "BargainIndex", "writing"}


def bargain() -> sw.Graph:
    app = APPS["bargain"]
    return app.build(
        app.generator(seed=1, tuples=100, tuples_per_batch=50, **app.short), protect=sw.Approximate(theta=1)
    )


def test_one_process_for_each_job_or_two(tmp_path: Path) -> None:
    found = {way: set(cut(bargain(), WAYS[way], Times(), out=tmp_path).divided()) for way in WAYS}
    twice = {"reading", "writing", *(f"{job}-{n}" for job in TRIES - {"reading", "writing"} for n in (0, 1))}
    assert found == {"checkpoint": TRIES, "group": twice, "free": twice, "replication": twice}


def test_what_an_operator_says_of_itself_gives_way(tmp_path: Path) -> None:
    for way in WAYS.values():
        graph = cut(bargain(), way, Times(checkpoint_s=2.0), out=tmp_path)
        operators = graph.checked().operators
        found = {operator.protect for operator in operators.values() if operator.stateful}
        assert found == {way.operators(Times(checkpoint_s=2.0))}


def test_only_those_that_are_killed_drop_what_comes_meanwhile(tmp_path: Path) -> None:
    graph = cut(bargain(), WAYS["checkpoint"], Times(), out=tmp_path)
    assert {job.name for job in graph.jobs if job.drops} == {"TradeQuote", "Aggregator", "BargainIndex"}


def test_no_state_is_refused() -> None:
    graph = sw.Graph("plain")
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=2))
    graph.sink("out", graph.add(sw.operators.Where("some", sw.field("key") != "a"), source), sw.Memory())
    with pytest.raises(ModelError, match="'plain' keeps no state"):
        jobs_of(graph)


def test_feedback_is_refused() -> None:
    app = APPS["vitals"]
    graph = app.build(app.generator(seed=1, tuples=100, tuples_per_batch=50), feedback=1)
    assert any(edge.feedback for edge in graph.edges)
    with pytest.raises(ModelError, match="feedback"):
        jobs_of(graph)


def test_operators_that_lead_to_no_state_are_a_job_too() -> None:
    graph = sw.Graph("tail")
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=2))
    counts = graph.add(sw.operators.Count("counts", key="key"), source)
    graph.sink("out", graph.add(sw.operators.Where("many", sw.field("count") > 3), counts), sw.Memory())
    assert jobs_of(graph) == {"reading": ("in",), "counts": ("counts",), "many": ("many",), "writing": ("out",)}
