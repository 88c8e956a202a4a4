"""State that goes to other shards: the entries of some keys copied, or the numbers of whole shards added up.

Each kind of primitive says here what can be done with it. One of a user's own registers what it can do; of what nobody
registered, nothing is known, and it stays where it is.

    HashTable, TallyTable, KeySet, Sample, Window    ``held_keys`` and ``copy_entries``: by key, bit for bit
    Number, Vector, Matrix, Tally                    ``add_up``: cell by cell, where the operator says that they add up
"""

from functools import singledispatch

import numpy as np
import pyarrow as pa

from spillway.errors import StateError
from spillway.state.keys import Int64s
from spillway.state.primitives import HashTable, KeySet, Matrix, Number, Primitive, Vector
from spillway.state.sample import Sample
from spillway.state.window import Window


@singledispatch
def held_keys(primitive: Primitive) -> pa.Array | None:
    """All keys of a bound primitive, by position; None if it has none."""
    return None


@singledispatch
def copy_entries(source: Primitive, target: Primitive, positions: Int64s) -> None:
    """Enter into ``target``, which is of the same kind and has none of these keys, what ``source`` has there."""
    raise StateError(f"{source.describe()} has no entries that could be copied.")


@singledispatch
def add_up(source: Primitive, target: Primitive) -> None:
    """Add every number of ``source`` to the one of ``target`` at the same place."""
    raise StateError(f"{source.describe()} has no numbers that could be added up.")


def adds_up(primitive: Primitive) -> bool:
    """Whether something is known of how to add up such primitives."""
    return add_up.dispatch(type(primitive)) is not add_up.dispatch(object)


def has_keys(primitive: Primitive) -> bool:
    """Whether something is known of the keys of such primitives."""
    return held_keys.dispatch(type(primitive)) is not held_keys.dispatch(object)


@held_keys.register
def _(primitive: HashTable) -> pa.Array:
    return primitive.items()[0]


@held_keys.register
def _(primitive: KeySet) -> pa.Array:
    return primitive.items()


@held_keys.register
def _(primitive: Sample) -> pa.Array:
    return primitive.items()[0]


@held_keys.register
def _(primitive: Window) -> pa.Array:
    return primitive.keys()


@copy_entries.register
def _(source: HashTable, target: HashTable, positions: Int64s) -> None:
    keys, numbers = source.items()
    target.set(keys.take(pa.array(positions)), numbers[positions])


@copy_entries.register
def _(source: KeySet, target: KeySet, positions: Int64s) -> None:
    target.add(source.items().take(pa.array(positions)))


@copy_entries.register
def _(source: Sample, target: Sample, positions: Int64s) -> None:
    copy_entries(source.table, target.table, positions)


@copy_entries.register
def _(source: Window, target: Window, positions: Int64s) -> None:
    places = target.enter(source.keys().take(pa.array(positions)))
    target.counts[places] = source.counts[positions]
    target.rings[places] = source.rings[positions]


@add_up.register
def _(source: Number, target: Number) -> None:
    target.write(target.read() + source.read())


@add_up.register
def _(source: Vector, target: Vector) -> None:
    cells = np.flatnonzero(source.read())
    target.add(cells, source.read()[cells])


@add_up.register
def _(source: Matrix, target: Matrix) -> None:
    rows, columns = np.nonzero(source.read())
    target.add(rows, columns, source.read()[rows, columns])
