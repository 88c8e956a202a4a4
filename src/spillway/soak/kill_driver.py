"""A driver of one job of the graph of ``kill_graph``, or of all of them, as it is told, line by line (see ``obeying``).

python -m spillway.soak.kill_driver MASTER [JAVA-OPTIONS]
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spillway.errors import SpillwayError
from spillway.soak.host_holds import HOLDS, Holding
from spillway.soak.kill_graph import PROTECTED, kill_graph
from spillway.soak.kills import Stop, Stops
from spillway.soak.obeying import QUICK_JAVA, QUICK_SETTINGS, obey
from spillway.spark.jobs import JobsRun
from spillway.spark.settings import session
from spillway.spark.start import run_jobs

_LOOK_S = 0.05


class Driver:
    """What can be asked: each method answers with an event."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._run: JobsRun | None = None

    @property
    def running(self) -> bool:
        return self._run is not None

    def begin(
        self, folder: str, state: str, job: str | None, protection: str, stops: Sequence[dict[str, Any] | None]
    ) -> dict[str, Any]:
        """Begin a job, or go on with what another driver, or this one, has begun."""
        place = Path(folder)
        observed = Stops(
            Holding(folder=place / HOLDS, holds=()), [None if stop is None else Stop(**stop) for stop in stops]
        )
        try:
            self._run = run_jobs(
                kill_graph(place / "out", PROTECTED[protection]),
                self._spark,
                backups=place / "backups",
                checkpoint=place / "checkpoint",
                state=state,
                only=job,
                observe=observed.in_run,
                observe_logs=observed.in_log,
            )
        except SpillwayError as error:
            return {"event": "ended", "error": str(error)}
        return {"event": "begun"}

    def follow(self, seconds_max: float = _LOOK_S) -> list[dict[str, Any]]:
        """What has happened since the last look; takes so long at most."""
        assert self._run is not None
        run, error, ended = self._run, "", False
        try:
            ended = run.wait(seconds_max)
        except SpillwayError as stopped:
            ended, error = True, str(stopped)
        if not ended:
            return []
        self.stop()
        recovered = sum(row.recovered for row in run.records())
        return [{"event": "ended", "error": error, "recovered": recovered, "troubles": run.troubles()}]

    def stop(self) -> None:
        """Stop what runs."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()


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


def main(master: str, java: str = "") -> None:
    """Do what standard input says until it ends."""
    options = {"spark.driver.extraJavaOptions": f"{QUICK_JAVA} {java}"}
    obey(Driver(session(master=master, **{**QUICK_SETTINGS, **options})))


if __name__ == "__main__":
    main(*sys.argv[1:])
