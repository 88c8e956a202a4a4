"""A streaming query that ends in an aggregation, taken apart: what Spark does with each micro-batch, what is kept
between them, and what Spark makes of that.

    what lies below the aggregation                                    streaming, as it was
    keys and arguments of the aggregates, as columns of their own      streaming
    ---- for each micro-batch ----
    groupBy(keys).agg(partials)                                        Spark; its exchange brings keys to their shards
    folded into what was kept                                          ours: ``operators.aggregate``
    results, by Spark's own expressions; what lies above               Spark
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.graph.protections import Approximate, Protection
from spillway.graph.sinks import FileColumn
from spillway.operators.aggregate import Folded
from spillway.operators.held import is_measured
from spillway.spark.protecting.carrying import Key, KeyPart, carried_type, file_type, from_python, key_of, to_python
from spillway.spark.protecting.catalyst import Catalyst, below, each, kind_of
from spillway.spark.protecting.evaluating import Evaluation
from spillway.spark.protecting.partial import Asked, Kept, Partial, kept_of

_SORTED = {"Sort", "GlobalLimit", "LocalLimit"}
_ABOVE = {"Project", "Filter", "SubqueryAlias", *_SORTED}
_STATEFUL = {
    "Aggregate": "another aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
    "GlobalLimit": "limit",
    "Sort": "orderBy",
    "Distinct": "distinct",
}
_ONE_ROW = "one"
_AS_KEPT = {"Count", "Sum", "Min", "Max"}  # whose result is the one value that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A partial with the name of its column."""

    name: str
    partial: Partial
    arrow: pa.DataType
    valid_by: str | None
    of: str  # the aggregate as it stands in the query


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """The query, taken apart."""

    entering: DataFrame  # streaming: keys and arguments
    keys: Sequence[Key]
    pieces: Sequence[Piece]
    ends: str | None  # the column of the key that says when a row ends
    schema: Any  # of the results
    aggregates: Sequence[Any]
    results: Sequence[Any]
    evaluation: Evaluation

    @property
    def parts(self) -> list[KeyPart]:
        return [part for key in self.keys for part in key.parts]

    @property
    def sorted(self) -> bool:
        """Whether groups are put in order, or cut off, after the aggregation."""
        return any(kind_of(node) in _SORTED for node in self.evaluation.above)

    def about(self) -> tuple[str, ...]:
        """What is kept, as text: another query has other state."""
        return (*(f"key {key.text}" for key in self.keys), *(piece.of for piece in self.pieces))

    def weights(self, protection: Protection, thetas: Mapping[str, float]) -> dict[str, float]:
        """What a difference of one counts in each piece, if some columns of the result have a theta of their own.

        Refused where no theta can say how far something may be off.
        """
        if not isinstance(protection, Approximate):
            if thetas:
                raise GraphError(f"sw.protect: theta is for Approximate; the protection is {protection.describe()}.")
            return {}
        for piece in self.pieces:
            if not is_measured(piece.arrow):
                raise GraphError(
                    f"sw.protect: {piece.of} keeps values of {piece.partial.type.lower()}, of which nothing tells how "
                    f"far two are apart, so no theta can bound the error. Use Exact() or Coordinated(every=...), cast "
                    f"it to double, or leave it out."
                )
        names = [str(one.name()) for one in self.results]
        for name, theta in thetas.items():
            if name not in names:
                raise GraphError(f"sw.protect: theta names column {name!r}; the aggregation has {', '.join(names)}.")
            if not theta > 0:
                raise GraphError(f"sw.protect: theta of column {name!r} must be above zero; got {theta!r}.")
        found: dict[str, float] = {}
        for name, column in zip(names, self.results, strict=True) if thetas else ():
            for piece in self._behind(column):
                # A piece that two columns rest on is as exact as the stricter of them wants it.
                weight = protection.theta / thetas.get(name, protection.theta)
                found[piece.name] = max(found.get(piece.name, 0.0), weight)
        return found

    def _behind(self, column: Any) -> list[Piece]:
        """The pieces that a column of the aggregation's result rests on."""
        wanted = {one.exprId().id() for one in each(column.references().toSeq())}
        behind = {str(one.sql()) for one in self.aggregates if one.resultAttribute().exprId().id() in wanted}
        return [piece for piece in self.pieces if piece.of in behind]

    def carried(self) -> pa.Schema:
        """What goes to Python, and comes back."""
        keys = [pa.field(part.name, part.arrow) for part in self.parts]
        return pa.schema([*keys, *(pa.field(piece.name, piece.arrow) for piece in self.pieces)])

    def folded(self, weights: Mapping[str, float]) -> dict[str, Folded]:
        """What is kept of each group; ``weights`` are those of pieces that have one of their own."""
        return {
            piece.name: Folded(
                fold=piece.partial.fold,
                column=piece.name,
                type=piece.arrow,
                valid_by=piece.valid_by,
                weight=weights.get(piece.name, 1.0),
            )
            for piece in self.pieces
        }

    def added_up(self, rows: DataFrame, *, shards: int, late_us: int | None, at_once: bool) -> DataFrame:
        """Keys and partials of a micro-batch, each group in the partition that is its shard.

        With ``at_once`` rows go there as they are; otherwise they are added up before too, as Spark likes it.
        """
        names = [part.name for part in self.parts]
        if late_us is not None and self.ends is not None:
            rows = rows.where(sql.col(self.ends).isNull() | (sql.col(self.ends) > sql.lit(late_us)))
        if at_once and names:
            rows = rows.repartition(shards, *names)
        partials = [to_python(piece.partial.of_batch, piece.partial.type).alias(piece.name) for piece in self.pieces]
        if not partials:
            return rows.select(*names).distinct()
        return rows.groupBy(*names).agg(*partials)

    def as_kept(self) -> tuple[FileColumn, ...] | None:
        """The columns of the result, if each is a key or a value just as it is kept; otherwise None."""
        known: dict[int, tuple[tuple[str, ...], pa.DataType]] = {}
        for key in self.keys:
            known[key.attribute.exprId().id()] = tuple(part.name for part in key.parts), key.file_type()
        if self.evaluation.above:
            return None
        for aggregate in self.aggregates:
            mine = [piece for piece in self.pieces if piece.of == str(aggregate.sql())]
            if len(mine) == 1 and kind_of(aggregate.aggregateFunction()) in _AS_KEPT:
                kind = file_type(mine[0].partial.type, mine[0].arrow)
                known[aggregate.resultAttribute().exprId().id()] = (mine[0].name,), kind
        columns = []
        for result in self.results:
            of = result.child() if kind_of(result) == "Alias" else result
            if kind_of(of) != "AttributeReference" or of.exprId().id() not in known:
                return None
            names, kind = known[of.exprId().id()]
            columns.append(FileColumn(name=str(result.name()), type=kind, of=names))
        return tuple(columns)

    def result(self, found: DataFrame) -> DataFrame:
        """The results of the query, of groups as they came back from Python."""
        return self.evaluation.of(found)


def _evaluation(
    catalyst: Catalyst,
    keys: Sequence[Key],
    pieces: Sequence[Piece],
    aggregates: Sequence[Any],
    kept: Sequence[Kept],
    results: Sequence[Any],
    above: Sequence[Any],
) -> Evaluation:
    columns = [key.rebuilt() for key in keys]
    attributes = [key.attribute for key in keys]
    evaluated = list(attributes)
    waiting = iter(pieces)
    for aggregate, of in zip(aggregates, kept, strict=True):
        mine = [next(waiting) for _ in of.partials]
        function = aggregate.aggregateFunction()
        columns += of.buffers([from_python(sql.col(one.name), one.partial.type) for one in mine])
        attributes += each(function.aggBufferAttributes())
        evaluated.append(catalyst.renamed(function.evaluateExpression(), catalyst.named(aggregate.resultAttribute())))
    return Evaluation(
        columns=[one.alias(f"c{place}") for place, one in enumerate(columns)],
        attributes=[catalyst.named(one) for one in attributes],
        evaluated=catalyst.sequence(evaluated),
        results=catalyst.sequence(results),
        above=above,
    )


def take_apart(frame: DataFrame) -> Aggregation:
    """Take a query apart; what is not supported is refused, with its name."""
    if not isinstance(frame, DataFrame):
        raise GraphError(f"sw.protect takes a streaming DataFrame; got {type(frame).__name__}.")
    if not frame.isStreaming:
        raise GraphError("sw.protect: the DataFrame is not a streaming one. Make it with spark.readStream.")
    return taken_apart(frame)


def taken_apart(frame: DataFrame) -> Aggregation:
    """The same, whether or not it streams: of rows that are there, what is done with a micro-batch of them."""
    catalyst = Catalyst(frame.sparkSession)
    node, above = catalyst.analyzed(frame), []
    while kind_of(node) in _ABOVE:
        above.append(node)
        node = node.children().head()
    if kind_of(node) != "Aggregate":
        raise GraphError(
            f"sw.protect takes a query that ends in groupBy(...).agg(...), perhaps with select and where after it; "
            f"this one ends in {_named(kind_of(node))}. A query without state needs no protection: start it as it is."
        )
    grouping, aggregates, results, under = catalyst.aggregation(catalyst.replaced(node))
    _check_stateless(under)
    meant = [expression.child() if kind_of(expression) == "Alias" else expression for expression in grouping]
    keys = [
        key_of(place, expression.toAttribute(), catalyst.column(of), text=str(of.sql()))
        for place, (expression, of) in enumerate(zip(grouping, meant, strict=True))
    ]
    asked = [_asked(catalyst, place, aggregate) for place, aggregate in enumerate(aggregates)]
    kept = [kept_of(one) for one in asked]
    inputs = [column.alias(name) for one in kept for name, column in one.inputs.items()]
    parts = [part.column.alias(part.name) for key in keys for part in key.parts]
    entering = catalyst.frame(under).select(*(parts + inputs or [sql.lit(1).alias(_ONE_ROW)]))
    pieces = [piece for one, of in zip(asked, kept, strict=True) for piece in _pieces(one, of)]
    return Aggregation(
        entering=entering,
        keys=keys,
        pieces=pieces,
        ends=next((end for end in (key.end() for key in keys) if end is not None), None),
        schema=frame.schema,
        aggregates=aggregates,
        results=results,
        evaluation=_evaluation(catalyst, keys, pieces, aggregates, kept, results, above),
    )


def _asked(catalyst: Catalyst, place: int, aggregate: Any) -> Asked:
    if kind_of(aggregate) != "AggregateExpression":
        raise GraphError(f"sw.protect: aggregate functions written in Python, such as {aggregate.sql()}, are refused.")
    if aggregate.isDistinct():
        raise GraphError(
            f"sw.protect: {aggregate.sql()}: Spark does not support distinct aggregates of streams, nor does this."
        )
    chosen = aggregate.filter()
    return Asked(
        name=f"v{place}",
        function=aggregate.aggregateFunction(),
        filter=chosen.get() if chosen.isDefined() else None,
        column=catalyst.column,
        text=str(aggregate.sql()),
    )


def _pieces(asked: Asked, kept: Kept) -> list[Piece]:
    def name(place: int) -> str:
        return f"p{asked.name}_{place}"

    return [
        Piece(
            name=name(place),
            partial=partial,
            arrow=carried_type(partial.type, asked.text),
            valid_by=None if partial.valid_by is None else name(partial.valid_by),
            of=asked.text,
        )
        for place, partial in enumerate(kept.partials)
    ]


def _check_stateless(under: Any) -> None:
    def check(node: Any) -> None:
        kind = kind_of(node)
        two_streams = kind == "Join" and all(side.isStreaming() for side in each(node.children()))
        if node.isStreaming() and (kind in _STATEFUL or two_streams):
            what = "a join of two streams" if two_streams else _STATEFUL[kind]
            raise GraphError(
                f"sw.protect takes one aggregation on top of a query without state; below it is {what}. Write what "
                f"comes of that to a table or topic, and read it from there."
            )

    below(under, check)


def _named(kind: str) -> str:
    return _STATEFUL.get(kind, kind)
