"""A driver of jobs that does what it is told, line by line (see ``obeying``): what all such drivers have in common."""

from collections.abc import Callable
from typing import Any

from spillway.errors import SpillwayError
from spillway.soak.obeying import QUICK_JAVA, QUICK_SETTINGS, obey
from spillway.spark.jobs import JobsRun
from spillway.spark.settings import session

_LOOK_S = 0.05


class JobsDriver:
    """What can be asked: each method answers with an event. How jobs are begun is for others to add."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._run: JobsRun | None = None

    @property
    def running(self) -> bool:
        return self._run is not None

    def run(self, start: Callable[[], JobsRun]) -> dict[str, Any]:
        """Begin jobs, or go on with what another driver, or this one, has begun."""
        try:
            self._run = start()
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


def serve(driver: type[JobsDriver], master: str, java: str = "") -> None:
    """Do what standard input says until it ends."""
    options = {"spark.driver.extraJavaOptions": f"{QUICK_JAVA} {java}"}
    obey(driver(session(master=master, **{**QUICK_SETTINGS, **options})))
