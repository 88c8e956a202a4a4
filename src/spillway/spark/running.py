"""A graph running on Spark."""

import hashlib
import os
import re
import tempfile
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spillway import errors
from spillway.backup.keeper import Observer, Step, ignore
from spillway.backup.reach import Reach
from spillway.errors import GraphError, RunError, SpillwayError
from spillway.graph.graph import CheckedGraph, Graph
from spillway.operators.opened import OpenOperator
from spillway.operators.operator import Operator
from spillway.operators.promises import promises
from spillway.operators.resuming import check_resumable
from spillway.records.progress import ShardProgress, last_words
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummary, summarise
from spillway.spark.compile import compile_graph
from spillway.spark.offsets import next_batch
from spillway.spark.settings import check_one_machine, query_settings, session
from spillway.spark.sinks import Outlets
from spillway.spark.task import RunContext, portable
from spillway.state.folders import claim, default_root, wipe

_PROGRESS_MAX = 100_000
_RAISED = re.compile(r"^\W*spillway\.errors\.(\w+): (.+)", re.MULTILINE)
_RAISED_BY_USER = re.compile(r"^(?!\s)(?!pyspark|py4j)([\w.]*(?:Error|Exception): .+)", re.MULTILINE)


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
) -> "Run":
    """Start a graph on Spark and return at once.

    backups     a durable folder, local or any fsspec URL; needed unless every operator is protected by ``Nothing``
    state       a local folder for shard memory; by default one in shared memory, the same for the same ``checkpoint``
    checkpoint  Spark's own folder of offsets and commits; a run given the same one resumes. By default a temporary one
    trigger     as for Spark's ``trigger``, e.g. ``{"processingTime": "1 second"}``; by default everything there is is
                read and the run ends if all sources are traces or generators, and it goes on for ever otherwise
    directory   where to write the run's records; none by default
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
    ) -> None:
        self._graph: CheckedGraph = graph.checked()
        self._operators = _kernels(self._graph, backups)
        self._backups = backups
        check_one_machine(spark)
        self._observe = observe
        self._temporary = tempfile.TemporaryDirectory(prefix="spillway-checkpoint-") if checkpoint is None else None
        self._forget_state = state is None and checkpoint is None
        checkpoint = checkpoint or f"{self._temporary.name}/checkpoint" if self._temporary else checkpoint
        assert checkpoint is not None
        checkpoint = _absolute(checkpoint)
        self.state = state or default_root() / _state_name(self._graph.name, checkpoint)
        check_resumable(self._graph, state=self.state, backups=backups, batch=next_batch(spark, checkpoint))
        self._rows: list[ShardProgress] = []
        self._lock = threading.Lock()
        self._reported = spark.sparkContext.accumulator([], _Rows())
        self._taken = 0
        self._closed = False
        context = RunContext(
            run=uuid.uuid4().hex,
            graph=portable(self._graph),
            operators=self._operators,
            state=str(self.state),
            backups=backups,
            checkpoint=checkpoint,
            observe=observe,
            report=_Report(self._reported),
        )
        self._reach = Reach.beside(checkpoint)
        frame, layout = compile_graph(self._graph, spark, context)
        self._outlets = Outlets(self._graph, layout)
        claim(self.state, graph=self._graph.name, checkpoint=checkpoint)
        self._directory = (
            RunDirectory(
                directory,
                graph=self._graph.name,
                drawing=graph.draw(),
                backups=backups or "",
                promises=promises(self._graph).as_json(),
            )
            if directory is not None
            else None
        )
        self._query = self._start(frame, spark, checkpoint, trigger or _default_trigger(self._graph))

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
        return bool(self._query.isActive)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run ends, at most so long; true if it has. Raises what stopped it, if something did."""
        try:
            ended = self._query.awaitTermination(timeout_s)  # type: ignore[arg-type]
        except PySparkException as error:
            self._close("failed")
            raise _as_ours(error) from error
        if ended is False:
            return False
        self._close("finished")
        return True

    def stop(self) -> None:
        """Stop after the batch at hand, or at once if it takes long; what is committed stays."""
        if self._query.isActive:
            self._query.stop()
        self._close("stopped")

    def records(self) -> list[ShardProgress]:
        """What every shard did in every batch so far (the last 100,000)."""
        with self._lock:
            return list(self._rows)

    def progress(self) -> list[OperatorSummary]:
        """Backups, divergence, failures, per operator."""
        return summarise(self.records())

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        return self._outlets.result(sink)

    def shard(self, operator: str, index: int) -> Operator:
        """The operator at work on one shard, to look at its state once the run has ended."""
        opened = OpenOperator(
            self._operators[operator], graph=self._graph, index=index, state=self.state, backups=self._backups
        )
        return opened.operator

    def wipe(self) -> None:
        """Lose all shard memory, as a machine that stops does."""
        wipe(self.state)

    def _start(
        self, frame: DataFrame, spark: SparkSession, checkpoint: str, trigger: Mapping[str, Any]
    ) -> StreamingQuery:
        writer = frame.writeStream.queryName(f"spillway {self._graph.name}").foreachBatch(self._write)
        writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
        with query_settings(spark):
            return writer.start()

    def _write(self, frame: DataFrame, batch: int) -> None:
        self._outlets.write(frame, batch)
        self._take_reports()
        self._observe(Step.WRITTEN, "", -1, batch)

    def _take_reports(self) -> None:
        reported = self._reported.value
        fresh = reported[self._taken :]
        newest = last_words(fresh)  # a task that was tried again has reported again
        self._taken = len(reported)
        if self._taken > _PROGRESS_MAX:
            reported.clear()
            self._taken = 0
        self._reach.note(newest)
        with self._lock:
            self._rows += newest
            del self._rows[:-_PROGRESS_MAX]
        if self._directory is not None:
            self._directory.add(newest)

    def _close(self, ended: str) -> None:
        if self._closed:
            return
        self._closed = True
        if self._directory is not None:
            self._directory.close(ended)
        if self._forget_state:
            import shutil

            shutil.rmtree(self.state, ignore_errors=True)
        if self._temporary is not None:
            self._temporary.cleanup()


class _Rows(AccumulatorParam[list[ShardProgress]]):
    """Records of tasks, appended in the driver."""

    def zero(self, value: list[ShardProgress]) -> list[ShardProgress]:
        return []

    def addInPlace(self, value1: list[ShardProgress], value2: list[ShardProgress]) -> list[ShardProgress]:  # noqa: N802
        value1.extend(value2)
        return value1


class _Report:
    """Brings a task's records to the driver."""

    def __init__(self, accumulator: Any) -> None:
        self._accumulator = accumulator

    def __call__(self, rows: list[ShardProgress]) -> None:
        self._accumulator.add(rows)


def _kernels(graph: CheckedGraph, backups: str | None) -> dict[str, Operator]:
    kernels = {}
    for name, operator in graph.operators.items():
        if not isinstance(operator, Operator):
            raise GraphError(f"Operator {name!r} can be drawn but not run: it is not a spillway.Operator.")
        if operator.protect.keeps_backups and backups is None:
            raise GraphError(
                f"Operator {name!r} is protected by {operator.protect.describe()}: name a durable folder with "
                f"backups=, or protect it with Nothing()."
            )
        kernels[name] = operator
    return kernels


def _default_trigger(graph: CheckedGraph) -> dict[str, Any]:
    if all(source.feed is not None for source in graph.sources.values()):
        return {"availableNow": True}
    return {"processingTime": "0 seconds"}


def _absolute(checkpoint: str) -> str:
    """The folder by a name that does not depend on where a process was started."""
    return checkpoint if "://" in checkpoint else os.path.abspath(checkpoint)


def _state_name(graph: str, checkpoint: str) -> str:
    """The same for the same checkpoint, so that a restarted driver finds its shards again."""
    return f"{graph}-{hashlib.blake2b(checkpoint.encode(), digest_size=8).hexdigest()}"


def _as_ours(error: PySparkException) -> SpillwayError:
    """The error one of our own sentences stopped the query with, or else Spark's."""
    raised = _RAISED.findall(str(error))
    if raised:
        name, message = raised[-1]
        kind: type[SpillwayError] = getattr(errors, name, RunError)
        found = kind.__new__(kind)
        found.args = (message.strip(),)
        return found
    by_user = _RAISED_BY_USER.findall(str(error))
    return RunError(f"Spark stopped the run: {by_user[-1] if by_user else str(error).strip().splitlines()[0]}")
