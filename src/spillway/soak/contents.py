"""What a shard's memory says, read through its primitives, and how far two contents are apart."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from spillway.operators.operator import Operator
from spillway.state.conformance import Content, metric_distance
from spillway.state.primitives import HashTable, KeySet, Matrix, Number, Primitive, Vector
from spillway.state.sample import Sample
from spillway.state.tally import Tally, TallyTable
from spillway.state.window import Window

Contents = Mapping[str, Any]
"""By the name of each primitive: a number, an array, a dictionary or a set; of a window its groups' rows."""


def read(operator: Operator) -> Contents:
    """A copy of all that an operator at work on a shard keeps there."""
    return {name: _read(primitive) for name, primitive in operator.opened_state.items()}


def same(one: Contents, other: Contents, left_out: Collection[str] = ()) -> bool:
    """Whether two contents are equal, but for some primitives."""
    return all(_same(one[name], other[name]) for name in one if name not in left_out)


def differing(one: Contents, other: Contents, left_out: Collection[str] = ()) -> str:
    """The primitives that are not the same, and what they hold, cut short: of keys those that differ."""
    names = [name for name in one if name not in left_out and not _same(one[name], other[name])]
    return "; ".join(
        f"{name} is {_short(_apart(one[name], other[name]))} and should be {_short(_apart(other[name], one[name]))}"
        for name in names
    )


def distances(operator: Operator, ideal: Contents, found: Contents) -> dict[str, float]:
    """d(ideal, found) of each primitive that is measured, in its own metric."""
    measured = {
        name: primitive
        for name, primitive in operator.opened_state.items()
        if not isinstance(primitive, Tally | TallyTable)
    }
    return {
        name: metric_distance(primitive.metric, _measured(primitive, ideal[name]), _measured(primitive, found[name]))
        for name, primitive in measured.items()
    }


def _read(primitive: Primitive) -> Any:
    if isinstance(primitive, Number):
        return primitive.read()
    if isinstance(primitive, Vector | Matrix):
        return primitive.read().copy()
    if isinstance(primitive, HashTable | Sample):
        keys, numbers = primitive.items()
        return dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))
    if isinstance(primitive, KeySet):
        return set(primitive.items().to_pylist())
    assert isinstance(primitive, Window), f"no way to read {primitive.describe()}"
    keys = primitive.keys()
    rows, held = primitive.newest(keys)
    totals = primitive.totals(keys).tolist()
    return {
        key: (total, rows[i, : held[i]].tolist())
        for i, (key, total) in enumerate(zip(keys.to_pylist(), totals, strict=True))
    }


def _measured(primitive: Primitive, content: Any) -> Content:
    """The part of a content that its metric speaks of: of a window, how many rows each group was given."""
    if isinstance(primitive, Window):
        return {key: total for key, (total, _) in content.items()}
    measured: Content = content
    return measured


def _same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def _apart(content: Any, other: Any) -> Any:
    """The part of a content that another does not have; of arrays and numbers all."""
    if isinstance(content, dict):
        return {key: value for key, value in content.items() if key not in other or not _same(value, other[key])}
    return content - other if isinstance(content, set) else content


def _short(content: Any) -> str:
    text = " ".join(str(content).split())
    return text if len(text) <= 160 else f"{text[:160]}…"
