"""A driver of one job of the graph of ``kill_graph``, or of all of them, as it is told, line by line (see ``obeying``).

python -m spillway.soak.kill_driver MASTER [JAVA-OPTIONS]
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.soak.host_holds import HOLDS, Holding
from spillway.soak.jobs_driver import JobsDriver, serve
from spillway.soak.kill_graph import PROTECTED, kill_graph
from spillway.soak.kills import Stop, Stops
from spillway.spark.start import run_jobs


class Driver(JobsDriver):
    """Runs one job, or all."""

    def begin(
        self, folder: str, state: str, job: str | None, protection: str, stops: Sequence[dict[str, Any] | None]
    ) -> dict[str, Any]:
        place = Path(folder)
        observed = Stops(
            Holding(folder=place / HOLDS, holds=()), [None if stop is None else Stop(**stop) for stop in stops]
        )
        return self.run(
            lambda: run_jobs(
                kill_graph(place / "out", PROTECTED[protection]),
                self._spark,
                backups=place / "backups",
                checkpoint=place / "checkpoint",
                state=state,
                only=job,
                observe=observed.in_run,
                observe_logs=observed.in_log,
            )
        )


class DriverInside:
    """A driver in this process: it cannot be killed, but stopped."""

    def __init__(self, spark: Any) -> None:
        self._driver = Driver(spark)
        self._told: list[dict[str, Any]] = []

    def tell(self, what: str, **options: Any) -> None:
        self._told.append(getattr(self._driver, what)(**options))

    def soon(self, *, seconds_max: float) -> dict[str, Any] | None:
        """What it tells next, if that is soon."""
        if not self._told and self._driver.running:
            self._told += self._driver.follow(seconds_max)
        return self._told.pop(0) if self._told else None

    def kill(self) -> None:
        self._driver.stop()


if __name__ == "__main__":
    serve(Driver, *sys.argv[1:])
