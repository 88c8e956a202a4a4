"""Spark's aggregate functions, each as what is kept of it: one declaration for each, and whatever has none is refused.

Spark keeps a *buffer* for each group and function: a few values that rows are added to, and from which the result is
evaluated. Ours are the same. Of a micro-batch Spark computes buffers, as *partial* columns of a ``groupBy``; they are
folded into those of the batches before (see ``operators.aggregate``); and Spark evaluates the result from what comes
out, by its own expression. So rounding, types and nulls of results are Spark's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.operators.sketched import RANKS, words_of
from spillway.spark.catalyst import Catalyst, each, kind_of
from spillway.state.folding import Fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """One value that is kept for each group: what Spark computes of a batch, and how batches are put together."""

    of_batch: Column  # in terms of the input columns
    type: str  # as Spark writes it
    fold: Fold
    valid_by: int | None = None  # the partial that says where this one counts, though it be null
    registers: int = 0  # of a sketch


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of one aggregate."""

    inputs: Mapping[str, Column]  # in terms of the rows: columns that partials refer to by these names
    partials: Sequence[Partial]
    buffers: Callable[[Sequence[Column]], Sequence[Column]] | None = None
    """Spark's own, in terms of the partials' columns; its result is what Spark makes of these."""
    value: Callable[[Sequence[str]], Column] | None = None
    """The result, in terms of the names of these columns, where no expression of Spark's makes one of buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An aggregate as it stands in a query."""

    name: str  # of its input columns: each begins with it
    function: Any
    filter: Any | None
    catalyst: Catalyst
    text: str

    def column(self, expression: Any) -> Column:
        return self.catalyst.column(expression)

    @property
    def arguments(self) -> list[Any]:
        return [*each(self.function.children())]

    @property
    def buffer_types(self) -> list[str]:
        return [str(one.dataType().sql()) for one in each(self.function.aggBufferAttributes())]

    def argument(self, place: int = 0) -> Column:
        """An argument, null in rows that the aggregate's filter leaves out."""
        found = self.column(self.arguments[place])
        return found if self.filter is None else sql.when(self.column(self.filter), found)

    def input(self) -> Column:
        return sql.col(self.name)


def kept_of(asked: Asked) -> Kept:
    """What is kept of an aggregate; refused if nothing is known of its function."""
    kind = kind_of(asked.function)
    if kind not in _KINDS:
        raise GraphError(
            f"sw.protect: {asked.function.prettyName()} is not supported. What is: {', '.join(sorted(SUPPORTED))}. "
            f"Leave it out, or run the query as it is."
        )
    return _KINDS[kind](asked)


def _count(asked: Asked) -> Kept:
    arguments = asked.arguments
    if asked.filter is None and not any(argument.nullable() for argument in arguments):
        inputs: dict[str, Column] = {}
        counted = sql.count(sql.lit(1))
    else:
        present = sql.lit(True)
        for place in range(len(arguments)):
            present = present & asked.argument(place).isNotNull()
        inputs = {asked.name: sql.when(present, sql.lit(1))}
        counted = sql.count(asked.input())
    return Kept(
        inputs=inputs, partials=[Partial(of_batch=counted, type="BIGINT", fold="add")], buffers=lambda found: [*found]
    )


def _sum(asked: Asked) -> Kept:
    if str(asked.function.prettyName()) != "sum":
        raise GraphError(f"sw.protect: {asked.function.prettyName()} is not supported; sum is.")
    kind, *empty = asked.buffer_types
    partial = Partial(of_batch=sql.sum(asked.input()), type=kind, fold="add")
    return Kept(
        inputs={asked.name: asked.argument()},
        partials=[partial],
        buffers=lambda found: [found[0], found[0].isNull()] if empty else [found[0]],
    )


def _average(asked: Asked) -> Kept:
    kind, _ = asked.buffer_types
    added = asked.input() if kind.startswith("DECIMAL") else asked.input().cast("double")
    partials = [
        Partial(of_batch=sql.sum(added), type=kind, fold="add"),
        Partial(of_batch=sql.count(asked.input()), type="BIGINT", fold="add"),
    ]
    return Kept(
        inputs={asked.name: asked.argument()},
        partials=partials,
        buffers=lambda found: [sql.coalesce(found[0], sql.lit(0).cast(kind)), found[1]],
    )


def _extreme(fold: Fold) -> Callable[[Asked], Kept]:
    function = sql.min if fold == "least" else sql.max

    def kept(asked: Asked) -> Kept:
        (kind,) = asked.buffer_types
        partial = Partial(of_batch=function(asked.input()), type=kind, fold=fold)
        return Kept(inputs={asked.name: asked.argument()}, partials=[partial], buffers=lambda found: [*found])

    return kept


def _end(fold: Fold) -> Callable[[Asked], Kept]:
    function = sql.first if fold == "first" else sql.last

    def kept(asked: Asked) -> Kept:
        kind, _ = asked.buffer_types
        if asked.function.ignoreNulls():
            partial = Partial(of_batch=function(asked.input(), ignorenulls=True), type=kind, fold=fold)
            return Kept(
                inputs={asked.name: asked.argument()},
                partials=[partial],
                buffers=lambda found: [found[0], found[0].isNotNull()],
            )
        # Null is a value then. Rows come as structs, so that there is a first of those that the filter lets through.
        value = sql.struct(asked.column(asked.arguments[0]).alias("value"))
        row = value if asked.filter is None else sql.when(asked.column(asked.filter), value)
        chosen = function(asked.input(), ignorenulls=True)
        partials = [
            Partial(of_batch=chosen.getField("value"), type=kind, fold=fold, valid_by=1),
            Partial(
                of_batch=sql.when(chosen.isNotNull(), chosen.getField("value").isNull()), type="BOOLEAN", fold=fold
            ),
        ]
        return Kept(
            inputs={asked.name: row},
            partials=partials,
            buffers=lambda found: [sql.when(~found[1], found[0]), found[1].isNotNull()],
        )

    return kept


def _how_many_different(asked: Asked) -> Kept:
    """HyperLogLog++ with registers as Spark keeps them: of a batch Spark tells which ranks they were shown."""
    sketch = asked.catalyst.sketch(asked.function.relativeSD())
    bits = round(2 * math.log2(_ERROR_OF_ONE / sketch.trueRsd()))
    registers = 1 << bits
    assert words_of(registers) == sketch.numWords(), "Spark's words are as ours"
    value = asked.argument()
    hashed = sql.xxhash64(value)
    rank = asked.catalyst.leading_zeros(sql.shiftleft(hashed, bits).bitwiseOR(sql.lit(1 << (bits - 1)))) + 1
    register = sql.shiftrightunsigned(hashed, 64 - bits).cast("int")
    partial = Partial(of_batch=sql.collect_set(asked.input()), type="ARRAY<INT>", fold="registers", registers=registers)

    def estimate(found: Sequence[str]) -> Column:
        words = ", ".join(f"{found[0]}[{place}]" for place in range(sketch.numWords()))
        return asked.catalyst.estimate(sketch, sql.expr(f"struct({words})"))

    return Kept(
        inputs={asked.name: sql.when(value.isNotNull(), register * RANKS + rank)}, partials=[partial], value=estimate
    )


_ERROR_OF_ONE = 1.106
"""The relative error with one register, as Spark reckons it; with m of them it is that over the root of m."""

_KINDS: dict[str, Callable[[Asked], Kept]] = {
    "Count": _count,
    "Sum": _sum,
    "Average": _average,
    "Min": _extreme("least"),
    "Max": _extreme("greatest"),
    "First": _end("first"),
    "Last": _end("last"),
    "HyperLogLogPlusPlus": _how_many_different,
}

SUPPORTED = (
    "approx_count_distinct",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "count_if",
    "first",
    "last",
    "max",
    "min",
    "sum",
)
