"""An aggregation, taken apart: Spark groups each micro-batch, and what comes of a group is folded into what there was.

groupBy(keys).agg(partials)       Spark; its exchange brings keys to their shards
folded into what was kept         ours: ``operators.aggregate``
results                           Spark's own expressions
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
from spillway.graph.summed import Clock, When
from spillway.operators.aggregate import Aggregate, Folded, Mode
from spillway.operators.held import is_measured
from spillway.spark.catalyst import Catalyst, each, kind_of
from spillway.spark.protecting.carrying import Key, KeyPart, carried_type, file_type, from_python, to_python
from spillway.spark.protecting.evaluating import Evaluation
from spillway.spark.protecting.partial import Asked, Kept, Partial
from spillway.spark.protecting.taken import SEEN, Taken, in_time, seen_at

SORTED = {"Sort", "GlobalLimit", "LocalLimit"}
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
class Aggregation(Taken):
    """A query that ends in ``groupBy(...).agg(...)``."""

    keys: Sequence[Key]
    pieces: Sequence[Piece]
    aggregates: Sequence[Any]
    results: Sequence[Any]

    @property
    def parts(self) -> list[KeyPart]:
        return [part for key in self.keys for part in key.parts]

    @property
    def groups_first(self) -> bool:
        return True

    def about(self) -> tuple[str, ...]:
        return (*(f"key {key.text}" for key in self.keys), *(piece.of for piece in self.pieces))

    def check_protection(self, protection: Protection, thetas: Mapping[str, float]) -> None:
        self.weights(protection, thetas)
        if isinstance(protection, Approximate) and self.forgetting is not None:
            raise GraphError(
                "sw.protect: under Approximate a group that was recovered could be forgotten too soon, with all it "
                "has, so no theta bounds the error. Use forget_after with Exact() or Coordinated(every=...)."
            )

    def check_mode(self, mode: Mode) -> None:
        if mode == "append" and self.ends is None:
            raise GraphError(
                "sw.protect: append puts a group out once, when no more can come for it, so it wants a watermark and a "
                "window or the time itself among the keys, as Spark does. Call withWatermark before groupBy, or use "
                "outputMode('update') or outputMode('complete')."
            )
        if mode != "complete" and any(kind_of(node) in SORTED for node in self.evaluation.above):
            raise GraphError(
                "sw.protect: orderBy and limit after an aggregation have a meaning only where all groups are put out: "
                "use outputMode('complete'), as Spark wants it, or leave them out."
            )

    def clock(self, mode: Mode) -> Clock | None:
        if self.forgetting is not None:
            return "watermark" if self.forgetting.by_event_time else "batch"
        return None if self.ends is None or mode == "complete" else "watermark"

    def puts_out_last(self, mode: Mode) -> bool:
        return mode == "append"

    def operator(
        self,
        name: str,
        *,
        mode: Mode,
        told_by: str,
        protection: Protection | None,
        thetas: Mapping[str, float],
        shards: int,
        wraps: bool,
    ) -> Aggregate:
        told = self.clock(mode) is not None
        return Aggregate(
            name,
            key={part.name: part.arrow for part in self.parts},
            values=self.folded({} if protection is None else self.weights(protection, thetas)),
            about=self.about(),
            wraps=wraps,
            mode=mode,
            ends=self.ends if told else None,
            forget_after=None if self.forgetting is None else self.forgetting.after,
            seen=None if self.forgetting is None else SEEN,
            told_by=told_by if told else None,
            protect=protection,
            shards=shards if self.parts else 1,
        )

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
        keys = [pa.field(part.name, part.arrow) for part in self.parts]
        seen = [] if self.forgetting is None else [pa.field(SEEN, pa.int64())]
        return pa.schema([*keys, *(pa.field(piece.name, piece.arrow) for piece in self.pieces), *seen])

    def folded(self, weights: Mapping[str, float]) -> dict[str, Folded]:
        """What is kept of each group; ``weights`` are those of pieces that have one of their own."""
        return {
            piece.name: Folded(
                fold=piece.partial.fold,
                column=piece.name,
                type=piece.arrow,
                valid_by=piece.valid_by,
                weight=weights.get(piece.name, 1.0),
                registers=piece.partial.registers,
            )
            for piece in self.pieces
        }

    def added_up(self, rows: DataFrame, *, shards: int, when: When, at_once: bool) -> DataFrame:
        names = [part.name for part in self.parts]
        rows = in_time(rows, self.ends, when)
        if at_once and names:
            rows = rows.repartition(shards, *names)
        partials = [to_python(piece.partial.of_batch, piece.partial.type).alias(piece.name) for piece in self.pieces]
        partials += seen_at(self.forgetting, when, sql.max(SEEN))
        if not partials:
            return rows.select(*names).distinct()
        return rows.groupBy(*names).agg(*partials)

    def as_kept(self) -> tuple[FileColumn, ...] | None:
        known: dict[int, tuple[tuple[str, ...], pa.DataType]] = {}
        for key in self.keys:
            if (kind := key.file_type()) is not None:
                known[key.attribute.exprId().id()] = tuple(part.name for part in key.parts), kind
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


def evaluation(
    catalyst: Catalyst,
    keys: Sequence[Key],
    pieces: Sequence[Piece],
    aggregates: Sequence[Any],
    kept: Sequence[Kept],
    results: Sequence[Any],
    above: Sequence[Any],
) -> Evaluation:
    """How results are put on groups that came back."""
    columns = [key.rebuilt() for key in keys]
    attributes = [key.attribute for key in keys]
    evaluated = list(attributes)
    waiting = iter(pieces)
    for aggregate, of in zip(aggregates, kept, strict=True):
        mine = [next(waiting) for _ in of.partials]
        function = aggregate.aggregateFunction()
        if of.value is not None:
            columns.append(of.value([one.name for one in mine]))
            attributes.append(aggregate.resultAttribute())
            evaluated.append(aggregate.resultAttribute())
            continue
        assert of.buffers is not None
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


def pieces_of(asked: Asked, kept: Kept) -> list[Piece]:
    """The columns of what is kept of an aggregate."""

    def name(place: int) -> str:
        return f"p{asked.name}_{place}"

    return [
        Piece(
            name=name(place),
            partial=partial,
            arrow=carried_type(partial.type, asked.text, lists=partial.fold == "registers"),
            valid_by=None if partial.valid_by is None else name(partial.valid_by),
            of=asked.text,
        )
        for place, partial in enumerate(kept.partials)
    ]
