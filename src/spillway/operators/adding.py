"""Tuples that come added up: what an operator declares to be given one row in place of many tuples.

An operator that only adds numbers to keys comes to the same whether it is given the tuples of a key one by one or their
sum. One that declares so (``Operator.adds_up``) may be given ``Added`` tuples, by whoever can add up more cheaply than
tuples can be brought to it; whether that is done is not the operator's business (see ``engine.adding``).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingUp:
    """Tuples that agree in the columns ``by`` may come as one, with the sum of each of the columns ``sums``.

    Sums are those of 64-bit integers none of which is negative: then a sum fits 64 bits if and only if every part of it
    does, in whatever order. Tuples with others, or with nulls, come one by one.
    """

    by: tuple[str, ...]
    sums: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.by or set(self.by) & set(self.sums):
            raise GraphError(f"AddingUp: by wants columns, and others than sums; got {self!r}.")


@dataclass(frozen=True, slots=True)
class Added:
    """Some tuples, added up: each value of ``by`` at most once in each of them."""

    batch: pa.RecordBatch
    """``seq``, the highest of the tuples; the columns ``by``; the sums, under the names of their columns."""
    tuples: npt.NDArray[np.int64]
    """How many tuples each row stands for, (rows,)."""
