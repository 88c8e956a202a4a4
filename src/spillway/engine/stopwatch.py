"""Where the time of one task goes.

Tuples are pulled through a task: whoever wants the next ones waits for all that comes before. So the watch keeps a
stack of who is at work, and time is always that of the innermost.

>>> from spillway.clock import ManualClock
>>> clock = ManualClock()
>>> def read():
...     clock.advance(2.0)
...     yield "tuples"
>>> watch = Stopwatch(Work.CARRYING, clock)
>>> for tuples in watch.over(Work.READING, read()):
...     clock.advance(1.0)
>>> {str(work): seconds for work, seconds in watch.stopped().items()}
{'carrying': 1.0, 'reading': 2.0}
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from spillway.clock import Clock
from spillway.records.progress import ShardProgress
from spillway.records.times import Work

_Item = TypeVar("_Item")


class Stopwatch:
    """Seconds by part, from the moment it is made; what is nobody's is the ``rest``."""

    def __init__(self, rest: Work, clock: Clock) -> None:
        self.began_s = clock.now_s()
        self._clock = clock
        self._parts: dict[Work, float] = defaultdict(float)
        self._at_work = [rest]
        self._since_s = clock.monotonic_s()

    @contextmanager
    def on(self, work: Work) -> Iterator[None]:
        """Time spent inside is this part's."""
        self._note()
        self._at_work.append(work)
        try:
            yield
        finally:
            self._note()
            self._at_work.pop()

    def over(self, work: Work, items: Iterable[_Item]) -> Iterator[_Item]:
        """The same items; the time they take to come is this part's."""
        iterator = iter(items)
        while True:
            with self.on(work):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def stopped(self, *, saving_s: float = 0.0) -> dict[Work, float]:
        """Seconds so far, by part; of those of applying, ``saving_s`` went into saving."""
        self._note()
        parts = dict(self._parts)
        if saving_s:
            moved_s = min(saving_s, parts.get(Work.APPLYING, 0.0))
            parts[Work.APPLYING] = parts.get(Work.APPLYING, 0.0) - moved_s
            parts[Work.SAVING] = parts.get(Work.SAVING, 0.0) + moved_s
        return parts

    def _note(self) -> None:
        now_s = self._clock.monotonic_s()
        self._parts[self._at_work[-1]] += now_s - self._since_s
        self._since_s = now_s


def saving_s(progress: Iterable[ShardProgress]) -> float:
    """Seconds that shards spent on their protection, which is done while operators are applied."""
    return sum(row.backup_s + row.item_s + row.recover_s for row in progress)
