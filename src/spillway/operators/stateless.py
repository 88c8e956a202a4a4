"""Operators that keep nothing: every tuple is treated for itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.operators.operator import Operator, Out

field = pc.field
"""A column in an expression: ``field("bytes") > 10_000_000``."""


class Where(Operator):
    """Tuples for which an expression holds."""

    ordered = False

    def __init__(self, name: str, condition: pc.Expression) -> None:
        super().__init__(name)
        self.condition = condition

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        try:
            kind = pa.Table.from_batches([], inputs["in"]).filter(self.condition)
        except (pa.ArrowException, KeyError) as error:
            raise GraphError(
                f"Operator {self.name!r}: {self.condition} cannot be asked of columns {', '.join(inputs['in'].names)} "
                f"({str(error).splitlines()[0]})."
            ) from error
        return {"out": kind.schema}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        kept = pa.Table.from_batches([batch]).filter(self.condition).combine_chunks()
        for part in kept.to_batches():
            yield Out("out", part)


class Match(Operator):
    """Tuples whose text matches a regular expression (RE2 syntax)."""

    ordered = False

    def __init__(self, name: str, pattern: str, *, column: str = "line") -> None:
        super().__init__(name)
        self.pattern = pattern
        self.column = column
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise GraphError(f"Operator {name!r}: {pattern!r} is not a regular expression ({error}).") from error

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **{self.column: pa.string()})
        return {"out": inputs["in"]}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        matches = pc.match_substring_regex(batch[self.column], self.pattern)
        kept = batch.filter(matches)
        if kept.num_rows:
            yield Out("out", kept)


class Words(Operator):
    """Words of a text and how often each occurred, counted per portion of input to save the exchange.

    A word is a run of letters and digits, in lower case. Portions may be any size: only the sum of a word's counts
    means something. ``seq`` is that of the last line with the word.
    """

    ordered = False
    schema = pa.schema([SEQ_FIELD, pa.field("word", pa.string()), pa.field("count", pa.int64())])

    def __init__(self, name: str, *, column: str = "line", words_per_line_max: int = 1000) -> None:
        super().__init__(name)
        self.column = column
        self.outputs_per_tuple_max = float(words_per_line_max)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **{self.column: pa.string()})
        return super().output_schemas(inputs)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        lines = pc.utf8_lower(batch[self.column])
        words = pc.split_pattern_regex(lines, r"[^\p{L}\p{N}]+")
        flat = pa.table({"word": pc.list_flatten(words), SEQ: batch[SEQ].take(pc.list_parent_indices(words))})
        flat = flat.filter(pc.not_equal(flat["word"], ""))
        counted = flat.group_by("word").aggregate([("word", "count"), (SEQ, "max")])
        yield self.out(word=counted["word"], count=counted["word_count"], seq=counted[f"{SEQ}_max"])


class Select(Operator):
    """Some of the columns; ``seq`` always stays."""

    ordered = False

    def __init__(self, name: str, columns: Iterable[str]) -> None:
        super().__init__(name)
        self.columns = tuple(dict.fromkeys([SEQ, *columns]))

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **dict.fromkeys(self.columns))
        return {"out": pa.schema([inputs["in"].field(name) for name in self.columns])}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        yield Out("out", batch.select(self.columns))


class Apply(Operator):
    """Any function from record batch to record batch, with the schema it returns.

    The function must not depend on how tuples are cut into record batches.
    """

    ordered = False

    def __init__(
        self,
        name: str,
        function: Callable[[pa.RecordBatch], pa.RecordBatch],
        schema: pa.Schema,
        *,
        outputs_per_tuple_max: float = 1.0,
    ) -> None:
        super().__init__(name)
        self.function = function
        self.output_schema = schema
        self.outputs_per_tuple_max = outputs_per_tuple_max

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        return {"out": self.output_schema}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        result = self.function(batch)
        if result.num_rows:
            yield Out("out", result)


class Union(Operator):
    """Two or more streams of one schema as one."""

    ordered = False

    def __init__(self, name: str, *, ports: int = 2) -> None:
        super().__init__(name)
        self.inputs = tuple(f"in{i}" for i in range(ports))

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        first = inputs[self.inputs[0]]
        for port, schema in inputs.items():
            if schema != first:
                raise GraphError(
                    f"Operator {self.name!r}: all inputs must be alike; port {port!r} gets {', '.join(schema.names)}, "
                    f"port {self.inputs[0]!r} gets {', '.join(first.names)}."
                )
        return {"out": first}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        yield Out("out", batch)
