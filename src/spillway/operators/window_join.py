"""Sliding-window join with a window for each key: a tuple meets the recent tuples of the other stream with its key."""

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
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.operator import Out
from spillway.operators.sliding import times_us
from spillway.operators.stored_keys import stored
from spillway.state.tally import Tally
from spillway.state.window import Window


class WindowJoin(Joining, Keyed):
    """Pairs of tuples of ``left`` and ``right`` with one key, of which the earlier is in its stream's window.

    There is a window for each stream and key (a per-group join). It holds the last ``size`` tuples of the key, or those
    of the last ``size`` of time; ``size={"left": 1000, "right": 0}`` gives each stream its own, and one of 0 holds
    nothing: tuples of that stream ask and are not kept. The tuple that arrives meets those in the other stream's
    window, oldest first, and then enters its own. Puts out the key and the columns named of both sides (``left_price``,
    ``right_price``), under the ``seq`` of the later tuple. Columns are numbers; times are as in ``SlidingAggregate``.
    The state is both windows, and its divergence the number of tuples that the backup lacks. Windows of so many tuples
    drop stale ones after a recovery under ``Checkpoint`` (see ``operators.stale``).

    With ``unit_rows`` a backup holds windows in units of so many tuples (see ``Window``). ``SharedWindowJoin`` has one
    window for all keys.
    """

    parameters = ("columns", "size", "time")
    state_by_key = ("left_recent", "right_recent")

    def __init__(
        self,
        name: str,
        *,
        key: str,
        left: Iterable[str],
        right: Iterable[str],
        size: Sizes,
        time: str | None = None,
        rows_max: int = 1000,
        unit_rows: int | None = None,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        self.columns = {"left": tuple(left), "right": tuple(right)}
        if not all(self.columns.values()):
            raise GraphError(f"Operator {name!r}: at least one column of each side is wanted.")
        self.size = dict(size) if isinstance(size, Mapping) else size
        self.windows = windows(name, size, time=time, rows_max=rows_max)
        self.time = time if any(self.windows.spans_us.values()) else None
        self.asked = None if all(self.windows.keeps.values()) else Tally(1)
        self.outputs_per_tuple_max = float(self.windows.rows_max)
        self.left_recent, self.right_recent = (self._window(port, 1, unit_rows) for port in self.inputs)

    def _window(self, port: str, more: int, unit_rows: int | None) -> Window:
        unit = unit_rows if self.windows.keeps[port] else None
        return Window(self.windows.rows[port], len(self.columns[port]) + more, unit_rows=unit)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        fields = [self.key_field(inputs, "left")]
        for port, columns in self.columns.items():
            for column in columns:
                want_number(self, inputs, port, column)
                fields.append(pa.field(f"{port}_{column}", pa.float64()))
            if self.time is not None:
                self.want(inputs, port, **{self.time: None})
        return {"out": pa.schema([SEQ_FIELD, *fields])}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # The divergence counts tuples, and they are the same; what their values are is not measured.
        return None if self._places_differ(arriving) else 0.0

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Which tuples meet follows from their keys, numbers and times; what is put out are values as they came.
        if lost or off > 0 or self._places_differ(arriving):
            return {"out": ANYTHING}
        return {"out": pairs_off(arriving, self.columns)}

    def _places_differ(self, arriving: Mapping[str, Carried]) -> bool:
        placed_by = [*self.key, *([self.time] if self.time is not None else [])]
        return any(came.touches(placed_by) for came in arriving.values())

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        self.note_asked(batches)
        present = [port for port in self.inputs if port in batches]
        columns = [self.stored_keys(batches[port]) for port in present]
        numbers, keys = numbered(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
        count = len(columns[0]) if "left" in batches else 0
        left = self._side(batches, "left", self.left_recent, keys, numbers[:count])
        right = self._side(batches, "right", self.right_recent, keys, numbers[count:])
        pairs = room_for(rows_max=self.windows.rows_max, columns=sum(map(len, self.columns.values())))
        at = np.zeros(3, np.int64)
        while at[0] < ports.size:
            done = join(left, right, ports, False, at, pairs)
            if done < 0:
                raise InputError(
                    f"Operator {self.name!r}: more than {self.windows.rows_max:,} tuples of one key in a window. "
                    f"Raise rows_max."
                )
            if done:
                of_pairs = self.given_keys(keys.take(pa.array(pairs.keys[:done])))
                yield self._put_out(of_pairs, pairs.seqs[:done], pairs.columns[:done])

    def _side(
        self, batches: dict[str, pa.RecordBatch], port: str, window: Window, keys: pa.Array, numbers: Int64s
    ) -> Side:
        keeps = self.windows.keeps[port]
        if keeps and numbers.size:
            came = np.bincount(numbers, minlength=len(keys))
            coming = np.flatnonzero(came)
            window.enter(keys.take(pa.array(coming)), pushed=came[coming])
        return Side(
            rings=window.rings,
            counts=window.counts,
            groups=window.find(keys),
            keeps=keeps,
            span=float(self.windows.spans_us[port]),
            keys=numbers,
            rows=self._rows(batches, port),
            seqs=np.array(batches[port][SEQ] if port in batches else [], np.int64),
        )

    def states(self, keys: pa.Array) -> Float64s:
        keys = stored(keys)
        parts = []
        for window in (self.left_recent, self.right_recent):
            rows, held = window.newest(keys)
            parts += [held[:, None], rows.reshape(len(held), window.rows * window.columns)]
        return np.concatenate(parts, axis=1, dtype=np.float64)

    def _rows(self, batches: dict[str, pa.RecordBatch], port: str) -> Float64s:
        """(tuples, 1 + columns), the time first; zero if it does not matter."""
        columns = self.columns[port]
        if port not in batches:
            return np.empty((0, 1 + len(columns)))
        batch = batches[port]
        times = np.zeros(batch.num_rows) if self.time is None else times_us(self, batch, self.time)
        return np.column_stack([times, *(float_column(self, batch, column) for column in columns)])

    def _put_out(self, keys: pa.Array, seqs: Int64s, pairs: Float64s) -> Out:
        names = [f"{port}_{column}" for port, columns in self.columns.items() for column in columns]
        columns = {name: pairs[:, i] for i, name in enumerate(names)}
        return self.out(**{SEQ: seqs, self.key[0]: keys}, **columns)
