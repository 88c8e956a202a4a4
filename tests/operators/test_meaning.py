"""What an operator's state means: everything that is given to it, unless there is a reason."""

import inspect
import re
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.errors import GraphError
from spillway.inject.faults.outage import Outage
from spillway.inject.faults.state_corruption import StateCorruption
from spillway.inject.rewriting import FaultPoint
from spillway.inject.striking_state import with_struck_state
from spillway.operators.operator import Operator
from spillway.operators.wording import written_down

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
HOPPING, WIDER = sw.Hopping(count=10), sw.Hopping(count=20)

KEPT_ELSEWHERE = {
    "name": "state lies under it; another name is other state",
    "protect": "how state is kept, not what it is",
    "delay_max": "how long state is waited for, not what it is",
    "shards": "counted by the graph, which adds them: see meaning_of",
}
NOT_FELT_BY_STATE: dict[type[Operator], dict[str, str]] = {
    sw.operators.Count: {
        "count_as": "the name of an output column",
        "bounds": "columns that are put out",
        "final": "when counts are put out",
        "late": "what becomes of tuples that are not counted",
    },
    sw.operators.CountMin: {"largest": "asked for at a recovery, for what is lost then"},
    sw.operators.hitters.LocalSketch: {"largest": "as for CountMin; where candidates depend on it, so does least"},
    sw.operators.LatestJoin: {
        "value_as": "the name of an output column",
        "then": "a function of what is put out",
        "schema": "of what is put out",
    },
    sw.operators.LeastSquares: {"keep": "columns that are put out"},
    sw.operators.SlidingAggregate: {"every": "when a key speaks"},
    sw.operators.WindowJoin: {"unit_rows": "how much of a window a backup holds at a time"},
    sw.operators.SharedWindowJoin: {"unit_rows": "how much of a window a backup holds at a time"},
    sw.operators.regression.LocalModel: {"every": "how often the model is put out"},
    sw.operators.hitters.MergeSketches: dict.fromkeys(
        ("key", "value", "phi", "rows", "width"), "only the number of a window is carried over, never what was in it"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An operator as it is made, and for each argument what else it may be."""

    first: dict[str, Any]
    other: dict[str, Any]


GIVEN: dict[type[Operator], Given] = {
    sw.operators.Count: Given(
        first={"key": "k"},
        other={
            "key": "k2", "value": "v", "metric": "l1", "window": HOPPING,
        },
    ),
    sw.operators.CountMin: Given(
        first={"key": "k", "value": "v"},
        other={"key": ("k", "k2"), "value": "v2", "rows": 3, "width": 64, "metric": "l1", "window": HOPPING},
    ),
    sw.operators.hitters.LocalSketch: Given(
        first={"key": "k", "value": "v", "phi": 100, "shards": 2, "window": HOPPING},
        other={"key": "k2", "value": "v2", "phi": 200, "window": WIDER, "rows": 3, "width": 64},
    ),
    sw.operators.hitters.MergeSketches: Given(first={"key": "k", "value": "v", "phi": 100}, other={}),
    sw.operators.LatestJoin: Given(
        first={"key": "k", "value": "v"}, other={"key": "k2", "value": "v2"}
    ),
    sw.operators.SlidingAggregate: Given(
        first={"key": "k", "sums": {"a": "v"}, "size": MINUTE, "time": "at"},
        other={"key": "k2", "sums": {"a": ("v", "w")}, "size": HOUR, "time": "at2", "rows_max": 5},
    ),
    sw.operators.SignalFilter: Given(
        first={"value": "v", "coefficients": [1.0, 2.0]},
        other={"value": "v2", "coefficients": [1.0, 3.0], "key": "k"},
    ),
    sw.operators.WindowJoin: Given(
        first={"key": "k", "left": ["a"], "right": ["b"], "size": MINUTE, "time": "at"},
        other={
            "key": "k2", "left": ["c"], "right": ["c"], "size": HOUR, "time": "at2", "rows_max": 5,
        },
    ),
    sw.operators.SharedWindowJoin: Given(
        first={"on": "k", "left": ["a"], "right": ["b"], "size": MINUTE, "time": "at"},
        other={"on": "k2", "left": ["c"], "right": ["c"], "size": HOUR, "time": "at2", "rows_max": 5},
    ),
    sw.operators.Barrier: Given(
        first={"key": "k", "left": ["a"], "right": ["b"]},
        other={"key": "k2", "left": ["c"], "right": ["c"], "waiting_max": 5},
    ),
    sw.operators.LeastSquares: Given(
        first={"features": ["a", "b"], "target": "t"},
        other={
            "features": ["a", "c"], "target": "u", "forgetting": 0.9, "ridge": 2.0, "every": 3,
            "window": sw.Decaying(),
        },
    ),
    sw.operators.ripple_join.RippleJoin: Given(first={"key": "k"}, other={"key": "k2", "rate": 0.5, "seed": 2}),
    sw.operators.ripple_join.SumEstimates: Given(first={}, other={}),
    sw.operators.regression.LocalModel: Given(
        first={"shards": 2},
        other={
            "label": "l", "features": "f", "values": "v", "rate": 0.2, "decay": True, "l2": 0.1, "learn_below": 9,
            "window": sw.Decaying(),
        },
    ),
    sw.operators.regression.GlobalModel: Given(first={}, other={"window": sw.Decaying()}),
}  # fmt: skip


def built_in() -> list[type[Operator]]:
    """Every operator of the package that can be made."""
    of_papers = (sw.operators.hitters, sw.operators.regression, sw.operators.ripple_join)
    values = {
        value for module in (sw.operators, *of_papers) for value in vars(module).values() if inspect.isclass(value)
    }
    kinds = [value for value in values if issubclass(value, Operator)]
    return [kind for kind in kinds if kind is not Operator and not inspect.isabstract(kind)]


STATELESS = {
    sw.operators.Apply,
    sw.operators.Match,
    sw.operators.Select,
    sw.operators.Union,
    sw.operators.Where,
    sw.operators.Words,
}
ARGUMENTS = [(kind, name) for kind, given in GIVEN.items() for name in given.other]


def test_every_argument_of_every_operator_is_accounted_for() -> None:
    assert set(built_in()) - STATELESS == set(GIVEN)
    for kind, given in GIVEN.items():
        wanted = set(inspect.signature(kind.__init__).parameters) - {"self"}
        spared = {*KEPT_ELSEWHERE, *NOT_FELT_BY_STATE.get(kind, {})}
        assert wanted - spared == set(given.other), kind
        assert kind("o", **given.first).stateful


@pytest.mark.parametrize(("kind", "argument"), ARGUMENTS, ids=[f"{kind.__name__}.{name}" for kind, name in ARGUMENTS])
def test_another_argument_is_another_meaning(kind: type[Operator], argument: str) -> None:
    given = GIVEN[kind]
    first = kind("o", **given.first).meaning()
    assert first == kind("o", **given.first).meaning()
    other = kind("o", **{**given.first, argument: given.other[argument]}).meaning()
    changed = {name for name in {*first, *other} if first.get(name) != other.get(name)}
    assert changed


def test_what_is_spared_is_not_part_of_it() -> None:
    count = sw.operators.Count("o", key="k")
    same = sw.operators.Count("p", key="k", count_as="n", protect=sw.Approximate(theta=3), shards=5)
    assert count.meaning() == same.meaning()


def test_local_candidates_depend_on_theta() -> None:
    """A key that a lower threshold would have entered is not there: heavy hitters could be missed without a word."""
    first = GIVEN[sw.operators.hitters.LocalSketch].first
    exact, approximate = (
        sw.operators.hitters.LocalSketch("o", **first, protect=protect).meaning()
        for protect in (sw.Exact(), sw.Approximate(theta=50))
    )
    assert (exact.pop("least"), approximate.pop("least")) == ("50.0", "25.0")
    assert exact == approximate


def test_a_fault_is_part_of_what_it_strikes() -> None:
    def point(offset: int) -> dict[str, str]:
        return FaultPoint("f", Outage(targets=("o",), offset=offset, length=3), ports=1).meaning()

    def struck(offset: int) -> dict[str, str]:
        latest = sw.operators.LatestJoin("o", key="k", value="v")
        return with_struck_state(latest, StateCorruption(targets=("o",), offset=offset, length=1)).meaning()

    assert point(5) == point(5) != point(6)
    assert struck(5) == struck(5) != struck(6)
    assert struck(5)["value"] == "'v'"


class Limited(sw.operators.Count):
    """A user's own operator on top of one of ours."""

    parameters = ("limit",)

    def __init__(self, name: str, limit: Any) -> None:
        super().__init__(name, key="k", value="v")
        self.limit = limit


def test_parameters_add_to_those_of_the_base_class() -> None:
    assert Limited("o", 5).meaning() == {
        "class": "Limited",
        "version": "1",
        "key": "'k'",
        "state": "'counts HashTable(int64,int64,max)'",
        "value": "'v'",
        "limit": "5",
    }


def test_a_class_that_moves_keeps_its_meaning() -> None:
    elsewhere = type("Limited", (Limited,), {"__module__": "elsewhere", "__qualname__": "Other.Limited"})
    assert elsewhere("o", 5).meaning() == Limited("o", 5).meaning()


def test_a_parameter_that_does_not_exist_is_refused() -> None:
    class Missing(sw.Operator):
        parameters = ("limit",)
        total = sw.Number()

    with pytest.raises(GraphError) as refused:
        Missing("o").meaning()
    assert str(refused.value) == (
        "Operator 'o': Missing names 'limit' among its parameters and has no such attribute. Set self.limit in "
        "__init__, or take it out of parameters."
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda x: x, "what a function does cannot be told from its name"),
        ([print], "what a function does cannot be told from its name"),
        (object(), "a object has no words that are the same in every run"),
        (np.array([object()]), "a object has no words that are the same in every run"),
    ],
    ids=["function", "function in a list", "object", "array of objects"],
)
def test_a_parameter_without_words_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(GraphError) as refused:
        Limited("o", value).meaning()
    assert str(refused.value) == (
        f"Operator 'o': parameter 'limit' cannot be part of what its state means, because {reason}. Take it out of "
        f"parameters, and raise version whenever it changes."
    )


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Rule:
    column: str
    least: int = 0
    among: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "none"),
        ("none", "'none'"),
        (True, "True"),
        (1, "1"),
        (1.0, "1.0"),
        (np.float64(1.0), "1.0"),
        (b"x", "b'x'"),
        (Colour.RED, "Colour.RED"),
        (["a", ("b",)], "('a', ('b'))"),
        ({"b", "a"}, "{'a', 'b'}"),
        ({"b": 1, "a": None}, "{'b': 1, 'a': none}"),
        (timedelta(days=1, microseconds=3), "1 day, 0:00:00.000003"),
        (sw.field("bytes") > 10, "(bytes > 10)"),
        (pa.list_(pa.int64()), "list<item: int64>"),
        (sw.columns(n=pa.int64()), "seq: int64 not null, n: int64"),
        (re.compile("a+"), "'a+'"),
        (Path("a") / "b", "'a/b'"),
        (Colour, "Colour"),
        (Rule("k"), "Rule(column='k')"),
        (Rule("k", least=2, among=("x",)), "Rule(column='k', least=2, among=('x'))"),
        (sw.Hopping(time="at", length=MINUTE), "Hopping(time='at', length=0:01:00)"),
        (np.arange(3), "array(int64, (3,), 7fb6f0c094f81c5d)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_words(value: Any, words: str) -> None:
    assert written_down(value) == words
