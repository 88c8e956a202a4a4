"""A driver of some jobs of the graph of ``replica_graph``, as it is told, line by line (see ``obeying``).

python -m spillway.soak.replica_driver MASTER [JAVA-OPTIONS]
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spillway.soak.jobs_driver import JobsDriver, serve
from spillway.soak.replica_graph import grouped
from spillway.spark.jobs import JobsRun
from spillway.spark.start import run_jobs


class Driver(JobsDriver):
    """Runs some jobs."""

    def begin(self, folder: str, state: str, jobs: list[str], **graph: Any) -> dict[str, Any]:
        return self.run(lambda: started(Path(folder), Path(state), jobs, self._spark, **graph))


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


if __name__ == "__main__":
    serve(Driver, *sys.argv[1:])
