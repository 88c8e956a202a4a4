"""A driver of some jobs of the graph of ``replica_graph``, as it is told, line by line (see ``obeying``).

python -m spillway.soak.replica_driver MASTER [JAVA-OPTIONS]
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spillway.errors import SpillwayError
from spillway.soak.obeying import QUICK_JAVA, QUICK_SETTINGS, obey
from spillway.soak.replica_graph import grouped
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

    def begin(self, folder: str, state: str, jobs: list[str], **graph: Any) -> dict[str, Any]:
        """Begin some jobs, or go on with what another driver has begun."""
        try:
            self._run = started(Path(folder), Path(state), jobs, self._spark, **graph)
        except SpillwayError as error:
            return {"event": "ended", "error": str(error)}
        return {"event": "begun"}

    def follow(self) -> list[dict[str, Any]]:
        """Whether it has ended; takes a moment."""
        assert self._run is not None
        try:
            if not self._run.wait(_LOOK_S):
                return []
            error = ""
        except SpillwayError as stopped:
            error = str(stopped)
        run, self._run = self._run, None
        run.stop()
        return [{"event": "ended", "error": error}]


def started(
    folder: Path,
    state: Path,
    jobs: list[str] | None,
    spark: Any,
    *,
    way: str,
    trigger: Mapping[str, Any] | None = None,
    **graph: Any,
) -> JobsRun:
    """Some jobs of the graph, or all, on Spark."""
    return run_jobs(
        grouped(way, folder / "out", **graph),
        spark,
        backups=folder / "backups",
        checkpoint=folder / "checkpoint",
        state=state,
        only=jobs,
        trigger=trigger,
    )


def main(master: str, java: str = "") -> None:
    """Do what standard input says until it ends."""
    options = {"spark.driver.extraJavaOptions": f"{QUICK_JAVA} {java}"}
    obey(Driver(session(master=master, **{**QUICK_SETTINGS, **options})))


if __name__ == "__main__":
    main(*sys.argv[1:])
