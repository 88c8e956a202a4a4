"""Watermarks: how far the event time of a stream has come, and so which windows have ended for good.

Each source that declares a ``time`` column has a clock. The watermark of a window operator is what the slowest clock
upstream shows, less that source's ``lateness``. A window is open until the watermark has passed its end, so several may
be open at once; a tuple that comes for one that has ended is *late*.

*When it moves.* At the end of a batch, by the tuples of that batch: so whether a tuple is late follows from the batches
before its own, as in Spark. Every shard is told the times of all tuples, and all it remembers is the first window that
is open. No clock need be remembered, since what any batch showed has moved the watermark already. What is remembered
goes back with the state when a batch is undone, and is backed up whenever it changes. So a batch that is run again
comes to the same, and no recovery opens a window again that had ended.

Of several sources all must have tuples in a batch to move it, to the least of their highest times. That is never more
than the least of what each has shown so far, so none is overtaken; where no batch has tuples of all, it stands still.

*What is believed.* One tuple of the year 2099 must not close all windows for good. A time is believed if it lies at
most ``ahead_max`` after another that is, beginning from where the clock stands: time may go on as fast as it likes, but
it does not jump. Of a batch with a jump in it

* tuples after the jump are *ahead*, if they are fewer than those before it: they are put aside like late ones;
* otherwise nobody can tell what is wrong, and they are kept, in windows of their own.

The clock shows the highest time before the jump. If most of a batch lies after it, time has perhaps gone on: then the
watermark goes on, too, by the lateness, or by one window if that is more, with every such batch until it is there. So a
stream that stood still for longer than ``ahead_max`` loses nothing by it, and its windows end later for a while. And a
wrong time that is alone in its batch moves the watermark by so much, once.

Before the first batch a clock shows nothing; it believes where most of the tuples of that batch are.

Times are told to shards by window: the highest, and the number of tuples. So jumps are told to the window.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.windows import MICROSECOND, Hopping, Marks

Int64s = npt.NDArray[np.int64]

AHEAD_MAX = timedelta(days=1)

TIMES = pa.schema(
    [SEQ_FIELD, *(pa.field(name, pa.int64(), nullable=False) for name in ("window", "last", "highest", "tuples"))]
)
"""What a source's tuples say of time, on its way to the shards: ``seq`` is the shard it is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Which column of a source says when something happened, and how far its tuples may be out of order."""

    column: str
    lateness: int | timedelta
    ahead_max: int | timedelta

    def clock(self, source: str) -> "Clock":
        """The same in the units that windows are told in."""
        lateness, ahead_max = (
            value // MICROSECOND if isinstance(value, timedelta) else value for value in (self.lateness, self.ahead_max)
        )
        return Clock(source=source, lateness=lateness, ahead_max=ahead_max)


def event_time(
    who: str,
    schema: pa.Schema,
    *,
    time: str | None,
    lateness: int | timedelta | None,
    ahead_max: int | timedelta | None,
) -> EventTime | None:
    """What a source declares, checked; None if it says nothing of time."""
    if time is None:
        if lateness is not None or ahead_max is not None:
            raise GraphError(f"{who}: lateness and ahead_max are of a column of times. Name it with time=.")
        return None
    if time not in schema.names:
        raise GraphError(f"{who}: time names a column {time!r}; there are {', '.join(schema.names)}.")
    kind = schema.field(time).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise GraphError(f"{who}: column {time!r} must be a timestamp or an integer; it is {kind}.")
    if lateness is None:
        raise GraphError(f"{who}: say how late tuples may be, such as lateness=timedelta(minutes=5); 0 if never.")
    if ahead_max is None and pa.types.is_timestamp(kind):
        ahead_max = AHEAD_MAX
    if ahead_max is None:
        raise GraphError(
            f"{who}: column {time!r} is {kind}, so nobody knows what a wrong time is. Say ahead_max=, by how much one "
            f"may be after all the others."
        )
    _check_span(f"{who}: lateness", lateness, kind)
    _check_span(f"{who}: ahead_max", ahead_max, kind)
    return EventTime(column=time, lateness=lateness, ahead_max=ahead_max)


def _check_span(what: str, span: int | timedelta, kind: pa.DataType) -> None:
    """Refuse what is no length of time in a column of this type; 0 is one in any."""
    if not isinstance(span, timedelta):
        check_whole(what, span, least=0)
    elif span < timedelta(0):
        raise GraphError(f"{what} must not be negative; got {span!r}.")
    if isinstance(span, timedelta) != pa.types.is_timestamp(kind) and span != 0:
        wanted = "a timedelta" if pa.types.is_timestamp(kind) else "a whole number"
        raise GraphError(f"{what} must be {wanted}, since times are {kind}; got {span!r}.")


@dataclass(frozen=True, slots=True)
class Times:
    """What tuples say of time, by window: the highest ``seq``, the highest time, and how many there are."""

    windows: Int64s
    lasts: Int64s
    highest: Int64s
    tuples: Int64s

    def merged(self, *others: "Times") -> "Times":
        """These and the others, every window once, in order.

        >>> one = Times(np.array([4]), np.array([7]), np.array([44]), np.array([2]))
        >>> one.merged(Times(np.array([3, 4]), np.array([8, 6]), np.array([35, 47]), np.array([1, 1])))
        Times(windows=array([3, 4]), lasts=array([8, 7]), highest=array([35, 47]), tuples=array([1, 3]))
        """
        every = [self, *others]
        windows, places = np.unique(np.concatenate([times.windows for times in every]), return_inverse=True)
        least = np.iinfo(np.int64).min
        lasts, highest, tuples = (np.full(windows.size, value, np.int64) for value in (least, least, 0))
        np.maximum.at(lasts, places, np.concatenate([times.lasts for times in every]))
        np.maximum.at(highest, places, np.concatenate([times.highest for times in every]))
        np.add.at(tuples, places, np.concatenate([times.tuples for times in every]))
        return Times(windows, lasts, highest, tuples)

    def marks(self) -> Marks:
        return Marks(self.windows, self.lasts)


NO_TIMES = Times(*(np.empty(0, np.int64) for _ in range(4)))


def times_in(window: Hopping, batch: pa.RecordBatch) -> Times:
    """What shards must hear of these tuples; those without a time say nothing."""
    if batch[window.column].null_count:
        batch = batch.filter(batch[window.column].is_valid())
    positions = window.positions(batch)
    return Times(window.numbers(batch), np.asarray(batch[SEQ_FIELD.name]), positions, np.ones_like(positions)).merged()


def time_batch(times: Times, shards: int) -> pa.RecordBatch:
    """All of it for every shard."""
    places: Int64s = np.repeat(np.arange(shards, dtype=np.int64), times.windows.size)
    columns = [np.tile(column, shards) for column in (times.windows, times.lasts, times.highest, times.tuples)]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in (places, *columns)], schema=TIMES)


def times_of(batches: list[pa.RecordBatch]) -> Times:
    """What one shard was told of a source, by all who read it."""
    told = (Times(*(np.asarray(batch[name]) for name in TIMES.names[1:])) for batch in batches)
    return NO_TIMES.merged(*told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a clock shows after a batch."""

    time: int
    top: int | None  # the last window with tuples that are not ahead; None if all are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The event time of one source, in the units of its column, or microseconds."""

    source: str
    lateness: int
    ahead_max: int

    def after(self, times: Times, *, first: int | None, extent: int) -> Shown:
        """What it shows after a batch with these times, of which there are some; ``first`` is the first open window.

        >>> clock = Clock(source="s", lateness=5, ahead_max=20)
        >>> times = Times(*map(np.array, ([1, 2, 99], [7, 8, 9], [17, 24, 991], [3, 3, 1])))
        >>> clock.after(times, first=1, extent=10)
        Shown(time=24, top=2)
        >>> clock.after(times, first=97, extent=10)
        Shown(time=991, top=99)
        """
        step = 1 + self.ahead_max // extent
        if first is None:
            begins = np.concatenate([[0], np.flatnonzero(np.diff(times.windows) > step) + 1])
            most = int(np.argmax(np.add.reduceat(times.tuples, begins)))
            end = int(begins[most + 1]) if most + 1 < begins.size else times.windows.size
            return Shown(time=int(times.highest[end - 1]), top=int(times.windows[end - 1]))
        stands = (first * extent + self.lateness) // extent
        reached = np.maximum(times.windows, stands)
        jumps = np.flatnonzero(np.diff(reached, prepend=stands) > step)
        believed = int(jumps[0]) if jumps.size else times.windows.size
        before, beyond = int(times.tuples[:believed].sum()), int(times.tuples[believed:].sum())
        shown = [int(times.highest[believed - 1])] if believed else []
        if beyond > before:
            shown.append((first + max(self.lateness // extent, 1)) * extent + self.lateness)
        return Shown(time=max(shown), top=None if beyond >= before else int(reached[believed - 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """Where the windows of an operator stand after a batch."""

    first: int | None  # the first that is open; None before anything is known
    top: int | None  # tuples of windows after this one are ahead; None if none are


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """What closes the windows of one operator: the clocks of the sources upstream."""

    clocks: tuple[Clock, ...]

    @property
    def lateness(self) -> int:
        return max(clock.lateness for clock in self.clocks)

    def after(self, told: Mapping[str, Times], *, first: int | None, extent: int) -> Passed:
        """Where windows stand after a batch of which this was told, by source."""
        shown = {
            clock: clock.after(told[clock.source], first=first, extent=extent)
            for clock in self.clocks
            if told[clock.source].windows.size
        }
        tops = [each.top for each in shown.values()]
        top = None if not tops or None in tops else max(top for top in tops if top is not None)
        if len(shown) < len(self.clocks):
            return Passed(first=first, top=top)
        reached = min((each.time - clock.lateness) // extent for clock, each in shown.items())
        return Passed(first=reached if first is None else max(first, reached), top=top)
