"""One task: a stage's operators applied to one partition of one batch.

Both runtimes run exactly this. A runtime brings tuples in by source or edge and takes tuples out by edge; between,
outputs of one operator go to the next without leaving the call. Feedback does not leave by an edge: it is put down for
the next batch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spillway.backup.items import ItemLog
from spillway.backup.orders import NO_ORDERS, Orders
from spillway.backup.policies import policy_of
from spillway.clock import SystemClock
from spillway.engine.blaming import blame, blamed
from spillway.engine.feedback import Mailbox
from spillway.engine.numbering import Numbering
from spillway.engine.opened import OpenOperator
from spillway.engine.turn import Turn
from spillway.errors import BoundLostError, InputError
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage
from spillway.graph.watermarks import NO_TIMES, Times, time_batch, times_in
from spillway.graph.windows import NO_MARKS, Hopping, Marks, mark_batch
from spillway.operators.adding import Added
from spillway.operators.operator import Operator, Out
from spillway.records.progress import ShardProgress
from spillway.records.ranges import SourceRange

Leaving = tuple[Edge, pa.RecordBatch]
Arriving = tuple[str | Edge, pa.RecordBatch] | tuple[Edge, Added]
"""Tuples of a source, by its name, or on an edge, where they may have been added up."""
OpenShard = Callable[[Operator, int], OpenOperator]
OpenItems = Callable[[Operator, int], ItemLog | None]

_EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What all tasks of a run work with."""

    graph: CheckedGraph
    operators: Mapping[str, Operator]
    open_shard: OpenShard
    open_items: OpenItems
    mailbox: Mailbox


class Task:
    """The operators of one stage at work on one shard's part of one batch; ``run`` does it, once."""

    def __init__(
        self,
        equipment: Equipment,
        stage: Stage,
        *,
        index: int,
        batch: int,
        reads: Mapping[str, Numbering] | None = None,
        orders: Orders = NO_ORDERS,
    ) -> None:
        graph, operators = equipment.graph, equipment.operators
        self._graph = graph
        self._stage = stage
        self._index = index
        self._batch = batch
        self._orders = orders
        self._mailbox = equipment.mailbox
        self._reads = reads or {}  # the sources whose tuples are seen here first
        self._open: dict[str, OpenOperator] = {}
        self._running: dict[str, Operator] = {}
        self._items: dict[str, ItemLog] = {}
        self._turns: dict[str, Turn] = {}
        self._lost: dict[str, int] = defaultdict(int)
        self._onward = {name: graph.out_of(name) for name in [*stage.operators, *graph.sources]}
        self._upstream = {name: graph.feedback_out_of(name) for name in stage.operators}
        self._sent: dict[Edge, list[pa.RecordBatch]] = defaultdict(list)
        made_here = {*stage.operators, *(graph.sources if stage.index == 0 else ())}
        # Edges whose tuples come from here and belong to windows, with the edges their punctuation takes.
        self._windows = {
            Edge(edge.stream, edge.node, edge.port): edge
            for edge in stage.leaving
            if edge.marks and edge.stream.node in made_here
        }
        self._clocks = [edge for edge in self._windows.values() if edge.tells_time]
        self._marks: dict[Edge, list[Marks]] = defaultdict(list)
        self._times: dict[Edge, list[Times]] = defaultdict(list)
        for name in stage.operators:
            operator = operators[name]
            if not operator.stateful:
                self._running[name] = operator.opened(None, graph.output_schemas(name))
                items = equipment.open_items(operator, index)
            elif index < graph.shards_of(name):
                self._open[name] = equipment.open_shard(operator, index)
                self._running[name] = self._open[name].operator
                items = self._open[name].items
            else:
                continue
            if items is not None:
                self._items[name] = items
        self.progress: list[ShardProgress] = []
        """What each shard did, once the task has run."""
        self.ranges: list[SourceRange] = []
        """The numbers of what was read of each source, once the task has run."""

    def run(self, arriving: Iterable[Arriving]) -> Iterator[Leaving]:
        """All that leaves: what follows from tuples as they arrive, and what is said when all have."""
        with ExitStack() as locks:
            self._begin(locks)
            for place, batch in arriving:
                if isinstance(batch, Added):
                    assert isinstance(place, Edge)
                    yield from self._arrive_added(place, batch)
                elif isinstance(place, str):
                    yield from self._from_source(place, batch)
                else:
                    yield from self._arrive(place, batch)
            yield from self._finish()

    def _begin(self, locks: ExitStack) -> None:
        for opened in self._open.values():
            locks.enter_context(opened.shard.lock())
            opened.keeper.begin(self._batch, self._orders)
        for name, operator in self._running.items():
            with blame(operator):
                self._turns[name] = Turn(operator, self._open.get(name))
            for edge in self._graph.feedback_into(name):
                with self._durably(name, "reading its feedback"):
                    taken = self._mailbox.take(edge, batch=self._batch - 1)
                self._turns[name].feed_back(edge.port, taken.batches)
                self._lost[name] += taken.lost

    def _from_source(self, source: str, batch: pa.RecordBatch) -> Iterator[Leaving]:
        """Tuples that enter the graph."""
        if source in self._reads:
            self._reads[source].see(batch)
        for edge in self._clocks:
            if edge.stream.node == source and batch.num_rows:
                self._times[edge].append(times_in(self._hopping(edge), batch))
        for edge in self._onward[source]:
            yield from self._arrive(edge, batch)

    def _arrive(self, edge: Edge, batch: pa.RecordBatch) -> Iterator[Leaving]:
        """Tuples or punctuation on an edge: for an operator of this stage, or passing by."""
        turn = self._turns.get(edge.node)
        if turn is None:
            if edge in self._windows and batch.num_rows:
                self._mark(edge, batch)
            yield edge, batch
        elif edge.tells_time:
            turn.tell_time(edge.stream.node, batch)
        elif edge.marks:
            turn.punctuate(batch)
        else:
            self._check_key(turn.operator, batch)
            yield from self._route(turn.operator, turn.arrive(edge.port, batch))

    def _arrive_added(self, edge: Edge, added: Added) -> Iterator[Leaving]:
        """Tuples that were added up, for an operator of this stage."""
        turn = self._turns[edge.node]
        self._check_key(turn.operator, added.batch)
        yield from self._route(turn.operator, turn.arrive_added(edge.port, added))

    def _finish(self) -> Iterator[Leaving]:
        """All tuples have arrived: let every operator finish, then commit every shard."""
        self.ranges = [found for found in (numbers.done() for numbers in self._reads.values()) if found is not None]
        kept: dict[str, tuple[int, float]] = {}
        for name in self._stage.operators:
            if name not in self._turns:
                continue
            turn = self._turns[name]
            kept[name] = self._keep_items(name, turn)
            yield from self._route(turn.operator, turn.finish())
        for edge, marks in self._marks.items():
            shards = self._graph.shards_of(edge.node)
            yield self._windows[edge], mark_batch(NO_MARKS.merged(*marks), shards)
        for edge, times in self._times.items():
            yield edge, time_batch(NO_TIMES.merged(*times), self._graph.shards_of(edge.node))
        for name, opened in self._open.items():
            with self._durably(name, "leaving its feedback"):
                for edge in self._upstream[name]:
                    self._mailbox.put(
                        edge,
                        self._sent[edge],
                        batch=self._batch,
                        shard=self._index,
                        epoch=opened.epoch,
                        checkpoint=self._orders.checkpoint,
                    )
            turn = self._turns[name]
            item_bytes, item_s = kept[name]
            self.progress.append(
                opened.keeper.commit(
                    seq=turn.seq,
                    tuples=turn.tuples,
                    position=turn.position,
                    item_bytes=item_bytes,
                    item_s=item_s,
                    feedback_lost=self._lost[name],
                    late=turn.late,
                    ahead=turn.ahead,
                )
            )

    def _route(self, operator: Operator, outs: Iterable[Out]) -> Iterator[Leaving]:
        for out in blamed(operator, outs):
            wanted = operator.schemas.get(out.port)
            if out.batch.schema != wanted:
                declared = _types(wanted) if wanted else f"no port {out.port!r}"
                raise InputError(
                    f"Operator {operator.name!r} declared {declared} and put out {_types(out.batch.schema)}."
                )
            for edge in self._upstream[operator.name]:
                if edge.stream.port == out.port:
                    self._sent[edge].append(out.batch)
            for edge in self._onward[operator.name]:
                if edge.stream.port == out.port:
                    yield from self._arrive(edge, out.batch)

    def _mark(self, edge: Edge, batch: pa.RecordBatch) -> None:
        marks = self._hopping(edge).marks(batch)
        if marks.windows.size:
            self._marks[edge].append(marks)

    def _hopping(self, edge: Edge) -> Hopping:
        """The windows at the end of an edge."""
        window = self._graph.operators[edge.node].windowing
        assert isinstance(window, Hopping)
        return window

    def _keep_items(self, name: str, turn: Turn) -> tuple[int, float]:
        """Make what arrived durable, if its operator wants that; the bytes written and the seconds it took."""
        if name not in self._items:
            return 0, 0.0
        clock = self._open[name].clock if name in self._open else SystemClock()
        began_s = clock.monotonic_s()
        with self._durably(name, "making its items durable"):
            written = self._items[name].write(self._batch, turn.arrived(), trim_to=self._trim_to(name))
        return written, clock.monotonic_s() - began_s

    @contextmanager
    def _durably(self, name: str, doing: str) -> Iterator[None]:
        """Turn an error of the file system into the one sentence that matters."""
        try:
            yield
        except OSError as error:
            raise BoundLostError(
                operator=name,
                shard=self._index,
                reason=f"{doing} failed: {error.strerror or error}. The batch was not committed; mend the folder and "
                f"run again.",
            ) from error

    def _trim_to(self, name: str) -> int:
        """The batches whose items no recovery can ask for; an operator without state has nothing to recover."""
        backup_batch = self._open[name].shard.backup_version if name in self._open else self._batch - 1
        return policy_of(self._running[name].protect).trim_to(batch=self._batch, backup_batch=backup_batch)

    def _check_key(self, operator: Operator, batch: pa.RecordBatch) -> None:
        for column in () if operator.null_keys else operator.key:
            values = batch[column]
            if values.null_count:
                numbers = batch[SEQ].filter(pc.is_null(values))[:_EXAMPLES_MAX].to_pylist()
                examples = ", ".join(map(str, numbers))
                raise InputError(
                    f"Operator {operator.name!r}: key column {column!r} must not be null; it is in {values.null_count} "
                    f"tuples of batch {self._batch} (seq {examples}). Drop them before the operator."
                )


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' not null'}" for column in schema)
