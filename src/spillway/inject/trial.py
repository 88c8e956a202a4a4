"""One trial: what a fault changes in every stream, and when all is as in the golden run again.

Theory of operation
-------------------
A trial is compared with the golden run of the same order of arrival, stream by stream, from the fault's targets
downstream. A ``Difference`` says how a stream differs: golden tuples that are not there, and tuples that are there
instead.

An operator that treats each tuple for itself turns a difference of its input into one of its output by being given the
tuples concerned. One that treats each key for itself is run twice side by side, on the golden input and on the faulty
one, from what it kept just before the fault, and only on the keys that the difference names. After each stretch the two
states of each key are compared. Equal states and no more differences to come mean equal outputs from there on: the key
has rejoined and is not looked at again. Stretches double in length, so a key that takes long costs a constant factor
more than it must, and the trial ends when no key is left.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge, Stream
from spillway.inject.difference import Difference, compare, concatenated
from spillway.inject.faults.fault import Fault, SetBackFault, StateFault, TupleFault
from spillway.inject.golden import Flow, Golden, Keys, Order
from spillway.inject.rewriting import check_targets, entries
from spillway.inject.single_operator import SingleOperator
from spillway.operators.arrival import Interleaving
from spillway.operators.keyed import Keyed
from spillway.operators.merging import Merging
from spillway.operators.operator import Operator

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to."""

    difference: Difference  # of the scored output
    rejoined_seq: int  # from here on everything is as in the golden run; -1 if that did not happen


class PartialTrials:
    """Runs trials beside the golden runs of one graph.

    The first stretch is ``stretch_tuples`` of the source long and the others multiples of it; streams that arrive in
    another order must have settled wherever a stretch ends.
    """

    def __init__(self, golden: Golden, *, sink: str, stretch_tuples: int) -> None:
        self.golden = golden
        self._sink = sink
        self._stretch_tuples = stretch_tuples
        self._stream = golden.checked.into(sink)[0].stream
        self._twins: dict[str, tuple[SingleOperator, SingleOperator]] = {}

    def close(self) -> None:
        for pair in self._twins.values():
            for single in pair:
                single.close()
        self._twins.clear()

    @property
    def seqs(self) -> Int64s:
        """The numbers of all tuples that enter."""
        return self.golden.seqs

    def entering(self, fault: Fault) -> Int64s:
        """The numbers of the tuples on the streams that a fault strikes, all together, in the order of ``seq``."""
        order = self.golden.order(None)
        parts = [order.flows[edge.stream].seqs for edge in entries(self.golden.graph, fault)]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def output(self, arrival: Interleaving | None) -> Flow:
        """What reaches the scored sink without a fault."""
        return self.golden.output(arrival, self._sink)

    def run(self, fault: Fault, arrival: Interleaving | None) -> Outcome:
        """The fault, in the golden run of this order of arrival."""
        graph, order = self.golden.checked, self.golden.order(arrival)
        corruption = fault if isinstance(fault, StateFault) else None
        if corruption is not None:
            check_targets(self.golden.graph, corruption)
        struck = self._strike(fault, order) if isinstance(fault, TupleFault) else {}
        streams: dict[Stream, Difference] = {}
        rejoined = 0
        for name in graph.order:
            into = {edge: _either(struck.get(edge), streams.get(edge.stream)) for edge in graph.into(name)}
            differing = {edge: found for edge, found in into.items() if found is not None and not found.empty}
            corrupted = corruption if corruption is not None and name in corruption.targets else None
            if not differing and corrupted is None:
                continue
            operator = graph.operators[name]
            if isinstance(operator, Keyed):
                outputs, until = self._keyed(name, differing, order, arrival, corrupted)
                rejoined = -1 if until < 0 or rejoined < 0 else max(rejoined, until)
            else:
                outputs = self._tuplewise(name, differing, order)
            streams |= {Stream(name, port): difference for port, difference in outputs.items()}
        exit_edge = graph.into(self._sink)[0]
        difference = _either(struck.get(exit_edge), streams.get(self._stream))
        if difference is None:
            difference = concatenated([], graph.schemas[self._stream])
        seqs = difference.seqs()
        if rejoined >= 0 and seqs.size:
            rejoined = max(rejoined, int(seqs[-1]) + 1)
        return Outcome(difference=difference, rejoined_seq=rejoined)

    def _strike(self, fault: TupleFault, order: Order) -> dict[Edge, Difference]:
        """The fault itself, on the streams by which tuples reach its targets."""
        edges = entries(self.golden.graph, fault)
        flows = [order.flows[edge.stream] for edge in edges]
        # The first so many of all tuples together, of equal seq those of the first stream first.
        first, end = (_places([flow.seqs for flow in flows], fault.offset + more) for more in (0, fault.length))
        differences = {}
        for edge, flow, low, high in zip(edges, flows, first, end, strict=True):
            if high > low:
                struck = flow.batch.slice(low, high - low)
                differences[edge] = Difference(lost=flow.seqs[low:high], added=fault.strike(struck))
        if not differences:
            raise InputError(
                f"Fault at {', '.join(fault.targets)}: offset {fault.offset:,} lies beyond the "
                f"{sum(flow.seqs.size for flow in flows):,} tuples that reach it."
            )
        return differences

    def _tuplewise(self, name: str, differences: Mapping[Edge, Difference], order: Order) -> dict[str, Difference]:
        operator = self.golden.checked.operators[name]
        assert isinstance(operator, Operator)
        single = SingleOperator(operator, self.golden.checked.output_schemas(name))
        lost, added = {}, {}
        for edge, difference in differences.items():
            flow = order.flows[edge.stream]
            lost[edge.port] = flow.batch.take(pa.array(np.searchsorted(flow.seqs, difference.lost)))
            added[edge.port] = difference.added
        outputs_lost, outputs_added = single.apply(lost), single.apply(added)
        return {
            port: Difference(lost=np.asarray(batch[SEQ]), added=outputs_added[port])
            for port, batch in outputs_lost.items()
        }

    def _keyed(
        self,
        name: str,
        differences: Mapping[Edge, Difference],
        order: Order,
        arrival: Interleaving | None,
        corruption: StateFault | None,
    ) -> tuple[dict[str, Difference], int]:
        """Run the keys concerned twice side by side; returns how the outputs differ, and when the last rejoined."""
        keys, last = _last_differences(self._key_column(name), differences, order, order.keys[name])
        golden, faulty = self._twins_of(name, arrival)
        moments = [int(difference.seqs()[0]) for difference in differences.values()]
        start = self.golden.mark(min([*moments, corruption.offset] if corruption is not None else moments))
        for single in (golden, faulty):
            single.set_back(order.snapshots[name, start])
        active = last >= 0
        if isinstance(corruption, SetBackFault):
            faulty.set_back(order.snapshots[name, self.golden.mark_before(start, tuples=corruption.length)])
        elif corruption is not None:
            faulty.change(corruption.corrupt)
        if corruption is not None:
            active |= _differ(golden.operator, faulty.operator, keys.different)
        parts: dict[str, list[Difference]] = {port: [] for port in golden.operator.schemas}
        stretch = self._stretch_tuples
        while active.any() and start < self.golden.end:
            end = (start // self._stretch_tuples) * self._stretch_tuples + stretch
            right, wrong = self._inputs(name, differences, order, keys, active, start, end)
            outputs = golden.apply(right), faulty.apply(wrong)
            for port, found in parts.items():
                found.append(compare(outputs[0][port], outputs[1][port]))
            asked = np.flatnonzero(active & (last < end))
            named = keys.different.take(pa.array(asked))
            active[asked] = _differ(golden.operator, faulty.operator, named)
            start, stretch = end, stretch * 2
        joined_parts = {port: concatenated(found, golden.operator.schemas[port]) for port, found in parts.items()}
        return joined_parts, -1 if active.any() else start

    def _inputs(
        self,
        name: str,
        differences: Mapping[Edge, Difference],
        order: Order,
        keys: Keys,
        active: Any,
        start: int,
        end: int,
    ) -> tuple[dict[str, pa.RecordBatch], dict[str, pa.RecordBatch]]:
        """The tuples of the active keys in a stretch, without the fault and with it."""
        right, wrong = {}, {}
        for edge in self.golden.checked.into(name):
            flow: Flow = order.flows[edge.stream]
            low, high = flow.span(start, end)
            rows = low + np.flatnonzero(active[keys.numbers[edge.port][low:high]])
            right[edge.port] = wrong[edge.port] = flow.batch.take(pa.array(rows))
            difference = differences.get(edge)
            if difference is not None:
                wrong[edge.port] = difference.within(start, end).applied(right[edge.port])
        return right, wrong

    def _key_column(self, name: str) -> str:
        return self.golden.checked.operators[name].key[0]

    def _twins_of(self, name: str, arrival: Interleaving | None) -> tuple[SingleOperator, SingleOperator]:
        if name not in self._twins:
            operator = self.golden.checked.operators[name]
            assert isinstance(operator, Operator)
            schemas = self.golden.checked.output_schemas(name)
            self._twins[name] = (SingleOperator(operator, schemas), SingleOperator(operator, schemas))
        for single in self._twins[name]:
            if isinstance(single.operator, Merging):
                single.operator.arrival = arrival
        return self._twins[name]


def _differ(golden: Operator, faulty: Operator, keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether each key's state is another; NaN is what it was."""
    assert isinstance(golden, Keyed) and isinstance(faulty, Keyed)
    left = np.ascontiguousarray(golden.states(keys), np.float64).view(np.int64)
    right = np.ascontiguousarray(faulty.states(keys), np.float64).view(np.int64)
    different: npt.NDArray[np.bool_] = (left != right).any(axis=1)
    return different


def _last_differences(
    column: str, differences: Mapping[Edge, Difference], order: Order, keys: Keys
) -> tuple[Keys, Int64s]:
    """The last seq at which each key's input differs, or -1; with keys that only the fault brought in."""
    new = [difference.added[column] for difference in differences.values() if difference.added.num_rows]
    if new:
        found = pa.concat_arrays(new).unique()
        unknown = found.filter(pc.invert(pc.is_in(found, value_set=keys.different)))
        if len(unknown):
            keys = Keys(numbers=keys.numbers, different=pa.concat_arrays([keys.different, unknown]))
    last = np.full(len(keys.different), -1, np.int64)
    for edge, difference in differences.items():
        rows = np.searchsorted(order.flows[edge.stream].seqs, difference.lost)
        np.maximum.at(last, keys.numbers[edge.port][rows], difference.lost)
        if difference.added.num_rows:
            numbers = np.asarray(pc.index_in(difference.added[column], value_set=keys.different))
            np.maximum.at(last, numbers, np.asarray(difference.added[SEQ]))
    return keys, last


def _places(streams: list[Int64s], count: int) -> list[int]:
    """How many of each stream are among the first ``count`` of all together, by seq and then by stream.

    >>> [_places([np.array([1, 3, 3]), np.array([2, 3])], count) for count in range(6)]
    [[0, 0], [1, 0], [1, 1], [2, 1], [3, 1], [3, 2]]
    """
    if count >= sum(stream.size for stream in streams):
        return [stream.size for stream in streams]
    # The largest seq before which there are no more than ``count``; of those at it, the first streams' come first.
    low, high = min(int(stream[0]) for stream in streams if stream.size), max(int(s[-1]) for s in streams if s.size)
    while low < high:
        middle = (low + high + 1) // 2
        below = sum(int(np.searchsorted(stream, middle)) for stream in streams)
        low, high = (middle, high) if below <= count else (low, middle - 1)
    places = [int(np.searchsorted(stream, low)) for stream in streams]
    for i, stream in enumerate(streams):
        at = int(np.searchsorted(stream, low, side="right")) - places[i]
        places[i] += min(at, max(count - sum(places), 0))
    return places


def _either(struck: Difference | None, upstream: Difference | None) -> Difference | None:
    """The difference of an edge: that of its stream, or what the fault makes of it."""
    # A fault's targets have no targets upstream, so a stream that is struck is otherwise golden.
    assert struck is None or upstream is None or upstream.empty
    return struck if struck is not None else upstream
