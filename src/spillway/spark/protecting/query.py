"""A protected query that runs: what PySpark's ``StreamingQuery`` has, and what Spillway knows beside it."""

from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException

from spillway.errors import SpillwayError
from spillway.records.progress import ShardProgress
from spillway.records.summary import OperatorSummary
from spillway.spark.running import Run


class ProtectedQuery:
    """As ``pyspark.sql.streaming.StreamingQuery``. ``run`` is the graph underneath, with all that it can tell.

    What ends it is raised by ``awaitTermination``, in one sentence where it is ours, and kept by ``exception``.
    """

    def __init__(self, run: Run, *, ended: Callable[[], object]) -> None:
        self.run = run
        self._ended = ended
        self._error: Exception | None = None

    @property
    def id(self) -> str:
        return str(self.run.query.id)

    @property
    def runId(self) -> str:  # noqa: N802
        return str(self.run.query.runId)

    @property
    def name(self) -> str | None:
        return self.run.query.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.run.active

    @property
    def status(self) -> dict[str, Any]:
        return self.run.query.status

    @property
    def recentProgress(self) -> list[Any]:  # noqa: N802
        return list(self.run.query.recentProgress)

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.run.query.lastProgress

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
        """Wait until it ends, at most ``timeout`` seconds; then whether it has. Raises what ended it."""
        try:
            ended = self.run.wait(timeout)
        except (SpillwayError, StreamingQueryException) as error:
            self._error = error
            raise
        return ended if timeout is not None else None

    def processAllAvailable(self) -> None:  # noqa: N802
        """Wait until all there is now was processed; for tests."""
        self.run.query.processAllAvailable()

    def exception(self) -> Exception | None:
        """What ended it, if something did."""
        if self._error is None and not self.isActive:
            try:
                self.run.wait(0.001)
            except (SpillwayError, StreamingQueryException) as error:
                self._error = error
        return self._error

    def explain(self, extended: bool = False) -> None:
        self.run.query.explain(extended)

    def stop(self) -> None:
        """Stop it after the batch at hand. With a checkpoint it can be started again and goes on."""
        self.run.stop()
        self._ended()

    def protection(self) -> list[OperatorSummary]:
        """Backups, divergence over threshold, failures."""
        return self.run.progress()

    def shards(self) -> list[ShardProgress]:
        """What every shard did in every batch (the last 100,000)."""
        return self.run.records()
