"""Sliding-window join with one window for all keys of a stream, as seed 004 (section 5.2) measures it."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, Carried, pairs_off
from spillway.operators.joining import Side, Sizes, join, room_for, windows
from spillway.operators.joins import Joining
from spillway.operators.keyed import Float64s, Int64s, float_column, want_number
from spillway.operators.operator import Out
from spillway.operators.sliding import times_us
from spillway.operators.stored_keys import given, stored
from spillway.state.tally import Tally
from spillway.state.window import Window

_ONLY = np.zeros(1, np.int64)  # the key of the one window
_WHOLE_MAX = 2**53  # integers up to this are numbers of their own as floating-point numbers


class SharedWindowJoin(Joining):
    """Pairs of tuples of ``left`` and ``right`` that agree in the column ``on``, of which the earlier is in its
    stream's window; the window holds the last ``size`` tuples of the stream, whatever their keys.

    Sizes, columns, times and ``unit_rows`` are those of ``WindowJoin``, which has a window for each key. The tuple that
    arrives is compared with every tuple in the other stream's window, so it costs what that holds. ``on`` is a column
    of integers up to 2^53, or of booleans, dates or timestamps. A window of all keys cannot be divided: there is one
    shard.
    """

    parameters = ("on", "columns", "size", "time")

    def __init__(
        self,
        name: str,
        *,
        on: str,
        left: Iterable[str],
        right: Iterable[str],
        size: Sizes,
        time: str | None = None,
        rows_max: int = 10_000,
        unit_rows: int | None = None,
        protect: Protection | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, protect=protect, shards=1, delay_max=delay_max)
        self.on = on
        self.columns = {"left": tuple(left), "right": tuple(right)}
        if not all(self.columns.values()):
            raise GraphError(f"Operator {name!r}: at least one column of each side is wanted.")
        self.size = dict(size) if isinstance(size, Mapping) else size
        self.windows = windows(name, size, time=time, rows_max=rows_max)
        self.time = time if any(self.windows.spans_us.values()) else None
        self.asked = None if all(self.windows.keeps.values()) else Tally(1)
        self.outputs_per_tuple_max = float(self.windows.rows_max)
        self.left_recent, self.right_recent = (self._window(port, unit_rows) for port in self.inputs)

    def _window(self, port: str, unit_rows: int | None) -> Window:
        unit = unit_rows if self.windows.keeps[port] else None
        return Window(self.windows.rows[port], len(self.columns[port]) + 2, key="int64", unit_rows=unit)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        fields = []
        for port, columns in self.columns.items():
            self.want(inputs, port, **{self.on: None})
            self._check_on(inputs[port].field(self.on).type, inputs["left"].field(self.on).type)
            for column in columns:
                want_number(self, inputs, port, column)
                fields.append(pa.field(f"{port}_{column}", pa.float64()))
            if self.time is not None:
                self.want(inputs, port, **{self.time: None})
        return {"out": pa.schema([SEQ_FIELD, pa.field(self.on, inputs["left"].field(self.on).type), *fields])}

    def _check_on(self, kind: pa.DataType, left: pa.DataType) -> None:
        is_whole = pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
        if not (is_whole or pa.types.is_timestamp(kind)):
            raise GraphError(
                f"Operator {self.name!r}: column {self.on!r} must be an integer, a boolean, a date or a timestamp; it "
                f"is {kind}. WindowJoin takes other keys."
            )
        if kind != left:
            raise GraphError(
                f"Operator {self.name!r}: column {self.on!r} must have one type; it is {left} on port 'left' and "
                f"{kind} on port 'right'. Cast one of them."
            )

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        return None if self._places_differ(arriving) else 0.0  # as in WindowJoin

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        if lost or off > 0 or self._places_differ(arriving):
            return {"out": ANYTHING}
        return {"out": pairs_off(arriving, self.columns)}

    def _places_differ(self, arriving: Mapping[str, Carried]) -> bool:
        placed_by = [self.on, *([self.time] if self.time is not None else [])]
        return any(came.touches(placed_by) for came in arriving.values())

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        self.note_asked(batches)
        keys = {port: self._keys(batches, port) for port in self.inputs}
        numbers = np.arange(ports.size)  # each tuple counts as a key of its own; which match, their rows say
        count = len(keys["left"])
        left = self._side(batches, "left", self.left_recent, keys["left"], numbers[:count], tuples=ports.size)
        right = self._side(batches, "right", self.right_recent, keys["right"], numbers[count:], tuples=ports.size)
        of_number = np.concatenate([keys["left"], keys["right"]])
        pairs = room_for(rows_max=self.windows.rows_max, columns=sum(map(len, self.columns.values())))
        at = np.zeros(3, np.int64)
        while at[0] < ports.size:
            done = join(left, right, ports, True, at, pairs)
            if done < 0:
                raise InputError(
                    f"Operator {self.name!r}: more than {self.windows.rows_max:,} tuples in a window. Raise rows_max."
                )
            if done:
                yield self._put_out(of_number[pairs.keys[:done]], pairs.seqs[:done], pairs.columns[:done])

    def _side(
        self,
        batches: dict[str, pa.RecordBatch],
        port: str,
        window: Window,
        keys: Int64s,
        numbers: Int64s,
        *,
        tuples: int,
    ) -> Side:
        keeps = self.windows.keeps[port]
        if keeps and numbers.size:
            window.enter(_ONLY, pushed=np.array([numbers.size]))
        return Side(
            rings=window.rings,
            counts=window.counts,
            groups=np.full(tuples, window.find(_ONLY)[0]),
            keeps=keeps,
            span=float(self.windows.spans_us[port]),
            keys=numbers,
            rows=self._rows(batches, port, keys),
            seqs=np.array(batches[port][SEQ] if port in batches else [], np.int64),
        )

    def _keys(self, batches: dict[str, pa.RecordBatch], port: str) -> Int64s:
        if port not in batches:
            return np.empty(0, np.int64)
        column = batches[port][self.on]
        if column.null_count:
            raise InputError(f"Operator {self.name!r}: column {self.on!r} is null in {column.null_count} tuples.")
        keys: Int64s = np.asarray(stored(column))
        if keys.size and (keys.min() < -_WHOLE_MAX or keys.max() > _WHOLE_MAX):
            raise InputError(
                f"Operator {self.name!r}: column {self.on!r} must be within 2^53 of zero; it goes from {keys.min()} to "
                f"{keys.max()}. Join on a smaller number, or with WindowJoin."
            )
        return keys

    def _rows(self, batches: dict[str, pa.RecordBatch], port: str, keys: Int64s) -> Float64s:
        """(tuples, 2 + columns): the time, zero if it does not matter, and the key first."""
        columns = self.columns[port]
        if port not in batches:
            return np.empty((0, 2 + len(columns)))
        batch = batches[port]
        times = np.zeros(batch.num_rows) if self.time is None else times_us(self, batch, self.time)
        values = (float_column(self, batch, column) for column in columns)
        return np.column_stack([times, keys.astype(np.float64), *values])

    def _put_out(self, keys: Int64s, seqs: Int64s, pairs: Float64s) -> Out:
        names = [f"{port}_{column}" for port, columns in self.columns.items() for column in columns]
        columns = {name: pairs[:, i] for i, name in enumerate(names)}
        kind = self.schemas["out"].field(self.on).type
        return self.out(**{SEQ: seqs, self.on: given(pa.array(keys), kind)}, **columns)
