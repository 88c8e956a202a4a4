"""Operators with one key column, whose state is by that key: they find out its type from what they read."""

import copy
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError
from spillway.graph.key_types import KEY_TYPES, is_key_type
from spillway.operators.hashing import key_hashes
from spillway.operators.operator import Operator
from spillway.operators.stored_keys import given, stored, stored_type


class ByKey(Operator):
    """An operator with one key column; the primitives named in ``state_by_key`` keep its keys as ``stored`` has them.

    Until the graph is checked nobody knows the key's type, and those primitives are declared for any.
    """

    key_kind: pa.DataType = pa.string()
    """The type of the key column, once the operator is resolved."""
    key_optional: ClassVar[bool] = False
    """Whether it also works without any key."""

    def resolved(self, inputs: Mapping[str, pa.Schema]) -> Self:
        resolved = copy.copy(super().resolved(inputs))
        if self.key_optional and not self.key:
            return resolved
        if len(self.key) != 1:
            raise GraphError(f"Operator {self.name!r} works by one key column; got {', '.join(self.key) or 'none'}.")
        (column,) = self.key
        kinds = {}
        for port in self.inputs:
            self.want(inputs, port, **{column: None})
            kinds[port] = inputs[port].field(column).type
        first, *others = kinds
        for port in others:
            if kinds[port] != kinds[first]:
                raise GraphError(
                    f"Operator {self.name!r}: key column {column!r} must have one type; it is {kinds[first]} on port "
                    f"{first!r} and {kinds[port]} on port {port!r}. Cast one of them."
                )
        kind = kinds[first]
        if not is_key_type(kind):
            raise GraphError(f"Operator {self.name!r}: key column {column!r} must be {KEY_TYPES}; it is {kind}.")
        resolved.key_kind = kind
        for name in self.state_by_key:
            primitive = copy.copy(getattr(self, name))
            primitive.key = stored_type(kind)
            resolved.__dict__[name] = primitive
        return resolved

    def key_field(self, inputs: Mapping[str, pa.Schema], port: str) -> pa.Field:
        """The key column of a port."""
        return inputs[port].field(self.key[0])

    def stored_keys(self, batch: pa.RecordBatch) -> pa.Array:
        """The keys of tuples, as tables keep them."""
        return stored(batch[self.key[0]])

    def given_keys(self, keys: pa.Array) -> pa.Array:
        """Keys of a table, as the tuples had them."""
        return given(keys, self.key_kind)

    def sharding_hashes(self, name: str, keys: pa.Array) -> npt.NDArray[np.uint64] | None:
        if name not in self.state_by_key:
            return super().sharding_hashes(name, keys)
        return key_hashes(pa.record_batch([self.given_keys(keys)], names=["key"]), ["key"])
