"""What is done with each micro-batch of a run: its later stages are put on it, and its output given to the sinks.

A batch begins with the owners of its shards (see ``owning``) and is tried again while hosts come and go. What its tasks
report is noted before Spark may commit it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spillway.backup.reach import Reach
from spillway.engine.added_numbers import AddedPart, Looked, Whole, keys_in, shown, without_gaps
from spillway.engine.adding import Choosing
from spillway.engine.numbering import check_numbers
from spillway.engine.rewinding import Rewinding
from spillway.errors import InputError
from spillway.graph.checked import CheckedGraph
from spillway.records.progress import ShardProgress, last_words
from spillway.records.ranges import PassedOver, SourceRange
from spillway.records.times import TaskTimes
from spillway.spark.adding import rows_below
from spillway.spark.compile import CompiledGraph
from spillway.spark.figures import figures_of
from spillway.spark.owning import Owners
from spillway.spark.raised import as_ours, interrupted_shortly, written_down
from spillway.spark.reading import Reading, Weighed
from spillway.spark.reports import Reports
from spillway.spark.settings import QueryKind, adding_settings, summing_settings
from spillway.spark.sinks import SparkSinks
from spillway.spark.summing import SummedStage, rows_read
from spillway.spark.task import Reported
from spillway.spark.telling import ORDERS, written_orders


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of a batch that is about to be committed."""

    batch: int
    rows: Sequence[ShardProgress]
    tasks: Sequence[TaskTimes]
    writing_s: float
    tuples: int  # that its sources gave
    passed: Sequence[PassedOver]  # what they passed over


class Batches:
    """The batches of one run."""

    def __init__(
        self,
        graph: CheckedGraph,
        compiled: CompiledGraph,
        *,
        sinks: SparkSinks,
        reports: Reports,
        owners: Owners,
        reach: Reach,
        choosing: Choosing,
        salt: int,
        rewinding: Rewinding | None,
        ran: Callable[[Ran], None],
    ) -> None:
        self._graph = graph
        self._compiled = compiled
        self._sinks = sinks
        self._reports = reports
        self._owners = owners
        self._reach = reach
        self._choosing = choosing
        self._salt = salt
        self._rewinding = rewinding
        self._ran = ran
        self._reading = Reading(rows=compiled.kind is QueryKind.ROWS)
        self.query: StreamingQuery | None = None
        """Spark's own handle, once it has told what it started; its first batches may come before that."""

    def write(self, frame: DataFrame, batch: int) -> None:
        """Run a batch, whatever that takes."""
        with written_down(), interrupted_shortly():
            while True:
                self._owners.prepare(batch)
                self._give_orders(frame, batch)
                try:
                    self._run(frame, batch)
                    return
                except (PySparkException, Py4JError) as error:
                    self._owners.try_again(batch, error)
                    self._reports.fresh()  # of tasks whose batch does not count

    def _give_orders(self, frame: DataFrame, batch: int) -> None:
        """Tell the tasks of a batch whether it is a checkpoint, and how often the job was sent back."""
        if self._rewinding is not None:
            told = written_orders(self._rewinding.orders(batch))
            frame.sparkSession.sparkContext.setLocalProperty(ORDERS, told)

    def _run(self, frame: DataFrame, batch: int) -> None:
        if self._compiled.later.summed is not None:
            self._run_summed(frame, batch, self._compiled.later.summed)
            return
        added_up = self._run_added(frame, batch)
        if not added_up:
            with self._reading.payloads(frame):
                leaving = self._compiled.later.leaving(frame, self._owners.places, read_apart=self._reading.apart)
                writing_s = self._sinks.write(leaving, batch=batch)
            self._take_reports(batch, writing_s=writing_s)
        self._choosing.ended(added_up=added_up)

    def _run_summed(self, frame: DataFrame, batch: int, summed: SummedStage) -> None:
        """Run a batch whose tuples Spark makes, as part of whatever the sink does with what comes of them."""
        session = frame.sparkSession
        with summing_settings(session, shards=summed.shards):
            leaving = self._compiled.later.leaving_added(frame, self._owners.places)
            writing_s = self._sinks.write_frame(leaving, batch=batch)
            taken = self._reports.fresh()
            if {row.index for row in taken if isinstance(row, TaskTimes)} != set(range(summed.shards)):
                # The sink has not looked at all of it; a shard that has run goes back first.
                leaving.write.format("noop").mode("overwrite").save()
                taken += self._reports.fresh()
        groups = sum(row.tuples for row in last_words([row for row in taken if isinstance(row, ShardProgress)]))
        rows = rows_read(summed.query(session))
        summed.source.seen(rows, groups)
        part = SourceRange(
            source=summed.name, batch=batch, part=0, name="", ordered=False, tuples=rows, first=batch, last=batch
        )
        self._note(taken, [part], batch=batch, writing_s=writing_s)

    def _run_added(self, frame: DataFrame, batch: int) -> bool:
        """Run a batch whose tuples Spark adds up; false if it is to be run without, and no sink was given anything."""
        adding = self._compiled.later.adding
        if adding is None or not self._choosing.adds_up:
            return False
        if self.query is None:
            return False
        taken: list[Reported] = []
        whole: list[Whole] = []

        def check() -> None:
            taken.extend(self._reports.fresh())
            parts = {row.part: row for row in taken if isinstance(row, AddedPart)}
            before = self._reach.last_seq(adding.plan.source, batch=batch)
            whole.append(shown(parts.values(), salt=self._salt, before=before))

        try:
            rows = rows_below(self.query, frame.sparkSession, batch=batch)
            with adding_settings(frame.sparkSession), self._reading.payloads(frame):
                writing_s = self._sinks.write(
                    self._compiled.later.leaving_added(rows, self._owners.places), batch=batch, check=check
                )
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
        ranges = tuple(ranges)
        # A task that was tried again has reported again.
        newest = last_words([row for row in reports if isinstance(row, ShardProgress)])
        tuples = sum(part.tuples for part in ranges)
        if self._rewinding is not None:
            saved_bytes = sum(row.backup_bytes for row in newest)
            self._rewinding.ran(batch, tuples=tuples, saved_bytes=saved_bytes)
        self._reach.note(newest, ranges)
        tasks = [row for row in reports if isinstance(row, TaskTimes)]
        passed = [row for row in reports if isinstance(row, PassedOver)]
        self._ran(Ran(batch=batch, rows=newest, tasks=tasks, writing_s=writing_s, tuples=tuples, passed=passed))
        self._compiled.observed.tell(figures_of(batch, newest, tuples=tuples))
