"""Latest-value join: each tuple of one stream meets the newest value the other stream has given for its key."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.protections import Protection
from spillway.operators.carried import ANYTHING, NOTHING, Carried, either, values_off
from spillway.operators.keyed import Float64s, Int64s, Keyed, float_column, numbered, want_number
from spillway.operators.merging import Merging
from spillway.operators.operator import Out
from spillway.operators.stored_keys import stored
from spillway.state.compiled import compiled
from spillway.state.primitives import HashTable


class LatestJoin(Merging, Keyed):
    """Tuples of ``queries`` with the newest value that ``values`` had for their key when they arrived.

    Puts out the columns of ``queries`` and the value (as ``value_as``), under the query's ``seq``; a query whose key
    has no value yet puts out nothing. ``then``, if given, makes of those tuples what is put out instead, with
    ``schema``; like the function of ``Apply`` it must not depend on how tuples are cut into record batches. The state
    is one number per key, and its divergence the largest error of any.
    """

    inputs = ("values", "queries")
    ordered = True
    parameters = ("value",)
    state_by_key = ("latest",)

    def __init__(
        self,
        name: str,
        *,
        key: str,
        value: str,
        value_as: str | None = None,
        then: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        schema: pa.Schema | None = None,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        super().__init__(name, key=key, protect=protect, shards=shards, delay_max=delay_max)
        if (then is None) != (schema is None):
            raise GraphError(f"Operator {name!r}: give then= and the schema= of what it returns, or neither.")
        self.value = value
        self.value_as = value_as or value
        self.then = then
        self.then_schema = schema
        # A backup holds all keys, and of their values those that matter to theta: a key recovered without its value has
        # zero, which by that choice is no further from the value than theta allows.
        self.latest = HashTable(metric="max", dtype="float64")

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        want_number(self, inputs, "values", self.value)
        joined = inputs["queries"].append(pa.field(self.value_as, pa.float64()))
        return {"out": joined if self.then_schema is None else self.then_schema}

    def carries(self, arriving: Mapping[str, Carried]) -> float | None:
        # A value is set, never added to: with the same tuples in both runs, what is kept of a key was set by the same
        # tuple in both, and is off by as much as that one. What its own failures cost comes on top, since they put
        # back values that were as much off. Queries leave the state alone.
        given = arriving.get("values", NOTHING)
        return None if given.touches(self.key) else given.off.get(self.value, 0.0)

    def hands_on(self, arriving: Mapping[str, Carried], *, off: float, lost: bool) -> Mapping[str, Carried]:
        # Having lost memory it may not know a key any more, and puts out nothing for it.
        asked = arriving.get("queries", NOTHING)
        if lost or self.then is not None or any(came.touches(self.key) for came in arriving.values()):
            return {"out": ANYTHING}
        return {"out": either([asked, values_off({self.value_as: off})])}

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        parts = [self.stored_keys(batches[port]) for port in self.inputs if port in batches]
        numbers, keys = numbered(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
        given = float_column(self, batches["values"], self.value) if "values" in batches else np.empty(0)
        known, now = self.latest.contains(keys), self.latest.get(keys)
        wanted = numbers.size - given.size
        met, answered = np.empty(wanted, np.float64), np.empty(wanted, np.bool_)
        _meet(ports, numbers[: given.size], given, numbers[given.size :], now, known, met, answered)
        if given.size:
            new = np.unique(numbers[: given.size])
            self.latest.set(keys.take(pa.array(new)), now[new])
        if answered.any():
            yield from self._put_out(batches["queries"], answered, met)

    def states(self, keys: pa.Array) -> Float64s:
        keys = stored(keys)
        return np.column_stack([self.latest.contains(keys), self.latest.get(keys)]).astype(np.float64)

    def _put_out(self, queries: pa.RecordBatch, answered: Any, met: Float64s) -> Iterator[Out]:
        if not answered.all():
            queries, met = queries.filter(pa.array(answered)), met[answered]
        schema = queries.schema.append(pa.field(self.value_as, pa.float64()))
        joined = pa.RecordBatch.from_arrays([*queries.columns, pa.array(met)], schema=schema)
        result = joined if self.then is None else self.then(joined)
        if not isinstance(result, pa.RecordBatch) or result.schema.names != self.schemas["out"].names:
            raise InputError(f"Operator {self.name!r}: its function must return a record batch of the declared schema.")
        if result.num_rows:
            yield Out("out", pa.RecordBatch.from_arrays(result.columns, schema=self.schemas["out"]))


@compiled
def _meet(
    ports: Any, value_keys: Any, values: Any, query_keys: Any, now: Any, known: Any, met: Any, answered: Any
) -> None:
    """Walk both streams in order of arrival; ``now`` and ``known`` are each key's newest value and end up to date."""
    i = j = 0
    for k in range(ports.size):
        if ports[k] == 0:
            key = value_keys[i]
            now[key] = values[i]
            known[key] = True
            i += 1
        else:
            key = query_keys[j]
            met[j] = now[key]
            answered[j] = known[key]
            j += 1
