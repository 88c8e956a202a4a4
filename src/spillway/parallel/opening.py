"""The pool that a command line asks for."""

from collections.abc import Iterator
from contextlib import contextmanager

from spillway.parallel.pool import Pool, ThisProcess
from spillway.parallel.processes import Processes


@contextmanager
def open_pool(*, processes: int | None, master: str | None = None) -> Iterator[Pool]:
    """Spark tasks on a master if one is named, else so many processes, one per core unless told; 1 is this process."""
    if master:
        from spillway.parallel.tasks_on_spark import SparkTasks
        from spillway.spark import session

        yield SparkTasks(session(master=master))
    elif processes == 1:
        yield ThisProcess()
    else:
        with Processes(processes) as pool:
            yield pool
