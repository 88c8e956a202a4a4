"""Operators that keep nothing: every tuple is treated for itself."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.carried import Carried, Tuples, either
from spillway.operators.operator import Operator, Out
from spillway.state.compiled import compiled
from spillway.state.keys import string_buffers

field = pc.field
"""A column in an expression: ``field("bytes") > 10_000_000``."""

# What each byte of ASCII text becomes in a word; 0 for a byte that is in none.
_IN_LOWER_CASE = np.array([ord(chr(i).lower()) if chr(i).isalnum() else 0 for i in range(128)], np.uint8)


class Where(Operator):
    """Tuples for which an expression holds; one for which it is null is dropped."""

    ordered = False

    def __init__(self, name: str, condition: pc.Expression, *, protect: Protection | None = None) -> None:
        super().__init__(name, protect=protect)
        given: object = condition
        if not isinstance(given, pc.Expression):
            raise GraphError(
                f"Operator {name!r}: a condition such as field('bytes') > 10 is wanted; got {type(given).__name__}."
            )
        self.condition = condition

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        try:
            inputs["in"].empty_table().filter(self.condition)
        except (pa.ArrowException, TypeError) as error:
            raise GraphError(
                f"Operator {self.name!r}: {self.condition} cannot be asked of columns {', '.join(inputs['in'].names)} "
                f"({str(error).splitlines()[0]})."
            ) from error
        return {"out": inputs["in"]}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        came = either(arriving.values())
        asked = [column for column in came.off if self._asks_for(column)]
        return {"out": Carried(came.off, Tuples.ANY) if came.touches(asked) else came}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        kept = batch.filter(self.condition)
        if kept.num_rows:
            yield Out("out", kept)

    def _asks_for(self, column: str) -> bool:
        """Whether the condition may depend on a column: an expression names its columns, but for those it numbers."""
        text = str(self.condition)
        return column in text or "FieldPath" in text


class Match(Operator):
    """Tuples whose text has a match of a regular expression (RE2 syntax) in it; null has none."""

    ordered = False

    def __init__(self, name: str, pattern: str, *, column: str = "line", protect: Protection | None = None) -> None:
        super().__init__(name, protect=protect)
        self.pattern = pattern
        self.column = column
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except (pa.ArrowInvalid, TypeError) as error:
            raise GraphError(f"Operator {name!r}: {pattern!r} is not a regular expression ({error}).") from error

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **{self.column: pa.string()})
        return {"out": inputs["in"]}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        came = either(arriving.values())
        return {"out": Carried(came.off, Tuples.ANY) if came.touches([self.column]) else came}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        matches = pc.match_substring_regex(batch[self.column], self.pattern)
        kept = batch.filter(matches)
        if kept.num_rows:
            yield Out("out", kept)


class Words(Operator):
    """Words of a text and how often each occurred, counted per portion of input to save the exchange.

    A word is a run of letters and digits, in lower case. Portions may be any size: only the sum of a word's counts
    means something. ``seq`` is that of the last line with the word. A line that is null has no words.
    """

    ordered = False
    schema = pa.schema([SEQ_FIELD, pa.field("word", pa.string()), pa.field("count", pa.int64())])

    def __init__(self, name: str, *, column: str = "line", words_per_line_max: int = 1000) -> None:
        super().__init__(name)
        check_whole(f"Operator {name!r}: words_per_line_max", words_per_line_max, least=1)
        self.column = column
        self.outputs_per_tuple_max = float(words_per_line_max)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **{self.column: pa.string()})
        return super().output_schemas(inputs)

    def reads(self, port: str) -> frozenset[str]:
        return frozenset([self.column])

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        words = pa.concat_tables(_words(batch[self.column], batch[SEQ]))
        # Threads would number the words in another order each time, and so lay out the state of what counts them.
        counted = words.group_by("word", use_threads=False).aggregate([("word", "count"), (SEQ, "max")])
        yield self.out(word=counted["word"], count=counted["word_count"], seq=counted[f"{SEQ}_max"])


class Select(Operator):
    """Some of the columns; ``seq`` always stays."""

    ordered = False

    def __init__(self, name: str, columns: str | Iterable[str]) -> None:
        super().__init__(name)
        wanted = (columns,) if isinstance(columns, str) else columns
        self.columns = tuple(dict.fromkeys([SEQ, *wanted]))

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", **dict.fromkeys(self.columns))
        return {"out": pa.schema([inputs["in"].field(name) for name in self.columns])}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        return {"out": either(arriving.values()).kept(self.columns)}

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
        if not isinstance(result, pa.RecordBatch):
            raise InputError(
                f"Operator {self.name!r}: its function must return a record batch; got {type(result).__name__}."
            )
        declared = self.schemas["out"]
        if [(c.name, c.type) for c in result.schema] == [(c.name, c.type) for c in declared]:
            # Whether a column may be null is a remark on it, which Arrow's own functions make differently.
            result = pa.RecordBatch.from_arrays(result.columns, schema=declared)
        if result.num_rows:
            yield Out("out", result)


class Union(Operator):
    """Two or more streams of one schema as one."""

    ordered = False

    def __init__(self, name: str, *, ports: int = 2) -> None:
        super().__init__(name)
        check_whole(f"Operator {name!r}: ports", ports, least=2)
        self.inputs = tuple(f"in{i}" for i in range(ports))

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        (first_port, first), *others = inputs.items()
        for port, schema in others:
            if schema != first:
                raise GraphError(
                    f"Operator {self.name!r}: all inputs must be alike; port {port!r} gets {_types(schema)}, "
                    f"port {first_port!r} gets {_types(first)}."
                )
        return {"out": first}

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        return {"out": either(arriving.values())}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        yield Out("out", batch)


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' not null'}" for column in schema)


def _words(lines: pa.Array, seqs: pa.Array) -> list[pa.Table]:
    """Every word with the ``seq`` of its line; a kernel splits lines of plain ASCII, ten times as fast as Arrow can."""
    plain = pc.string_is_ascii(lines)
    other = pc.invert(plain)
    return [
        _split_ascii(lines.filter(plain), seqs.filter(plain)),
        _split_unicode(lines.filter(other), seqs.filter(other)),
    ]


def _split_unicode(lines: pa.Array, seqs: pa.Array) -> pa.Table:
    words = pc.split_pattern_regex(pc.utf8_lower(lines), r"[^\p{L}\p{N}]+")
    flat = pa.table({"word": pc.list_flatten(words), SEQ: seqs.take(pc.list_parent_indices(words))})
    return flat.filter(pc.not_equal(flat["word"], ""))


def _split_ascii(lines: pa.Array, seqs: pa.Array) -> pa.Table:
    data, offsets = string_buffers(lines)
    text_bytes = int(offsets[-1] - offsets[0])
    letters = np.empty(text_bytes, np.uint8)
    # A word has a byte at least, and another or the line's end behind it.
    words_max = (text_bytes + len(lines)) // 2
    ends, parents = np.zeros(words_max + 1, np.int32), np.empty(words_max, np.int32)
    count = _split(data, offsets, _IN_LOWER_CASE, letters, ends, parents)
    words = pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))
    return pa.table({"word": words, SEQ: seqs.take(pa.array(parents[:count]))})


@compiled
def _split(data: Any, offsets: Any, in_lower_case: Any, letters: Any, ends: Any, parents: Any) -> int:
    """Write the letters of all words, where each word ends, and its line; returns the number of words."""
    count = used = 0
    for line in range(offsets.size - 1):
        for at in range(offsets[line], offsets[line + 1]):
            letter = in_lower_case[data[at]]
            if letter != 0:
                letters[used] = letter
                used += 1
            elif used > ends[count]:
                parents[count] = line
                count += 1
                ends[count] = used
        if used > ends[count]:
            parents[count] = line
            count += 1
            ends[count] = used
    return count
