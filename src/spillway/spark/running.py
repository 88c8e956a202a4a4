"""A graph running on Spark."""

import threading
import uuid
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spillway.backup.keeper import Observer, Step
from spillway.backup.reach import Reach
from spillway.engine import rescaling
from spillway.engine.adding import ADDING_RULE, Choosing, adding_plan
from spillway.engine.author import Author
from spillway.engine.feedback import Mailbox
from spillway.engine.kernels import kernels
from spillway.engine.looking import asked_for, look_at_shard
from spillway.engine.outlets import Outlets
from spillway.engine.owner_table import table_folder
from spillway.engine.resuming import check_resumable
from spillway.engine.warm import tell_if_cold
from spillway.errors import BackupError, RunError, SpillwayError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.operators.operator import Operator
from spillway.operators.promises import promises
from spillway.records.placing import Moved, Waited
from spillway.records.progress import ShardProgress
from spillway.records.rewound import Rewound
from spillway.records.summary import OperatorSummaries, ShownRun, summarise
from spillway.records.times import BatchTimes
from spillway.spark.attending import Attended
from spillway.spark.batches import Batches, Ran
from spillway.spark.clocking import Clocking
from spillway.spark.compile import CompiledGraph, compile_graph
from spillway.spark.daemons import mend_daemons, retire_later
from spillway.spark.going_back import going_back
from spillway.spark.job import SparkJob
from spillway.spark.noting import Noting
from spillway.spark.offsets import next_batch
from spillway.spark.owning import Owners
from spillway.spark.places import Holder, Places
from spillway.spark.queries import default_trigger, free_name
from spillway.spark.raised import as_ours, is_of_spark
from spillway.spark.receiving import checked
from spillway.spark.reports import Reports
from spillway.spark.settings import query_settings
from spillway.spark.sinks import SparkSinks
from spillway.spark.task import Looking, RunContext, portable
from spillway.spark.watched import NotWatched
from spillway.state.folders import wipe
from spillway.tls import TLS


class Run(ShownRun):
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
        rebalance: bool = False,
        tls: TLS | None = None,
        job: SparkJob | None = None,
        query_name: str | None = None,
        page: NotWatched | None = None,
    ) -> None:
        self._graph: CheckedGraph = checked(graph)
        self._operators = kernels(self._graph, backups=backups)
        self.name, self._job, self._query_name = graph.name, job, query_name
        self._places = Places(self._graph.name, state=state, checkpoint=checkpoint)
        self._outlets = (
            Outlets(self._graph, author=Author.beside(self._places.checkpoint)) if job is None else job.outlets
        )
        self._sinks = SparkSinks(self._graph, self._outlets)
        self._backups, self._spark = backups, spark
        mend_daemons(spark)
        self._observe, self._page = observe, page or NotWatched()
        self.page = self._page.address
        """Where to open its page, with the token, if it was started with ``watch=`` or ``metrics=``; or empty."""
        self._noting, self._reports = Noting(self._graph), Reports(spark.sparkContext)
        self.batches = 0
        """How many batches this run has run."""
        self.passed_over = self._noting.passed
        """What sources passed over since this run began, by their names, where that was declared."""
        self._clocking, self._choosing, self._closing = Clocking(), Choosing(ADDING_RULE), threading.Lock()
        self._closed, self._stopping, self.state = False, False, self._places.state
        try:
            self._places.take(Holder(places=one._places, run=one, graph=one._graph.name) for one in list(_RUNS))
            self._reach = Reach.beside(self._places.checkpoint)
            self._back = going_back(
                self._graph,
                spark,
                backups=backups,
                checkpoint=self._places.checkpoint,
                reach=self._reach,
                forget_after=self._outlets.forget_after,
                coordination=None if job is None else job.coordination,
            )
            batch = next_batch(spark, self._places.checkpoint) if self._back is None else self._back.next_batch()
            self._places.begin(batch)
            self._owners = self._owning(batch=batch, rebalance=rebalance, tls=tls)
            went_back = self._back is not None and self._back.rewinding.follows_rewind(batch)
            check_resumable(
                self._graph,
                state=None if self._owners.several else self.state,
                backups=backups,
                batch=batch,
                rescale=rescale,
                owners=self._owners.several,
                rewound=went_back,
            )
            self._owners.check()
            self._outlets.begin(batch, went_back=went_back, observe=observe)
            kept = rescaling.Places(state=self.state, backups=backups, reach=self._reach)
            self.rescaled = self._owners.divided(kept, self._places, batch=batch, rescale=rescale)
            """The operators whose state was divided anew, by this run or one that was killed while it did so."""
            self._compiled = self._compile(spark, first_batch=batch)
            self._batches = Batches(
                self._graph,
                self._compiled,
                sinks=self._sinks,
                reports=self._reports,
                owners=self._owners,
                reach=self._reach,
                choosing=self._choosing,
                salt=self._salt,
                rewinding=None if self._back is None else self._back.rewinding,
                ran=self._note,
            )
            self._trigger = trigger or default_trigger(self._graph)
            about = {
                "graph": self._graph.name,
                "drawing": graph.draw(),
                "backups": backups or "",
                "checkpoint": self._places.resumes_from,
                "trigger": dict(self._trigger),
                "sinks": {name: exit.sink.about() for name, exit in self._graph.exits.items()},
                "promises": promises(self._graph).as_json(),
                "rescaled": [change.as_json() for change in self.rescaled],
            }
            self._noting.open(directory, about)
            self._attended = Attended(self._start, None if self._back is None else self._mend)
        except BaseException as error:
            self._places.give_up()
            ours = as_ours(error, "Spark did not start the run") if is_of_spark(error) else error
            self._noting.refused(ours)
            if ours is not error:
                raise ours from error
            raise
        _RUNS.add(self)
        if directory is not None:
            self._attended.when_over(self._over)

    def _owning(self, *, batch: int, rebalance: bool, tls: TLS | None) -> Owners:
        backups = self._backups
        context: Any = self._spark.sparkContext
        self._memory = self._places.memory(one_machine=bool(context._jsc.sc().isLocal()), tls=tls)
        return Owners(
            self._graph,
            self._spark,
            memory=self._memory,
            backups=backups,
            table=table_folder(self._graph.name, backups=backups, checkpoint=self._places.checkpoint),
            batch=batch,
            reach=self._reach,
            rebalance=rebalance,
            neighbour=None if self._job is None else self._job.neighbour,
            shared=self._sinks.folders,
            stopping=lambda: self._stopping,
            observe=self._observe,
            notice=self._noting.notice,
        )

    def _mend(self, error: Exception) -> bool:
        """The query has ended; true if it may be started again, because memory was lost and the graph went back."""
        assert self._back is not None
        rewound = self._back.mended(error)
        if rewound is not None:
            self._reports.fresh()  # of tasks whose batch does not count
            self._noting.rewound(rewound)
        return rewound is not None

    def interrupt(self, find: Callable[[], Exception | None]) -> None:
        """End the query as if it had failed with what ``find`` finds; of a run whose graph goes back as a whole."""
        self._attended.interrupt(find)

    def rewinds(self) -> list[Rewound]:
        """Each time this run was sent back to its last checkpoint, because memory was lost."""
        return [] if self._back is None else list(self._back.rewinding.log)

    def _compile(self, spark: SparkSession, *, first_batch: int) -> CompiledGraph:
        tell_if_cold()
        retire_later(spark)  # not before: hosts may have been waited for
        context = RunContext(
            run=uuid.uuid4().hex,
            graph=portable(self._graph),
            operators=self._operators,
            memory=self._memory,
            several=self._owners.several,
            backups=self._backups,
            checkpoint=self._places.checkpoint,
            observe=self._observe,
            report=self._reports.of_task,
        )
        self._salt = context.salt
        plan = adding_plan(self._graph, self._operators)
        looking = None if plan is None else Looking(plan=plan, rule=ADDING_RULE, first_batch=first_batch)
        return compile_graph(self._graph, spark, context, self._sinks.destinations, looking, self._job)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle; of a run that was sent back, the one of the query it runs as since then."""
        return self._attended.query

    @property
    def active(self) -> bool:
        return self._attended.active

    @property
    def added_up(self) -> int:
        """Of how many batches of this run Spark added up the tuples before Python saw them."""
        return self._choosing.batches

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends, at most so long; true if it has. Raises what stopped it, if something did.

        Its memory can be looked at afterwards: ``stop``, or leaving the ``with`` block, removes it if it is temporary.
        """
        try:
            ended = self._attended.wait(timeout_s)
        except (PySparkException, SpillwayError) as error:
            ours = as_ours(error, "Spark stopped the run")
            self._over(ours)
            raise ours from error
        if ended:
            self._over(None)
        return ended

    def stop(self) -> None:
        """Stop after the batch at hand, or at once if it takes long; what is committed stays.

        Memory and checkpoint of a run that was given neither ``checkpoint`` nor ``state`` are removed.
        """
        self._stopping = True
        self._attended.stop()
        self._close("stopped")
        if self._places.temporary:
            self.leave_hosts()
        self._places.leave()
        self._page.close()

    def leave_hosts(self) -> None:
        """Remove the memory that other hosts have of this run, which has ended."""
        with suppress(PySparkException, Py4JError):  # with Spark gone its hosts cannot be reached
            self._owners.leave()

    def records(self) -> list[ShardProgress]:
        """What every shard did in every batch so far (the last 100,000)."""
        return self._noting.rows()

    def progress(self) -> OperatorSummaries:
        """Backups, divergence, failures, per operator."""
        return summarise(self.records())

    def times(self) -> list[BatchTimes]:
        """Where the time of every batch went that is over (the last 100,000)."""
        return self._clocking.times()

    def moves(self) -> list[Moved]:
        """Every shard that has had a new owner in this run, and why (the last 100,000); none on one machine."""
        return list(self._owners.log.moves)

    def waits(self) -> list[Waited]:
        """Every wait for a host that showed no executor (the last 100,000); none on one machine."""
        return list(self._owners.log.waits)

    def troubles(self) -> list[str]:
        """What went wrong with hosts and cost nothing: memory that was not handed over, a host that cannot be used."""
        return list(self._owners.log.troubles)

    def move(self, operator: str, shard: int, host: str) -> None:
        """Have a shard's memory handed over to another host of the cluster, before the next batch; returns at once.

        Operators of one stage run together and so move together. ``moves`` tells when it was done, ``troubles`` if it
        could not be.
        """
        self._owners.ask(operator, shard, host)

    def drain(self, host: str) -> None:
        """Have all shards of a host handed over to others, before the next batch, and give it none; returns at once."""
        self._owners.drain(host)

    def owner(self, operator: str, shard: int) -> str:
        """The host that has a shard's memory; empty on one machine, and before the first batch."""
        asked_for(self._graph, self._operators, operator, shard)
        return self._owners.owner_of(operator, shard)

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
        self._owners.check_here(operator, index)
        return look_at_shard(
            kernel,
            graph=self._graph,
            index=index,
            state=self._memory.folder,
            backups=self._backups,
            epoch=self._owners.epoch_of(operator, index),
        )

    def committed(self) -> int:
        """The last batch that Spark has noted as done, by this run or one that it resumed; -1 if there is none."""
        return next_batch(self._spark, self._places.checkpoint) - 1

    def wipe(self) -> None:
        """Lose all shard memory, as a machine that stops does."""
        wipe(self.state)

    def _start(self) -> StreamingQuery:
        spark, name = self._spark, self._query_name or free_name(self._spark, f"spillway {self._graph.name}")
        writer = self._compiled.entering.writeStream.queryName(name)
        writer = writer.foreachBatch(self._write).option("checkpointLocation", self._places.checkpoint)
        retire_later(spark)
        local, kept = self._places.local_checkpoint, 0 if self._back is None else self._back.batches_kept
        with query_settings(spark, local_checkpoint=local, kind=self._compiled.kind, batches_kept=kept):
            query = writer.trigger(**self._trigger).start()
        self._batches.query = query
        self._clocking.follow(query)
        return query

    def _write(self, frame: DataFrame, batch: int) -> None:
        self._noting.times(self._clocking.settle())
        if not self._owners.several:
            self._noting.look_for_memory(self.state, batch=batch)
        if self._job is not None:
            mailbox = Mailbox(self._graph, state=None if self._owners.several else self.state, backups=self._backups)
            self._job.begin(batch, mailbox, stopped=lambda: self._stopping or not self.active)
        self._batches.write(frame, batch)
        self.batches += 1
        self._observe(Step.WRITTEN, "", -1, batch)

    def _note(self, ran: Ran) -> None:
        """Note what shards did in a batch that is about to be committed."""
        self._owners.note(ran.rows)
        moves, waits = self._owners.log.fresh()
        self._noting.batch(ran, moves, waits)
        self._clocking.note(ran.batch, ran.tasks, writing_s=ran.writing_s)

    def _over(self, error: Exception | None) -> None:
        """The query has ended, whoever sees it first."""
        self._close("failed" if error is not None else "stopped" if self._stopping else "finished", error)

    def _close(self, ended: str, error: BaseException | None = None) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            with suppress(BackupError):  # only how far sources were read would be older in it
                self._reach.write()
            self._places.release()
            self._noting.times(self._clocking.settle())
            self._noting.close(ended, error)


_RUNS: weakref.WeakSet[Run] = weakref.WeakSet()
"""The runs of this process that somebody still holds, or that Spark does: no two may work in the same folders."""
