"""Operators whose keys have nothing to do with each other: the declaration that makes trials of faults cheap.

A *keyed* operator promises that what it keeps and puts out for a key follows from that key's tuples alone, in the order
in which they arrive, however they are cut into batches and whatever other keys do. A fault then concerns only the keys
whose tuples it touched, and each of them only until its state is again what it would have been. ``states`` makes that a
matter of comparing numbers: two runs whose states of a key are equal put out the same for that key from then on.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.operators.by_key import ByKey
from spillway.operators.operator import Operator

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


class Keyed(ByKey, ABC):
    """An operator with one key column, which keeps the promise above."""

    @abstractmethod
    def states(self, keys: pa.Array) -> Float64s:
        """What the future of each key depends on, (keys, numbers): equal rows mean equal futures."""


def numbered(keys: pa.Array) -> tuple[Int64s, pa.Array]:
    """Each key's number among the different ones, and those: ``different[numbers[i]] == keys[i]``.

    >>> numbers, different = numbered(pa.array(["b", "a", "b"]))
    >>> numbers.tolist(), different.to_pylist()
    ([0, 1, 0], ['b', 'a'])
    """
    encoded = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), encoded.dictionary


def float_column(operator: Operator, batch: pa.RecordBatch, column: str) -> Float64s:
    """A column as floating-point numbers; every tuple must have one."""
    values = batch[column]
    if values.null_count:
        raise InputError(f"Operator {operator.name!r}: column {column!r} is null in {values.null_count} tuples.")
    return cast(Float64s, np.asarray(values).astype(np.float64))


def want_number(operator: Operator, inputs: Mapping[str, pa.Schema], port: str, column: str) -> None:
    """Refuse a column that is missing or not a number."""
    operator.want(inputs, port, **{column: None})
    kind: Any = inputs[port].field(column).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise GraphError(f"Operator {operator.name!r}: column {column!r} must be a number; it is {kind}.")
