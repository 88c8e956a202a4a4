"""A query that may be started again: whoever waits for it waits for the last of them.

A run whose graph goes back as a whole ends a query when memory was lost, goes back, and starts another. A thread of its
own sees to that, since nobody may be waiting just then. Any other run has one query, and no such thread.
"""

import threading
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from spillway.errors import SpillwayError
from spillway.spark.raised import CANCELLATION, as_ours

THE_END = "spillway-the-end"
"""The name of the thread that waits for the end of a run's last query, for the run's records."""

Start = Callable[[], StreamingQuery]
Mend = Callable[[Exception], bool]
"""Whether a query that ended with this error may be started again; what made it end is mended then."""


class Attended:
    """The queries of one run, one at a time. ``mend`` may raise what the run is to end with instead."""

    def __init__(self, start: Start, mend: Mend | None = None) -> None:
        self._start = start
        self._mend = mend
        self._lock = threading.Lock()
        self._stopping = False
        self._error: Exception | None = None
        self._found: Exception | None = None  # by somebody else than the query
        self._over = threading.Event()
        self.query = start()
        """The one that runs, or ran last."""
        if mend is not None:
            InheritableThread(target=self._attend, daemon=True).start()

    @property
    def active(self) -> bool:
        if self._mend is not None:
            return not self._over.is_set()
        try:
            return bool(self.query.isActive)
        except Py4JError:
            return False  # with the JVM the query is gone too

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the last has ended, at most so long; true if it has. Raises what ended it, if something did."""
        if self._mend is None:
            return self.query.awaitTermination(timeout_s) is not False  # type: ignore[arg-type]
        if not self._over.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def when_over(self, then: Callable[[Exception | None], None]) -> None:
        """Have ``then`` told what ended the last of them, or None, though nobody may wait for it.

        It is not told that Spark's jobs were cancelled: on Ctrl-C they are, and whoever was interrupted stops the run.
        """

        def attend() -> None:
            try:
                self.wait(None)
            except (PySparkException, SpillwayError) as error:
                if CANCELLATION not in str(error):
                    then(as_ours(error, "Spark stopped the run"))
            except Py4JError:
                pass  # with the JVM the query is gone, and nobody knows how it ended
            else:
                then(None)

        InheritableThread(target=attend, name=THE_END, daemon=True).start()

    def interrupt(self, find: Callable[[], Exception | None]) -> None:
        """End the query as if it had failed with what ``find`` finds, if that is anything; for whoever has a ``mend``.

        Asked while nothing is being mended, which may be about the very same.
        """
        assert self._mend is not None
        with self._lock:
            found = None if self._stopping or self._over.is_set() else find()
            if found is not None and self._found is None:
                self._found = found
                self.query.stop()

    def stop(self) -> None:
        """Stop it after the batch at hand, or at once if that takes long; none is started any more."""
        with self._lock:
            self._stopping = True
        if self.active:
            self.query.stop()
        if self._mend is not None:
            self._over.wait()

    def _attend(self) -> None:
        while True:
            ended: Exception | None = None
            try:
                self.query.awaitTermination()
            except (PySparkException, Py4JError) as error:
                ended = error
            with self._lock:
                ended, self._found = self._found or ended, None
            if ended is None or not self._again(ended):
                self._over.set()
                return

    def _again(self, error: Exception) -> bool:
        assert self._mend is not None
        try:
            with self._lock:
                if self._stopping:
                    return False
                if not self._mend(error):
                    self._error = error
                    return False
                self.query = self._start()
                return True
        except Exception as found:
            self._error = found
            return False
