"""One task: a stage's operators applied to one partition of one batch.

Both runtimes run exactly this. A runtime brings tuples in by edge and takes tuples out by edge; between, outputs of one
operator go to the next without leaving the call.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError
from spillway.graph.feeds import SEQ
from spillway.graph.graph import CheckedGraph, Edge
from spillway.graph.stages import Stage
from spillway.operators.opened import OpenOperator
from spillway.operators.operator import Operator, Out
from spillway.records.progress import ShardProgress

Leaving = tuple[Edge, pa.RecordBatch]
OpenShard = Callable[[Operator, int], OpenOperator]

_EXAMPLES_MAX = 3


class Segment:
    """The operators of one stage at work on one shard's part of one batch.

    >>> with Segment(...) as segment:                                   # doctest: +SKIP
    ...     for edge, batch in arriving: yield from segment.arrive(edge, batch)
    ...     yield from segment.finish()
    """

    def __init__(
        self,
        graph: CheckedGraph,
        stage: Stage,
        operators: Mapping[str, Operator],
        *,
        index: int,
        batch: int,
        open_shard: OpenShard,
    ) -> None:
        self._graph = graph
        self._stage = stage
        self._batch = batch
        self._stack = ExitStack()
        self._open: dict[str, OpenOperator] = {}
        self._running: dict[str, Operator] = {}
        self._waiting: dict[tuple[str, str], list[pa.RecordBatch]] = defaultdict(list)
        self._tuples: dict[str, int] = defaultdict(int)
        self._onward = {name: graph.out_of(name) for name in [*stage.operators, *graph.sources]}
        self._leaving = frozenset(stage.leaving)
        for name in stage.operators:
            operator = operators[name]
            if not operator.stateful:
                self._running[name] = operator.opened(None, graph.output_schemas(name))
            elif index < graph.shards_of(name):
                self._open[name] = open_shard(operator, index)
                self._running[name] = self._open[name].operator
        self.progress: list[ShardProgress] = []

    def __enter__(self) -> "Segment":
        with ExitStack() as stack:
            for opened in self._open.values():
                stack.enter_context(opened.shard.lock())
                opened.keeper.begin(self._batch)
            for operator in self._running.values():
                operator.seq = -1
                operator.begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def from_source(self, source: str, batch: pa.RecordBatch) -> Iterator[Leaving]:
        """Tuples that enter the graph."""
        for edge in self._onward[source]:
            yield from self.arrive(edge, batch)

    def arrive(self, edge: Edge, batch: pa.RecordBatch) -> Iterator[Leaving]:
        """Tuples on an edge: for an operator of this stage, or passing by."""
        if edge.node not in self._running:
            yield edge, batch
            return
        operator = self._running[edge.node]
        self._check_key(operator, batch)
        self._tuples[edge.node] += batch.num_rows
        if operator.ordered and operator.stateful:
            self._waiting[edge.node, edge.port].append(batch)
        else:
            yield from self._process(operator, edge.port, batch)

    def finish(self) -> Iterator[Leaving]:
        """All tuples have arrived: let every operator finish, then commit every shard."""
        for name in self._stage.operators:
            if name not in self._running:
                continue
            operator = self._running[name]
            for port in operator.inputs:
                waiting = self._waiting.pop((name, port), None)
                if waiting:
                    yield from self._process(operator, port, _in_order(waiting))
            yield from self._route(operator, operator.finish())
        for name, opened in self._open.items():
            seq = self._running[name].seq
            self.progress.append(opened.keeper.commit(seq=seq, tuples=self._tuples[name]))

    def _process(self, operator: Operator, port: str, batch: pa.RecordBatch) -> Iterator[Leaving]:
        if batch.num_rows:
            operator.seq = max(operator.seq, pc.max(batch[SEQ]).as_py())
        yield from self._route(operator, operator.process(port, batch))
        if operator.name in self._open:
            self._open[operator.name].keeper.applying()

    def _route(self, operator: Operator, outs: Iterable[Out] | None) -> Iterator[Leaving]:
        for out in outs or ():
            wanted = operator.schemas.get(out.port)
            if out.batch.schema != wanted:
                declared = _types(wanted) if wanted else f"no port {out.port!r}"
                raise InputError(
                    f"Operator {operator.name!r} declared {declared} and put out {_types(out.batch.schema)}."
                )
            for edge in self._onward[operator.name]:
                if edge.stream.port == out.port:
                    yield from self.arrive(edge, out.batch)

    def _check_key(self, operator: Operator, batch: pa.RecordBatch) -> None:
        for column in operator.key:
            values = batch[column]
            if values.null_count:
                numbers = batch[SEQ].filter(pc.is_null(values))[:_EXAMPLES_MAX].to_pylist()
                examples = ", ".join(map(str, numbers))
                raise InputError(
                    f"Operator {operator.name!r}: key column {column!r} must not be null; it is in {values.null_count} "
                    f"tuples of batch {self._batch} (seq {examples}). Drop them before the operator."
                )


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch, sorted by ``seq``."""
    table = pa.Table.from_batches(batches).combine_chunks()
    batch = table.to_batches()[0] if table.num_rows else batches[0]
    order = np.argsort(np.asarray(batch[SEQ]), kind="stable")
    if np.array_equal(order, np.arange(order.size)):
        return batch
    return batch.take(pa.array(order))


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' not null'}" for column in schema)
