"""What performs tasks, and the simplest one that does.

Work is a function of a task alone: whatever is random in it follows from a seed in the task or in the function. Which
pool performs a task, and when, therefore leaves no trace in what comes of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Pool(Protocol):
    """Performs tasks: here, in several processes, on a Spark cluster.

    Work, tasks and answers travel between processes, so they must be importable there. An error in a task is raised
    where its answer is awaited.
    """

    @property
    def count(self) -> int:
        """How many tasks it performs at once."""

    def completed(self, work: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        """Every task with its answer, as they come; tasks are taken as they are needed and may have no end."""

    def ordered(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        """The answers in the order of the tasks."""


class ThisProcess:
    """Performs one task after the other, here.

    >>> list(ThisProcess().completed(abs, [-2, 1]))
    [(-2, 2), (1, 1)]
    >>> list(ThisProcess().ordered(abs, [-2, 1]))
    [2, 1]
    """

    count = 1

    def completed(self, work: Callable[[Task], Answer], tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        return ((task, work(task)) for task in tasks)

    def ordered(self, work: Callable[[Task], Answer], tasks: Sequence[Task]) -> Iterator[Answer]:
        return map(work, tasks)
