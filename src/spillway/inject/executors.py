"""Where tasks are performed: in this process, or in several."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Protocol, Self

from spillway.errors import RunError
from spillway.inject.campaign import Campaign
from spillway.inject.tasks import Answer, Task, perform


class Executor(Protocol):
    """Performs tasks and gives their answers as they come, in any order."""

    def answers(self, campaign: Campaign, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]: ...


class ThisProcess:
    """One task after the other, here."""

    def answers(self, campaign: Campaign, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        for task in tasks:
            yield task, perform(campaign, task)


class Processes:
    """Several processes, each with a lab of its own; they live until this is closed."""

    def __init__(self, count: int) -> None:
        # Fresh processes: a fork would copy the locks of threads that do not exist in the copy.
        context = multiprocessing.get_context("spawn")
        self._count = count
        self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=_ignore_interrupts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=error is None, cancel_futures=True)

    def answers(self, campaign: Campaign, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        waiting = iter(tasks)
        running: dict[Future[Answer], Task] = {}
        try:
            while True:
                # A few more than there are processes: none waits, and little is thrown away on an interrupt.
                while len(running) < 2 * self._count and (task := next(waiting, None)) is not None:
                    running[self._pool.submit(perform, campaign, task)] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool as error:
            raise RunError(
                "A process of the campaign died, perhaps for want of memory. Use fewer (--processes) and resume."
            ) from error
        finally:
            for future in running:
                future.cancel()


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of the terminal; the one that leads decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
