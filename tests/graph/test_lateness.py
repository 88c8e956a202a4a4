"""Delays that are reasonable, and those that are not: the path is named."""

from datetime import timedelta
from typing import Any

import pytest
from tests.graph.declared import Step, chain, source

from spillway.errors import GraphError
from spillway.graph import Contract, Graph, Memory


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def slow(name: str, least_s: float, **options: Any) -> Step:
    return Step(name=name, delay_min=seconds(least_s), **options)


def test_an_operator_is_allowed_what_it_takes_at_least() -> None:
    chain(slow("a", 5, delay_max=seconds(5))).checked()
    with pytest.raises(GraphError, match="Operator 'a' takes at least 5 s, and its delay_max allows 4 s"):
        chain(slow("a", 5, delay_max=seconds(4))).checked()


def test_a_path_is_allowed_what_its_operators_take_together() -> None:
    graph = chain(slow("a", 20), Step(name="b"), slow("c", 40))
    graph.checked()
    graph.delay_max = seconds(59)
    with pytest.raises(GraphError, match=r"Path s -> a -> b -> c -> out takes at least 60 s.* allows 59 s"):
        graph.checked()


def test_one_operator_that_may_be_late_lets_its_path_be() -> None:
    chain(slow("a", 40), slow("b", 40, delay_max=seconds(90))).checked()


def test_the_slowest_of_paths_that_meet_is_the_one() -> None:
    graph = Graph("g", delay_max=seconds(10))
    stream = source(graph)
    quick, late = graph.add(slow("quick", 1), stream), graph.add(slow("late", 8), stream)
    graph.sink("out", graph.add(slow("both", 3, inputs=("left", "right")), quick, late), Memory())
    with pytest.raises(GraphError, match=r"Path s -> late -> both -> out takes at least 11 s"):
        graph.checked()


def test_a_stream_may_have_a_limit_of_its_own() -> None:
    graph = chain(slow("a", 5), Step(name="b"))
    stream = graph.edges[1].stream
    assert str(stream) == "a.out"
    assert graph.checked().delay_max_of("a") == seconds(60)
    graph.limit(stream, delay_max=seconds(6))
    assert graph.checked().delay_max_of("a") == seconds(6)
    assert graph.checked().delay_max_of("b") == seconds(60)
    graph.limit(stream, delay_max=seconds(4))
    with pytest.raises(GraphError, match=r"Path s -> a takes at least 5 s.* delay_max of stream a\.out allows 4 s"):
        graph.checked()
    with pytest.raises(GraphError, match="delay_max must be a timedelta"):
        graph.limit(stream, delay_max=4)  # type: ignore[arg-type]


def test_a_limit_of_a_stream_that_is_not_there_is_refused() -> None:
    graph, other = chain(Step(name="a")), chain(Step(name="other"))
    graph.limit(other.edges[1].stream, delay_max=seconds(4))
    with pytest.raises(GraphError, match=r"Stream other\.out was given a delay_max, and nothing"):
        graph.checked()


def test_a_contract_is_not_shorter_than_its_path() -> None:
    graph = Graph("g")
    stream = graph.add(slow("a", 5), source(graph))
    graph.sink("out", stream, Memory(), contract=Contract(delay_max=seconds(4)))
    with pytest.raises(GraphError, match=r"Path s -> a -> out takes at least 5 s.* contract of sink 'out' allows 4"):
        graph.checked()


def test_a_least_delay_is_a_length_of_time() -> None:
    with pytest.raises(GraphError, match="Operator 'a': delay_min must be a timedelta of 0 or more"):
        chain(slow("a", -1)).checked()
