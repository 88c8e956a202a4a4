"""A streaming query taken apart: its plan is read from above, down to the node with state.

What there may be in a plan is said here, and what is not supported is refused, with its name.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spillway.errors import GraphError
from spillway.operators.ending import check_forget_after
from spillway.spark.catalyst import WATERMARK_DELAY, Catalyst, below, each, kind_of
from spillway.spark.protecting.aggregation import SORTED, Aggregation, evaluation, pieces_of
from spillway.spark.protecting.carrying import column_of, is_event_time, key_of
from spillway.spark.protecting.deduplication import Deduplication
from spillway.spark.protecting.evaluating import Evaluation
from spillway.spark.protecting.partial import Asked, kept_of
from spillway.spark.protecting.taken import LATE_BY, SEEN, Forgetting, Taken, event_time

_ABOVE = {"Project", "Filter", "SubqueryAlias", *SORTED}
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


def take_apart(frame: DataFrame, forget_after: timedelta | None = None) -> Taken:
    """Take a query apart; what is not supported is refused, with its name."""
    if not isinstance(frame, DataFrame):
        raise GraphError(f"sw.protect takes a streaming DataFrame; got {type(frame).__name__}.")
    if not frame.isStreaming:
        raise GraphError("sw.protect: the DataFrame is not a streaming one. Make it with spark.readStream.")
    return taken_apart(frame, forget_after)


def taken_apart(frame: DataFrame, forget_after: timedelta | None = None) -> Taken:
    """The same, whether or not it streams: of rows that are there, what is done with a micro-batch of them."""
    if forget_after is not None:
        check_forget_after("sw.protect", forget_after)
    catalyst = Catalyst(frame.sparkSession)
    node, above = catalyst.analyzed(frame), []
    while kind_of(node) in _ABOVE:
        above.append(node)
        node = node.children().head()
    if kind_of(node) == "Distinct":
        node = catalyst.grouped(node)  # of a query in SQL; DataFrame.distinct is dropDuplicates
    match kind_of(node):
        case "Aggregate":
            return _aggregation(catalyst, frame, node, above, forget_after)
        case "Deduplicate" | "DeduplicateWithinWatermark":
            return _deduplication(catalyst, frame, node, above, forget_after)
        case kind:
            raise GraphError(
                f"sw.protect takes a query that ends in groupBy(...).agg(...) or dropDuplicates(...), perhaps with "
                f"select and where after it; this one ends in {_named(kind)}. A query without state needs no "
                f"protection: start it as it is."
            )


def _aggregation(
    catalyst: Catalyst, frame: DataFrame, node: Any, above: Sequence[Any], forget_after: timedelta | None
) -> Aggregation:
    grouping, aggregates, results, under = catalyst.aggregation(catalyst.replaced(node))
    _check_stateless(under)
    meant = [expression.child() if kind_of(expression) == "Alias" else expression for expression in grouping]
    keys = [
        key_of(f"k{place}", expression.toAttribute(), catalyst.column(of), text=str(of.sql()))
        for place, (expression, of) in enumerate(zip(grouping, meant, strict=True))
    ]
    asked = [_asked(catalyst, place, aggregate) for place, aggregate in enumerate(aggregates)]
    kept = [kept_of(one) for one in asked]
    ends = next((end for end in (key.end() for key in keys) if end is not None), None)
    time = _event_time(under)
    forgetting = _forgetting(forget_after, ends=ends, keys=len(keys), time=time)
    inputs = [column.alias(name) for one in kept for name, column in one.inputs.items()]
    parts = [part.column.alias(part.name) for key in keys for part in key.parts]
    if time is not None and forgetting is not None:
        inputs.append(event_time(catalyst, time).alias(SEEN))
    entering = catalyst.frame(under).select(*(parts + inputs or [sql.lit(1).alias(_ONE_ROW)]))
    pieces = [piece for one, of in zip(asked, kept, strict=True) for piece in pieces_of(one, of)]
    return Aggregation(
        entering=entering,
        keys=keys,
        pieces=pieces,
        ends=ends,
        forgetting=forgetting,
        schema=frame.schema,
        aggregates=aggregates,
        results=results,
        evaluation=evaluation(catalyst, keys, pieces, aggregates, kept, results, above),
    )


def _deduplication(
    catalyst: Catalyst, frame: DataFrame, node: Any, above: Sequence[Any], forget_after: timedelta | None
) -> Deduplication:
    under = node.child()
    _check_stateless(under)
    by = {attribute.exprId().id() for attribute in each(node.keys())}
    wanted = _looked_at(above)
    columns = [
        column_of(f"c{place}", attribute, catalyst.column(attribute), is_key=attribute.exprId().id() in by)
        for place, attribute in enumerate(each(under.output()))
        if wanted is None or attribute.exprId().id() in wanted | by
    ]
    keys = [column for column in columns if column.attribute.exprId().id() in by]
    time, forgetting = _event_time(under), None
    ends = next((end for end in (key.end() for key in keys) if end is not None), None)
    if kind_of(node) == "DeduplicateWithinWatermark":
        if forget_after is not None:
            raise GraphError(
                "sw.protect: dropDuplicatesWithinWatermark forgets keys by itself: leave out forget_after."
            )
        if time is None:
            raise GraphError("sw.protect: dropDuplicatesWithinWatermark wants withWatermark before it, as Spark does.")
        delay_ms = int(time.metadata().getLong(WATERMARK_DELAY))
        ends, forgetting = None, Forgetting(after=timedelta(milliseconds=delay_ms), by_event_time=True)
    else:
        forgetting = _forgetting(forget_after, ends=ends, keys=len(keys), time=time)
    also = [] if time is None else [event_time(catalyst, time).alias(LATE_BY)]
    carried = [part.column.alias(part.name) for column in columns for part in column.parts]
    return Deduplication(
        entering=catalyst.frame(under).select(*carried, *also),
        columns=columns,
        keys=keys,
        ends=ends,
        forgetting=forgetting,
        late_by=None if time is None else LATE_BY,
        schema=frame.schema,
        evaluation=Evaluation(
            columns=[column.rebuilt().alias(f"c{place}") for place, column in enumerate(columns)],
            attributes=[catalyst.named(column.attribute) for column in columns],
            evaluated=None,
            results=None,
            above=above,
        ),
    )


def _looked_at(above: Sequence[Any]) -> set[int] | None:
    """The numbers of the attributes that what lies above refers to; None if that is all there are."""
    if not any(kind_of(node) == "Project" for node in above):
        return None
    return {one.exprId().id() for node in above for one in each(node.references().toSeq())}


def _event_time(under: Any) -> Any | None:
    """The column that a watermark is about, if there is one."""
    return next((attribute for attribute in each(under.output()) if is_event_time(attribute)), None)


def _forgetting(after: timedelta | None, *, ends: str | None, keys: int, time: Any | None) -> Forgetting | None:
    if after is None:
        return None
    if ends is not None:
        raise GraphError(
            "sw.protect: forget_after is for keys without a time among them; here the watermark ends what is kept."
        )
    if not keys:
        raise GraphError("sw.protect: forget_after wants keys to forget, and this query has none.")
    return Forgetting(after=after, by_event_time=time is not None)


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
        catalyst=catalyst,
        text=str(aggregate.sql()),
    )


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
