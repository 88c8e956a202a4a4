"""What runs in a Spark task: convert, delegate to the engine's task, report."""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from spillway.backup.behind import in_thread
from spillway.backup.keeper import Observer
from spillway.clock import SystemClock
from spillway.engine.added_numbers import AddedPart, Look, Looked
from spillway.engine.adding import AddingPlan, AddingRule
from spillway.engine.feedback import Mailbox
from spillway.engine.inputs import LogPiece
from spillway.engine.log_view import LogView
from spillway.engine.numbering import Numbering
from spillway.engine.opened import OpenOperator, open_items
from spillway.engine.stopwatch import Stopwatch, saving_s
from spillway.engine.task import Arriving, Equipment, Task
from spillway.errors import NotOwnerError, RunError
from spillway.graph.checked import CheckedGraph
from spillway.graph.growing import TakenFile
from spillway.graph.kafka.offsets import TopicRange
from spillway.graph.nodes import Exit, Source
from spillway.graph.sinks import Discard
from spillway.graph.stages import Stage
from spillway.operators.operator import Operator
from spillway.records.progress import ShardProgress
from spillway.records.ranges import PassedOver, SourceRange
from spillway.records.times import TaskTimes, Work
from spillway.spark.leaving import Departure, from_batch
from spillway.spark.memory_place import MemoryPlace
from spillway.spark.reading import Weighed, Weighing
from spillway.spark.telling import orders_here, told_here
from spillway.state.folders import use

# Shards stay mapped in a worker from batch to batch: a fresh mapping pays a page fault for every page it touches.
_OPEN: OrderedDict[tuple[str, str, int, int], OpenOperator] = OrderedDict()
_OPEN_MAX = 64


Reported = ShardProgress | SourceRange | PassedOver | TaskTimes | Looked | AddedPart | Weighed
"""What a task tells the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a task needs to know of its run."""

    run: str  # unlike that of any other run, so that nothing kept in a worker outlives its run
    graph: CheckedGraph  # without sources and sinks, which stay in the driver
    operators: dict[str, Operator]
    memory: MemoryPlace
    several: bool  # hosts, each with a memory of its own
    backups: str | None
    checkpoint: str
    observe: Observer
    report: Callable[[list[Reported]], None]

    @property
    def salt(self) -> int:
        """A number of this run that nobody who sends tuples can know: see ``engine.added_numbers``."""
        return int(self.run[:15], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """In which batches tasks look at the keys, to tell whether they should have been added up."""

    plan: AddingPlan
    rule: AddingRule
    first_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFrame:
    """Stage 0 for what one streaming DataFrame gives, as the function that Spark maps over a partition."""

    context: RunContext
    stage: Stage
    source: Source
    leaving: Departure
    looking: Looking | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        at, source, looking = whereabouts(), self.source, self.looking
        numbers = Numbering(source, batch=at.batch, part=at.index, name=f"part {at.index}", ordered=False)
        weighing = Weighing(at.index)
        tuples: Iterator[pa.RecordBatch] = (
            pa.RecordBatch.from_arrays(batch.columns, schema=source.schema) for batch in weighing.over(batches)
        )
        look = None
        if looking is not None and looking.rule.looks_at(at.batch, first_batch=looking.first_batch):
            look = Look(looking.plan, part=at.index)
            tuples = map(look.see, tuples)
        arriving = ((source.name, batch) for batch in tuples)
        yield from run_stage(self.context, self.stage, at, arriving, reads={source.name: numbers}, leaving=self.leaving)
        self.context.report([weighing.done(), *([] if look is None else [look.done()])])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPieces:
    """Stage 0 for a feed, files or a topic, run where a piece is read: its tuples need not go to Spark and back."""

    context: RunContext
    stage: Stage
    source: Source  # with its feed, files or topic
    leaving: Departure

    def __call__(self, piece: int | TakenFile | TopicRange) -> Iterator[pa.RecordBatch]:
        watch = stopwatch()
        at, source = whereabouts(), self.source
        with watch.on(Work.READING):
            opened = source.open(piece)
        numbers = Numbering(source, batch=at.batch, part=opened.number, name=opened.name, ordered=True)
        arriving = ((source.name, source.columns_of(batch)) for batch in opened.batches)
        reads = {source.name: numbers}
        yield from run_stage(self.context, self.stage, at, arriving, reads=reads, leaving=self.leaving, watch=watch)
        if opened.passed:
            over = PassedOver(source=source.name, batch=at.batch, part=opened.number, passed=opened.passed)
            self.context.report([over])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """Stage 0 for a part of a batch of another job's stream log; its tuples are numbered as operators like."""

    context: RunContext
    stage: Stage
    view: LogView
    leaving: Departure

    def __call__(self, piece: LogPiece) -> Iterator[pa.RecordBatch]:
        watch, source = stopwatch(), self.view.input
        with watch.on(Work.READING):
            if piece.payload is not None:
                parts = [pa.ipc.read_record_batch(pa.py_buffer(piece.payload), source.schema)]
            else:
                parts = self.view.read(piece.batch)[piece.part : piece.part + 1]
        arriving = ((source.stream, tuples) for tuples in parts)
        return run_stage(self.context, self.stage, whereabouts(), arriving, leaving=self.leaving, watch=watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """A later stage, as the function that Spark maps over a partition."""

    context: RunContext
    stage: Stage
    leaving: Departure

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_stage(self.context, self.stage, whereabouts(), self._arriving(batches), leaving=self.leaving)

    def _arriving(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Arriving]:
        schemas = [self.context.graph.schema_of(edge) for edge in self.stage.arriving]
        for rows in batches:
            for channel, tuples in from_batch(rows, schemas):
                yield self.stage.arriving[channel], tuples


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Which task of which batch this is."""

    index: int
    batch: int


def whereabouts() -> Whereabouts:
    task = TaskContext.get()
    assert task is not None
    number = task.getLocalProperty("streaming.sql.batchId")
    if number is None:
        raise RunError("This plan keeps state and can only run as a streaming query, started by spillway.run.")
    return Whereabouts(index=task.partitionId(), batch=int(number))


def run_stage(
    context: RunContext,
    stage: Stage,
    at: Whereabouts,
    arriving: Iterable[Arriving],
    *,
    leaving: Departure,
    reads: Mapping[str, Numbering] | None = None,
    watch: Stopwatch | None = None,
) -> Iterator[pa.RecordBatch]:
    """What leaves one task of a stage, as rows; what it did, and how long it took, is reported to the driver.

    ``watch`` runs already if something was done before.
    """
    watch = watch or stopwatch()
    equipment = Equipment(
        graph=context.graph,
        operators=context.operators,
        open_shard=partial(open_shard, context, stage),
        open_items=partial(open_items, graph=context.graph, backups=context.backups),
        mailbox=mailbox(context),
    )
    with watch.on(Work.APPLYING):
        task = Task(equipment, stage, index=at.index, batch=at.batch, reads=reads, orders=orders_here())
    arrived = watch.over(Work.READING if stage.index == 0 else Work.CARRYING, arriving)
    batches = leaving.batches(watch.over(Work.APPLYING, task.run(arrived)), batch=at.batch)
    yield from watch.over(leaving.work, batches)
    parts = watch.stopped(saving_s=saving_s(task.progress))
    times = TaskTimes(batch=at.batch, stage=stage.index, index=at.index, began_s=watch.began_s, parts=parts)
    context.report([*located(task.progress, context), *task.ranges, times])


def mailbox(context: RunContext) -> Mailbox:
    """Where the run's feedback is; in memory only if all of it is here."""
    state = None if context.several else context.memory.folder
    return Mailbox(context.graph, state=state, backups=context.backups)


def located(rows: list[ShardProgress], context: RunContext) -> list[ShardProgress]:
    """What shards did, with where they are."""
    if not context.several:
        return rows
    told = [told_here(row.operator, row.shard) for row in rows]
    return [replace(row, host=one.host, epoch=one.epoch) for row, one in zip(rows, told, strict=True)]


def stopwatch() -> Stopwatch:
    """One that begins now; what is nobody's is spent on Spark, which hands tuples over and takes them."""
    return Stopwatch(Work.CARRYING, SystemClock())


def open_shard(context: RunContext, stage: Stage, operator: Operator, index: int) -> OpenOperator:
    """A shard of the stage's, mapped anew only if it is not mapped yet or its memory was lost; refused elsewhere."""
    told = told_here(operator.name, index)
    if told.memory and context.memory.memory_id() != told.memory:
        raise NotOwnerError(
            f"Operator {operator.name!r}, shard {index}, is on host {told.host}, and a task for it runs elsewhere, or "
            f"that host has lost its memory. Nothing was changed, and the batch is tried again."
        )
    place = (context.run, operator.name, index, told.epoch)
    opened = _OPEN.pop(place, None)
    if opened is not None and not opened.shard.current():
        opened.close()
        opened = None
    if opened is None:
        _let_go_of_lost()
        if context.several:
            # Spark's daemon, which forked this worker, lives as long as its executor.
            folder = context.memory.folder
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            use(folder, graph=context.graph.name, checkpoint=context.checkpoint, pid=os.getppid())
        opened = OpenOperator(
            operator,
            graph=context.graph,
            index=index,
            state=context.memory.folder,
            backups=context.backups,
            epoch=told.epoch,
            observe=context.observe,
            reached=lambda name, shard: told_here(name, shard).reached,
            writing=in_thread,
        )
    _OPEN[place] = opened
    # Those of this stage were asked for last, so they are never among the ones that are closed.
    while len(_OPEN) > max(_OPEN_MAX, len(stage.operators)):
        _OPEN.popitem(last=False)[1].close()
    return opened


def _let_go_of_lost() -> None:
    """Close shards whose memory is gone: while one stays mapped, the system cannot have its memory back."""
    for place, opened in list(_OPEN.items()):
        if not opened.shard.current():
            del _OPEN[place]
            opened.close()


def portable(graph: CheckedGraph) -> CheckedGraph:
    """The graph without what only the driver can hold: data of sources, functions of sinks."""
    empty: Any = None
    return replace(
        graph,
        sources={name: replace(source, data=empty) for name, source in graph.sources.items()},
        operators=dict(graph.operators),
        exits={name: Exit(name, Discard()) for name in graph.exits},
        schemas=dict(graph.schemas),
    )
