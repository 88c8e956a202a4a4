"""Tasks in several processes of this machine, which end with the one that leads.

Theory of operation
-------------------
The processes are started afresh. A fork would copy the locks of threads that do not exist in the copy (Arrow, numba
and Spark's gateway all have some), and may hang.

*An interrupt* from the terminal reaches every process of the group. Only the leader hears it: workers are started with
it blocked, so none dies half-way or prints a traceback, not even one that is still importing. The leader then closes
the pool.

*Closing* gives up what is running, since nobody is left to take it. A worker is told by SIGTERM; in the middle of a
task that raises an error there, so `with` and `finally` do their work and the process ends as it should, its memory
removed. Between tasks it is only noted: a worker that died while it sends would leave half a message, and the leader
waiting for the rest. One that does not end in time is killed.

*A leader that dies*, by SIGTERM, by SIGKILL or for want of memory, can close nothing. Each worker therefore has a pipe
whose other end only the leader holds, and asks to be signalled when it closes: the kernel ends the worker at once,
whatever it is doing. (The other way, PR_SET_PDEATHSIG, follows the thread that started the process, which may end
before the pool does.) State such a worker kept in memory has an owner that no longer lives and can be cleaned up.
"""

import fcntl
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import TracebackType
from typing import Any, Self

from spillway.errors import RunError
from spillway.parallel.pool import Answer, Task

PROCESSES_MAX = 1024
ENDING_S_MAX = 10.0
"""How long a worker has to end what it is at before it is killed."""

_TASKS_PER_PROCESS = 2  # one performed and one at hand: none waits, and little is given up at the end


class Processes:
    """Performs tasks in so many processes, one per core unless told, kept until the end of the `with`.

    As always with Python, a script that uses it must do so under `if __name__ == "__main__":`.
    """

    def __init__(self, count: int | None = None) -> None:
        wanted = count if count is not None else len(os.sched_getaffinity(0))
        if type(wanted) is not int or not 1 <= wanted <= PROCESSES_MAX:
            raise RunError(f"From 1 to {PROCESSES_MAX} processes are wanted; got {count!r}.")
        self.count = wanted
        context = _Spawning()
        self.started = context.started
        self._executor = ProcessPoolExecutor(wanted, mp_context=context)

    def completed(self, work: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        waiting = iter(tasks)
        running: dict[Future[Answer], Task] = {}
        try:
            for task in islice(waiting, _TASKS_PER_PROCESS * self.count):
                running[self._submit(work, task)] = task
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    done = running.pop(future)
                    for task in islice(waiting, 1):
                        running[self._submit(work, task)] = task
                    yield done, self._answer(future)
        finally:
            for future in running:
                future.cancel()

    def ordered(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        futures = [self._submit(work, task) for task in tasks]
        try:
            for future in futures:
                yield self._answer(future)
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        living = [process for process in self.started if process.is_alive()]
        try:
            for process in living:
                process.terminate()
            left = {process.sentinel for process in living}
            while left and (ended := connection.wait(left, ENDING_S_MAX)):
                left.difference_update(ended)
        finally:
            # Also when a second interrupt cuts the waiting short.
            for process in living:
                process.kill()
                process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, work: Callable[[Task], Answer], task: Task) -> Future[Answer]:
        try:
            return self._executor.submit(_perform, work, task)
        except BrokenProcessPool as error:
            raise self._died() from error

    def _answer(self, future: Future[Answer]) -> Answer:
        try:
            return future.result()
        except (BrokenProcessPool, CancelledError, _Ended) as error:
            raise self._died() from error

    def _died(self) -> RunError:
        return RunError(
            f"One of {self.count} processes ended before its task was done; was it killed for want of memory? Use "
            f"fewer processes."
        )


class _Ended(SystemExit):
    """Raised in a worker's task when the pool is closed."""


class _Worker(SpawnProcess):
    """A process that performs tasks."""

    def start(self) -> None:
        # Starting it would unblock the interrupt, so that is done first.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        _end_with_the_leader()
        signal.signal(signal.SIGTERM, _this_worker.end)
        super().run()


class _Spawning(SpawnContext):
    """Starts processes afresh, and remembers which."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Worker] = []

    def Process(self, *args: Any, **options: Any) -> _Worker:  # type: ignore[override]  # noqa: N802
        self.started.append(_Worker(*args, **options))
        return self.started[-1]


class _State:
    """What a worker is at."""

    def __init__(self) -> None:
        self.working = False
        self.ending = False

    def end(self, number: int, frame: object) -> None:
        self.ending = True
        if self.working:
            raise _Ended


_this_worker = _State()


def _perform(work: Callable[[Task], Answer], task: Task) -> Answer:
    """A task, in a worker; none is begun after the pool was closed."""
    _this_worker.working = True
    try:
        if _this_worker.ending:
            raise _Ended
        return work(task)
    finally:
        _this_worker.working = False


def _end_with_the_leader() -> None:
    leader = parent_process()
    assert leader is not None
    pipe = leader.sentinel
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if connection.wait([pipe], 0):  # it died before it could be noticed
        os.kill(os.getpid(), signal.SIGKILL)
