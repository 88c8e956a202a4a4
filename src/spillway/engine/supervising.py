"""When a job that failed is started again, and when that is given up: as numbers, without a clock of its own.

After its first failure a job is started again soon, after every further one without progress in between twice as late,
up to a limit; progress is a batch that was committed. After so many failures in a row nobody expects another attempt to
end otherwise. What a job's input or graph is at fault for ends at once: that would be the same again.
"""

from dataclasses import dataclass

from spillway.errors import CorruptedError, GraphError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRule:
    """How a failed job is treated.

    >>> [RestartRule().wait_s(failures) for failures in (1, 2, 3, 20)]
    [0.5, 1.0, 2.0, 30.0]
    """

    first_s: float = 0.5
    most_s: float = 30.0
    failures_max: int = 5  # in a row, without progress

    def wait_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return float(min(self.most_s, self.first_s * 2 ** min(failures - 1, 60)))


RESTART_RULE = RestartRule()


class Supervision:
    """The failures of one job.

    >>> supervision = Supervision(RestartRule(failures_max=2))
    >>> supervision.failed(OSError(), committed=3), supervision.failed(OSError(), committed=4)
    (0.5, 0.5)
    >>> supervision.failed(OSError(), committed=4), supervision.failed(InputError(), committed=9)
    (None, None)
    """

    def __init__(self, rule: RestartRule = RESTART_RULE) -> None:
        self._rule = rule
        self._committed: int | None = None
        self.failures = 0
        """Since the last progress."""

    def failed(self, error: Exception, *, committed: int) -> float | None:
        """The job failed after so many batches: how long to wait before it is started again, or None to give up."""
        if self._committed is None or committed > self._committed:
            self.failures = 0
        self.failures += 1
        self._committed = committed
        if self.failures >= self._rule.failures_max or isinstance(error, GraphError | InputError | CorruptedError):
            return None
        return self._rule.wait_s(self.failures)
