"""Golden runs: every stream of a graph without faults, and what operators keep at the moments where faults begin.

Operators are run one after the other on whole streams rather than batch by batch on all. For operators that treat each
tuple for itself, or each key for itself (``operators.keyed``), that gives the same streams, and it lets trials take any
part of them. Streams behind an operator that merges depend on the order of arrival and are kept for a few of those;
all others are computed once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.graph import Graph
from spillway.graph.nodes import Stream
from spillway.inject.rewriting import with_arrival
from spillway.inject.single_operator import SingleOperator, Snapshot, joined
from spillway.operators.arrival import Interleaving
from spillway.operators.keyed import Keyed, numbered
from spillway.operators.merging import Merging
from spillway.operators.operator import Operator
from spillway.operators.stateless import Apply, Match, Select, Union, Where

Int64s = npt.NDArray[np.int64]

TUPLEWISE = (Where, Match, Select, Apply, Union)
"""Operators that treat each tuple for itself; one's own says so with ``tuplewise = True``."""

_KEPT_ORDERS_MAX = 16  # orders of arrival whose streams are kept


@dataclass(frozen=True, slots=True)
class Flow:
    """All tuples of a stream, by ``seq``."""

    batch: pa.RecordBatch
    seqs: Int64s = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seqs", np.asarray(self.batch[SEQ]))

    def span(self, first: int, end: int) -> tuple[int, int]:
        """The rows whose ``seq`` is at least ``first`` and below ``end``."""
        low, high = np.searchsorted(self.seqs, [first, end])
        return int(low), int(high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Keys of an operator's inputs: the number of each tuple's key, by port, and the keys."""

    numbers: Mapping[str, Int64s]
    different: pa.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a golden run of one order of arrival gives."""

    flows: Mapping[Stream, Flow]
    snapshots: Mapping[tuple[str, int], Snapshot]  # by operator and seq
    keys: Mapping[str, Keys]  # by operator


def independence(operator: Operator) -> str:
    """``tuple`` or ``key``, whichever an operator treats by itself; empty if it promises neither."""
    if isinstance(operator, Keyed) and operator.key:
        return "key"
    if isinstance(operator, TUPLEWISE) or getattr(operator, "tuplewise", False):
        return "" if operator.stateful else "tuple"
    return ""


def why_full(graph: Graph) -> str:
    """Why trials of this graph must run from start to end; empty if they need not."""
    checked = graph.checked()
    if any(edge.feedback for edge in checked.edges):
        return f"graph {graph.name!r} has feedback"
    for name, operator in checked.operators.items():
        if not (isinstance(operator, Operator) and independence(operator)):
            return f"operator {name!r} promises neither that tuples nor that keys are independent"
        if isinstance(operator, Keyed) and operator.outputs_per_tuple_max > 1:
            return f"operator {name!r} can put out several tuples of one seq, which cannot be told apart by it"
    return ""


class Golden:
    """The golden runs of a graph on its input.

    Trials start at marks: where the input begins, and just before the source's tuples numbered ``starts``, at multiples
    of ``settled_every`` of ``seq``. There are marks so many tuples before each of those too, for trials that set back.
    """

    def __init__(
        self, graph: Graph, *, starts: Iterable[int], settled_every: int, set_back: Iterable[int] = ()
    ) -> None:
        reason = why_full(graph)
        if reason:
            raise GraphError(f"Trials of parts are not possible: {reason}.")
        self.graph = graph
        self.checked: CheckedGraph = graph.checked()
        self.repeated = ""
        """An operator found to put out several tuples of one ``seq``: those of a trial cannot be told apart by it."""
        self._orders: dict[Interleaving | None, Order] = {}
        self._known_keys: dict[str, tuple[list[Flow], Keys]] = {}
        self._met = _behind_merging(self.checked)
        sources = {Stream(name, "out"): Flow(read_all(self.checked, name)) for name in self.checked.sources}
        seqs = [flow.seqs for flow in sources.values()]
        self.seqs: Int64s = seqs[0] if len(seqs) == 1 else np.sort(np.concatenate(seqs))
        """The numbers of all tuples that enter."""
        begins = [int(self.seqs[start]) // settled_every * settled_every for start in starts]
        moments = [int(self.seqs[0]), *begins]
        moments += [self._earlier(begin, tuples) for begin in begins for tuples in set_back]
        self.marks = tuple(sorted({moment // settled_every * settled_every for moment in moments}))
        self._shared = self._run(graph, Order(flows=sources, snapshots={}, keys={}), met=False)

    @property
    def end(self) -> int:
        """One more than the last ``seq``."""
        return int(self.seqs[-1]) + 1 if self.seqs.size else 0

    def order(self, arrival: Interleaving | None) -> Order:
        """The golden run of one order of arrival."""
        found = self._orders.get(arrival)
        if found is None:
            found = self._run(with_arrival(self.graph, arrival), self._shared, met=True)
            if len(self._orders) >= _KEPT_ORDERS_MAX:
                self._orders.pop(next(iter(self._orders)))
            self._orders[arrival] = found
        return found

    def output(self, arrival: Interleaving | None, sink: str) -> Flow:
        """What reaches a sink; not kept, so that any number of orders can be asked for."""
        kept = self._orders.get(arrival)
        if kept is None:
            kept = self._run(with_arrival(self.graph, arrival), self._shared, met=True, trials=False)
        return kept.flows[self.checked.into(sink)[0].stream]

    def mark(self, seq: int) -> int:
        """The last mark at or before ``seq``."""
        return self.marks[int(np.searchsorted(self.marks, seq, side="right")) - 1]

    def mark_before(self, mark: int, *, tuples: int) -> int:
        """The last mark that lies at least so many tuples before a mark; the first one if there are not so many."""
        return self.mark(self._earlier(mark, tuples))

    def _earlier(self, seq: int, tuples: int) -> int:
        """The ``seq`` so many tuples before one."""
        return int(self.seqs[max(int(np.searchsorted(self.seqs, seq)) - tuples, 0)])

    def _run(self, graph: Graph, known: Order, *, met: bool, trials: bool = True) -> Order:
        """The streams of all operators that are, or are not, behind one that merges, added to the streams known.

        For trials, keys and snapshots are kept as well.
        """
        checked = graph.checked()
        flows, snapshots, keys = dict(known.flows), dict(known.snapshots), dict(known.keys)
        for name in checked.order:
            if (name in self._met) != met:
                continue
            operator = checked.operators[name]
            assert isinstance(operator, Operator)
            inputs = {edge.port: flows[edge.stream] for edge in checked.into(name)}
            single = SingleOperator(operator, checked.output_schemas(name))
            try:
                marks = self.marks if trials and operator.stateful else ()
                outputs, at_marks = _run_through(single, inputs, marks)
            finally:
                single.close()
            snapshots |= {(name, mark): snapshot for mark, snapshot in at_marks.items()}
            if trials and isinstance(operator, Keyed):
                keys[name] = self._keys_of(operator, inputs)
            for port, batch in outputs.items():
                flow = flows[Stream(name, port)] = Flow(batch)
                if not (flow.seqs[1:] > flow.seqs[:-1]).all():
                    self.repeated = name
        return Order(flows=flows, snapshots=snapshots, keys=keys)

    def _keys_of(self, operator: Keyed, inputs: Mapping[str, Flow]) -> Keys:
        """The keys of an operator's inputs; orders of arrival that share the inputs share the keys."""
        flows = list(inputs.values())
        known = self._known_keys.get(operator.name)
        if known is None or any(one is not other for one, other in zip(known[0], flows, strict=True)):
            known = self._known_keys[operator.name] = flows, _keys(operator, inputs)
        return known[1]


def read_all(graph: CheckedGraph, source: str) -> pa.RecordBatch:
    """Everything that enters by a source."""
    found = graph.sources[source]
    if found.feed is None:
        raise GraphError(
            f"Source {source!r} is a Spark DataFrame or a folder that grows: campaigns want a trace or a generator, "
            f"which can be read again and again."
        )
    feed, numbered_by = found.feed, found.seq
    batches = []
    for piece in range(feed.pieces):
        batch = feed.read(piece)
        columns = [batch[numbered_by if column.name == SEQ else column.name] for column in found.schema]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=found.schema))
    whole = joined(batches, found.schema)
    if not whole.num_rows:
        raise InputError(f"Source {source!r} has no tuples, so there is nothing to strike.")
    return whole


def _behind_merging(graph: CheckedGraph) -> frozenset[str]:
    found: set[str] = set()
    for name in graph.order:
        senders = {edge.stream.node for edge in graph.into(name)}
        if isinstance(graph.operators[name], Merging) or senders & found:
            found.add(name)
    return frozenset(found)


def _run_through(
    single: SingleOperator, inputs: Mapping[str, Flow], marks: Iterable[int]
) -> tuple[dict[str, pa.RecordBatch], dict[int, Snapshot]]:
    """Give an operator whole streams, looking at what it keeps at the marks."""
    outputs: dict[str, list[pa.RecordBatch]] = {port: [] for port in single.operator.schemas}
    snapshots: dict[int, Snapshot] = {}
    first = -1
    for end in [*marks, None]:
        last = np.iinfo(np.int64).max if end is None else end
        part = {}
        for port, flow in inputs.items():
            low, high = flow.span(first, last)
            part[port] = flow.batch.slice(low, high - low)
        for port, batch in single.apply(part).items():
            outputs[port].append(batch)
        if end is not None:
            snapshots[end] = single.snapshot()
            first = end
    schemas = single.operator.schemas
    return {port: joined(batches, schemas[port]) for port, batches in outputs.items()}, snapshots


def _keys(operator: Keyed, inputs: Mapping[str, Flow]) -> Keys:
    columns = [flow.batch[operator.key[0]] for flow in inputs.values()]
    numbers, different = numbered(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))
    ends = np.cumsum([len(column) for column in columns])[:-1]
    parts = np.split(numbers, ends)
    return Keys(numbers=dict(zip(inputs, parts, strict=True)), different=different)
