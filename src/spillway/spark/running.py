"""A graph running on Spark."""

import threading
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spillway.backup.keeper import Observer, Step, ignore
from spillway.backup.reach import Reach
from spillway.engine import rescaling
from spillway.engine.added_numbers import AddedPart, Looked, Whole, keys_in, shown, without_gaps
from spillway.engine.adding import ADDING_RULE, Choosing, adding_plan
from spillway.engine.kernels import kernels
from spillway.engine.looking import asked_for, check_memory
from spillway.engine.numbering import check_numbers
from spillway.engine.opened import OpenOperator
from spillway.engine.outlets import Outlets
from spillway.engine.resuming import check_resumable
from spillway.errors import BackupError, InputError, RunError, StateError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.operators.operator import Operator
from spillway.operators.promises import promises
from spillway.records.progress import ShardProgress, last_words
from spillway.records.ranges import SourceRange
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummary, summarise
from spillway.records.times import BatchTimes, TaskTimes
from spillway.spark.adding import rows_below
from spillway.spark.clocking import Clocking
from spillway.spark.compile import CompiledGraph, compile_graph
from spillway.spark.daemons import mend_daemons, retire_later
from spillway.spark.offsets import next_batch
from spillway.spark.places import Places
from spillway.spark.raised import as_ours, interrupted_shortly, written_down
from spillway.spark.reading import Reading, Weighed
from spillway.spark.reports import Reports
from spillway.spark.settings import adding_settings, check_one_machine, query_settings, session
from spillway.spark.sinks import SparkSinks
from spillway.spark.task import Looking, Reported, RunContext, portable
from spillway.state.folders import wipe

_PROGRESS_MAX = 100_000


def run(
    graph: Graph,
    spark: SparkSession | None = None,
    *,
    backups: str | Path | None = None,
    state: str | Path | None = None,
    checkpoint: str | Path | None = None,
    trigger: Mapping[str, Any] | None = None,
    directory: str | Path | None = None,
    observe: Observer = ignore,
    rescale: bool = False,
) -> "Run":
    """Start a graph on Spark and return at once.

    backups     a durable folder, local or any fsspec URL; needed unless every operator is protected by ``Nothing``
    state       a local folder for shard memory; by default one in shared memory, the same for the same ``checkpoint``
    checkpoint  Spark's own folder of offsets and commits; a run given the same one resumes. By default a temporary one
    trigger     as for Spark's ``trigger``, e.g. ``{"processingTime": "1 second"}``; by default everything there is is
                read and the run ends if all sources are traces or generators, and it goes on for ever otherwise
    directory   where to write the run's records; none by default
    rescale     whether a run that is resumed may have other numbers of shards than before: its state is divided anew
    """
    return Run(
        graph,
        spark or session(),
        backups=str(backups) if backups is not None else None,
        state=Path(state) if state is not None else None,
        checkpoint=str(checkpoint) if checkpoint is not None else None,
        trigger=trigger,
        directory=Path(directory) if directory is not None else None,
        observe=observe,
        rescale=rescale,
    )


class Run:
    """A running graph."""

    def __init__(
        self,
        graph: Graph,
        spark: SparkSession,
        *,
        backups: str | None,
        state: Path | None,
        checkpoint: str | None,
        trigger: Mapping[str, Any] | None,
        directory: Path | None,
        observe: Observer,
        rescale: bool = False,
    ) -> None:
        self._graph: CheckedGraph = graph.checked()
        self._operators = kernels(self._graph, backups=backups)
        self._outlets = Outlets(self._graph)
        self._sinks = SparkSinks(self._graph, self._outlets)
        self._backups = backups
        self._spark = spark
        check_one_machine(spark)
        mend_daemons(spark)
        retire_later(spark)
        self._observe = observe
        self._directory: RunDirectory | None = None
        self.batches = 0
        """How many batches this run has run."""
        self._rows: list[ShardProgress] = []
        self._lock = threading.Lock()
        self._clocking = Clocking()
        self._reports = Reports(spark.sparkContext)
        self._choosing = Choosing(ADDING_RULE)
        self._closed = False
        self._places = Places(self._graph.name, state=state, checkpoint=checkpoint)
        self.state = self._places.state
        try:
            self._take_places()
            batch = next_batch(spark, self._places.checkpoint)
            check_resumable(self._graph, state=self.state, backups=backups, batch=batch, rescale=rescale)
            self._reach = Reach.beside(self._places.checkpoint)
            kept = rescaling.Places(state=self.state, backups=backups, reach=self._reach)
            self.rescaled = (
                rescaling.rescale(self._graph, kept, batch=batch) if rescale else rescaling.finish(self._graph, kept)
            )
            """The operators whose state was divided anew, by this run or one that was killed while it did so."""
            self._compiled = self._compile(spark, first_batch=batch)
            self._reading = Reading(rows=self._compiled.reads_rows)
            if directory is not None:
                self._directory = RunDirectory(
                    directory,
                    graph=self._graph.name,
                    drawing=graph.draw(),
                    backups=backups or "",
                    promises=promises(self._graph).as_json(),
                    rescaled=[change.as_json() for change in self.rescaled],
                )
            self._query = self._start(spark, trigger or _default_trigger(self._graph))
            self._clocking.follow(self._query)
        except BaseException as error:
            self._places.give_up()
            if self._directory is not None:
                self._directory.close("failed")
            if isinstance(error, PySparkException | Py4JError):
                raise as_ours(error, "Spark did not start the run") from error
            raise
        _RUNS.add(self)

    def _take_places(self) -> None:
        """Make the folders this run's, unless another uses them."""
        for other in list(_RUNS):
            shared = self._places.shares(other._places)
            if shared and other.active:
                raise self._places.refuse(shared, f"a run of graph {other._graph.name!r} in this process")
            if shared:
                other._places.hand_over()
        self._places.claim()

    def _compile(self, spark: SparkSession, *, first_batch: int) -> CompiledGraph:
        context = RunContext(
            run=uuid.uuid4().hex,
            graph=portable(self._graph),
            operators=self._operators,
            state=str(self.state),
            backups=self._backups,
            checkpoint=self._places.checkpoint,
            observe=self._observe,
            report=self._reports.of_task,
        )
        self._salt = context.salt
        plan = adding_plan(self._graph, self._operators)
        looking = None if plan is None else Looking(plan=plan, rule=ADDING_RULE, first_batch=first_batch)
        return compile_graph(self._graph, spark, context, self._sinks.destinations, looking)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        return self._query

    @property
    def active(self) -> bool:
        try:
            return bool(self._query.isActive)
        except Py4JError:
            return False  # with the JVM the query is gone too

    @property
    def added_up(self) -> int:
        """Of how many batches of this run Spark added up the tuples before Python saw them."""
        return self._choosing.batches

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends, at most so long; true if it has. Raises what stopped it, if something did.

        Its memory can be looked at afterwards: ``stop``, or leaving the ``with`` block, removes it if it is temporary.
        """
        try:
            ended = self._query.awaitTermination(timeout_s)  # type: ignore[arg-type]
        except PySparkException as error:
            self._close("failed")
            raise as_ours(error, "Spark stopped the run") from error
        if ended is False:
            return False
        self._close("finished")
        return True

    def stop(self) -> None:
        """Stop after the batch at hand, or at once if it takes long; what is committed stays.

        Memory and checkpoint of a run that was given neither ``checkpoint`` nor ``state`` are removed.
        """
        if self.active:
            self._query.stop()
        self._close("stopped")
        self._places.leave()

    def records(self) -> list[ShardProgress]:
        """What every shard did in every batch so far (the last 100,000)."""
        with self._lock:
            return list(self._rows)

    def progress(self) -> list[OperatorSummary]:
        """Backups, divergence, failures, per operator."""
        return summarise(self.records())

    def times(self) -> list[BatchTimes]:
        """Where the time of every batch went that is over (the last 100,000)."""
        return self._clocking.times()

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        return self._outlets.result(sink)

    def shard(self, operator: str, index: int) -> Operator:
        """The operator at work on one shard, to look at its state once the run has ended.

        The state of a run that was given neither ``checkpoint`` nor ``state`` is there until it is stopped.
        """
        kernel = asked_for(self._graph, self._operators, operator, index)
        if self._places.state_is_gone:
            raise RunError(
                f"Operator {operator!r}, shard {index}: its memory was temporary and was removed when the run was "
                f"stopped. Look at it before (inside the with block, after wait), or name checkpoint= or state=."
            )
        check_memory(self._graph, operator, index, state=self.state)
        opened = OpenOperator(kernel, graph=self._graph, index=index, state=self.state, backups=self._backups)
        if opened.shard.changing:
            opened.close()
            raise StateError(
                f"Operator {operator!r}, shard {index}, is in the middle of a batch, so what it holds is neither from "
                f"before it nor from after. Look again when the batch is done; if the run has failed, resume it, which "
                f"undoes the batch."
            )
        return opened.operator

    def committed(self) -> int:
        """The last batch that Spark has noted as done, by this run or one that it resumed; -1 if there is none."""
        return next_batch(self._spark, self._places.checkpoint) - 1

    def wipe(self) -> None:
        """Lose all shard memory, as a machine that stops does."""
        wipe(self.state)

    def _start(self, spark: SparkSession, trigger: Mapping[str, Any]) -> StreamingQuery:
        writer = self._compiled.entering.writeStream.queryName(_free_name(spark, f"spillway {self._graph.name}"))
        writer = writer.foreachBatch(self._write).option("checkpointLocation", self._places.checkpoint)
        rows, local = self._compiled.reads_rows, self._places.local_checkpoint
        with query_settings(spark, local_checkpoint=local, rows=rows):
            return writer.trigger(**trigger).start()

    def _write(self, frame: DataFrame, batch: int) -> None:
        with written_down(), interrupted_shortly():
            self._note_times()
            added_up = self._write_added(frame, batch)
            if not added_up:
                with self._reading.payloads(frame):
                    leaving = self._compiled.leaving(frame, read_apart=self._reading.apart)
                    writing_s = self._sinks.write(leaving, batch=batch)
                self._take_reports(batch, writing_s=writing_s)
        self._choosing.ended(added_up=added_up)
        self.batches += 1
        self._observe(Step.WRITTEN, "", -1, batch)

    def _write_added(self, frame: DataFrame, batch: int) -> bool:
        """Run a batch whose tuples Spark adds up; false if it is to be run without, and no sink was given anything."""
        adding = self._compiled.adding
        if adding is None or not self._choosing.adds_up:
            return False
        query = getattr(self, "_query", None)
        if query is None:
            return False  # its first batches may come before Spark has told what it started
        taken: list[Reported] = []
        whole: list[Whole] = []

        def check() -> None:
            taken.extend(self._reports.fresh())
            parts = {row.part: row for row in taken if isinstance(row, AddedPart)}
            before = self._reach.last_seq(adding.plan.source, batch=batch)
            whole.append(shown(parts.values(), salt=self._salt, before=before))

        try:
            rows = rows_below(query, frame.sparkSession, batch=batch)
            with adding_settings(frame.sparkSession), self._reading.payloads(frame):
                writing_s = self._sinks.write(self._compiled.leaving_added(rows), batch=batch, check=check)
        except (InputError, PySparkException) as error:
            # Whatever is wrong with the tuples is said when they come one by one, in the words for that.
            ours = error if isinstance(error, InputError) else as_ours(error, "Spark stopped the run")
            if whole or not isinstance(ours, InputError):
                raise
            self._reports.fresh()
            self._choosing.run_in_vain()
            return False
        self._choosing.seen(tuples=whole[0].tuples, keys=whole[0].keys, fit=True)
        self._note(taken, whole[0].ranges(adding.plan.source, batch=batch), batch=batch, writing_s=writing_s)
        return True

    def _take_reports(self, batch: int, *, writing_s: float) -> None:
        fresh = self._reports.fresh()
        ranges = {(row.source, row.part): row for row in fresh if isinstance(row, SourceRange)}
        for name, source in self._graph.sources.items():
            of_source = [part for part in ranges.values() if part.source == name]
            check_numbers(source, of_source, before=self._reach.last_seq(name, batch=batch))
        self._note(fresh, ranges.values(), batch=batch, writing_s=writing_s)
        self._reading.seen(row for row in fresh if isinstance(row, Weighed))
        looks = {row.part: row for row in fresh if isinstance(row, Looked)}.values()
        if looks:
            fit = without_gaps(ranges.values()) and all(look.fit for look in looks)
            self._choosing.seen(tuples=sum(look.tuples for look in looks), keys=keys_in(looks), fit=fit)

    def _note(
        self, reports: Sequence[Reported], ranges: Iterable[SourceRange], *, batch: int, writing_s: float
    ) -> None:
        """Note what shards did in a batch that is about to be committed."""
        # A task that was tried again has reported again.
        newest = last_words([row for row in reports if isinstance(row, ShardProgress)])
        self._reach.note(newest, ranges)
        with self._lock:
            self._rows += newest
            del self._rows[:-_PROGRESS_MAX]
        if self._directory is not None:
            self._directory.add(newest)
        tasks = [row for row in reports if isinstance(row, TaskTimes)]
        self._clocking.note(batch, tasks, writing_s=writing_s)

    def _note_times(self) -> None:
        settled = self._clocking.settle()
        if self._directory is not None:
            self._directory.add_times(settled)

    def _close(self, ended: str) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(BackupError):  # only how far sources were read would be older in it
            self._reach.write()
        self._places.release()
        self._note_times()
        if self._directory is not None:
            self._directory.close(ended)


_RUNS: weakref.WeakSet[Run] = weakref.WeakSet()
"""The runs of this process that somebody still holds, or that Spark does: no two may work in the same folders."""


def _default_trigger(graph: CheckedGraph) -> dict[str, Any]:
    if all(source.feed is not None for source in graph.sources.values()):
        return {"availableNow": True}
    return {"processingTime": "0 seconds"}


def _free_name(spark: SparkSession, name: str) -> str:
    """The name, or the name with a number if a query of the session has it: Spark refuses the same name twice."""
    taken = {query.name for query in spark.streams.active}
    names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
    return next(free for free in names if free not in taken)
