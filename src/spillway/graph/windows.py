"""Windows: which tuples an operator's state is about, and so how long an error in it lasts (seed 002, section 3.5.2).

A window is declared on an operator. *Hopping* windows follow each other: when one ends, the operator is told, its state
is emptied, and the errors of earlier failures are gone with it. A *sliding* window always covers the last so many
tuples, or so much time: a failure is forgotten once it lies before the window. In a *decaying* window errors fade by
themselves. What a failure may cost is divided accordingly: see ``backup.thresholds``.

The end of a hopping window is a punctuation. Every task that sends tuples to the operator also sends, to every shard,
the numbers of the windows its tuples belong to, and the highest ``seq`` it saw in each; so all shards end the same
windows in the same batch, those without tuples too, and what they say then has a number of that window. The batch in
which a window ends is backed up, and so is the one in which the first window begins.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import GraphError, InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD

Int64s = npt.NDArray[np.int64]

MARKS = pa.schema(
    [SEQ_FIELD, pa.field("mark", pa.int64(), nullable=False), pa.field("last", pa.int64(), nullable=False)]
)
"""Punctuation on its way to the shards: ``seq`` is the shard it is for, the others what ``Hopping.marks`` gave."""

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Windowing:
    """Which tuples the state of an operator is about."""

    @property
    def column(self) -> str | None:
        """The column that says where in time a tuple lies; None if that does not matter."""
        return None

    def check(self, who: str, schema: pa.Schema) -> None:
        """Refuse an input on which this window cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent(Windowing):
    """A window of a certain length: so many numbers of ``seq``, or so much of the time in a column."""

    count: int | None = None
    time: str | None = None
    length: int | timedelta | None = None

    def __post_init__(self) -> None:
        kind = type(self).__name__
        if (self.count is None) == (self.time is None) or (self.time is None) != (self.length is None):
            raise GraphError(f"{kind}: give count=, or time= and length=; got {self!r}.")
        if self.count is not None:
            check_whole(f"{kind}: count", self.count, least=1)
        elif isinstance(self.length, timedelta):
            if self.length < MICROSECOND:
                raise GraphError(f"{kind}: length must be above zero; got {self.length!r}.")
        else:
            check_whole(f"{kind}: length", self.length, least=1)

    @property
    def column(self) -> str | None:
        return self.time or SEQ

    @property
    def extent(self) -> int:
        """The length in units of ``positions``."""
        if self.count is not None:
            return self.count
        return self.length // MICROSECOND if isinstance(self.length, timedelta) else self.length or 0

    def positions(self, batch: pa.RecordBatch) -> Int64s:
        """Where in time each tuple lies: its ``seq``, its integer time, or microseconds."""
        values = batch[self.column]
        if values.null_count:
            raise InputError(f"Column {self.column!r} tells windows and must not be null; {values.null_count} are.")
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        return np.asarray(values.cast(pa.int64()))

    def check(self, who: str, schema: pa.Schema) -> None:
        column = self.column
        if column not in schema.names:
            raise GraphError(f"{who}: windows want a column {column!r}; there are {', '.join(schema.names)}.")
        kind = schema.field(column).type
        if pa.types.is_timestamp(kind) != isinstance(self.length, timedelta) or not (
            pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
        ):
            raise GraphError(
                f"{who}: windows want an integer column and a whole length, or a timestamp and a timedelta; "
                f"{column!r} is {kind} and the length {self.length!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopping(_Extent):
    """Windows one after the other: ``count`` numbers of ``seq``, a ``length`` of ``time``, or until a punctuation.

    ``Hopping(count=1000)``: window w covers seq in [1000 w, 1000 (w+1)). ``Hopping(time="at",
    length=timedelta(minutes=5))``: the same with a time column. ``Hopping(punctuation="last")``: the boolean column is
    true in the last tuple of a window; windows are numbered from 0.

    A window ends when a batch has a tuple of a later one. A tuple that comes after its window has ended counts in
    the window that is then open. With a watermark (``time`` names the time column of a source upstream that declares a
    ``lateness``) a window ends when the watermark has passed it, and a tuple that comes after that is late.
    """

    punctuation: str | None = None

    def __post_init__(self) -> None:
        if self.punctuation is None:
            _Extent.__post_init__(self)
        elif any(value is not None for value in (self.count, self.time, self.length)):
            raise GraphError(f"Hopping: give count=, or time= and length=, or punctuation= alone; got {self!r}.")

    @property
    def column(self) -> str | None:
        return self.punctuation or self.time or SEQ

    def check(self, who: str, schema: pa.Schema) -> None:
        if self.punctuation is None:
            _Extent.check(self, who, schema)
            return
        if self.punctuation not in schema.names or not pa.types.is_boolean(schema.field(self.punctuation).type):
            raise GraphError(
                f"{who}: windows want a boolean column {self.punctuation!r}; there are {', '.join(schema.names)}."
            )

    def marks(self, batch: pa.RecordBatch) -> "Marks":
        """What shards must hear of these tuples: the windows they belong to, or the ``seq`` of each punctuation."""
        seqs = np.asarray(batch[SEQ])
        if self.punctuation is not None:
            ends = seqs[np.asarray(pc.fill_null(batch[self.punctuation], False))]
            return Marks(ends, ends)
        return Marks(self.numbers(batch), seqs).merged()

    def numbers(self, batch: pa.RecordBatch) -> Int64s:
        """The window of each tuple; not where a punctuation tells windows."""
        return self.positions(batch) // self.extent

    def bounds_type(self, schema: pa.Schema) -> pa.DataType:
        """The type in which bounds are told: that of the times, or int64, for integers of any width and for ``seq``."""
        kind = schema.field(self.column).type
        return kind if pa.types.is_timestamp(kind) else pa.int64()

    def starts(self, windows: Int64s, kind: pa.DataType) -> pa.Array:
        """Where windows begin, in the type of ``bounds_type``.

        >>> Hopping(count=10).starts(np.array([-1, 7]), pa.int64()).to_pylist()
        [-10, 70]
        """
        starts = pa.array(windows * self.extent)
        if not pa.types.is_timestamp(kind):
            return starts
        return starts.cast(pa.timestamp("us", kind.tz)).cast(kind, safe=False)

    def ends(self, marks: Int64s, window: int | None) -> tuple[list[int | None], Int64s]:
        """The windows of a batch, the first one open before it, and where each but the first begins.

        ``window`` is the one open so far, None for none; it is still none if nothing is known of any.

        >>> Hopping(count=10).ends(np.array([3, 4, 7]), 3)
        ([3, 4, 7], array([4, 7]))
        >>> Hopping(count=10).ends(np.array([-2, -1]), None)
        ([-2, -1], array([-1]))
        >>> Hopping(punctuation="last").ends(np.array([55, 80]), 0)
        ([0, 1, 2], array([55, 80]))
        """
        marks = np.unique(marks)
        if self.punctuation is not None:
            first = window or 0
            return [first + i for i in range(len(marks) + 1)], marks
        if window is None:
            if not marks.size:
                return [None], marks
            window = int(marks[0])
        later = marks[marks > window]
        return [window, *later.tolist()], later

    def places(self, batch: pa.RecordBatch, begins: Int64s) -> Int64s:
        """Which of the windows that ``ends`` gave each tuple belongs to, by its place in that list."""
        if self.punctuation is not None:
            return self._places_of(np.asarray(batch[SEQ]), begins)
        return self._places_of(self.numbers(batch), begins)

    def lasts(self, marks: "Marks", begins: Int64s) -> list[int | None]:
        """For each window that ``ends`` gave: the highest ``seq`` known of it and of those before; None for none.

        >>> Hopping(count=10).lasts(Marks(np.array([3, 4, 7]), np.array([38, 44, 71])), np.array([4, 7]))
        [38, 44, 71]
        """
        found: list[int | None] = []
        places = self._places_of(marks.windows, begins)
        for place in range(begins.size + 1):
            seqs = marks.lasts[places <= place]
            found.append(int(seqs.max()) if seqs.size else None)
        return found

    def _places_of(self, marks: Int64s, begins: Int64s) -> Int64s:
        # A punctuation is itself the last tuple of the window it ends.
        return np.searchsorted(begins, marks, side="left" if self.punctuation is not None else "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding(_Extent):
    """The last ``count`` numbers of ``seq``, or the last ``length`` of ``time``.

    What falls out of the window is for the operator to take out of its state; what is declared here is how long a
    failure is felt. All failures are forgotten once the last of them lies before the window.

    A shard that recovers cannot know how far its window had come; it takes the first tuples after a loss to lie no
    further back than those that were lost. Where time goes back at a shard by more than that, a failure may be
    forgotten before what it cost has left the window.
    """

    def position(self, batch: pa.RecordBatch) -> int:
        """The newest position in a batch; it must have tuples."""
        return int(self.positions(batch).max())


@dataclass(frozen=True, slots=True)
class Decaying(Windowing):
    """Errors fade by themselves, as in a model that goes on learning: every failure may cost all of ``theta``."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Windows that have tuples, and the highest ``seq`` seen in each."""

    windows: Int64s
    lasts: Int64s

    def merged(self, *others: "Marks") -> "Marks":
        """These and the others, every window once.

        >>> Marks(np.array([4, 3, 4]), np.array([40, 35, 41])).merged(Marks(np.array([3]), np.array([36])))
        Marks(windows=array([3, 4]), lasts=array([36, 41]))
        """
        windows, places = np.unique(np.concatenate([self.windows, *(o.windows for o in others)]), return_inverse=True)
        lasts = np.full(windows.size, np.iinfo(np.int64).min)
        np.maximum.at(lasts, places, np.concatenate([self.lasts, *(o.lasts for o in others)]))
        return Marks(windows, lasts)

    def until(self, window: int) -> "Marks":
        """Those up to this window, which is the last of them, with or without tuples; none if there are none.

        >>> Marks(np.array([3, 4, 9]), np.array([35, 41, 99])).until(5)
        Marks(windows=array([3, 4, 5]), lasts=array([35, 41, 41]))
        """
        if not self.windows.size:
            return self
        near = self.windows <= window
        last = self.lasts[near].max() if near.any() else self.lasts.min()
        return Marks(self.windows[near], self.lasts[near]).merged(Marks(np.array([window]), np.array([last])))


NO_MARKS = Marks(np.empty(0, np.int64), np.empty(0, np.int64))


def mark_batch(marks: Marks, shards: int) -> pa.RecordBatch:
    """Every mark for every shard."""
    places: npt.NDArray[Any] = np.repeat(np.arange(shards, dtype=np.int64), marks.windows.size)
    columns = [places, np.tile(marks.windows, shards), np.tile(marks.lasts, shards)]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=MARKS)


def marks_of(batches: list[pa.RecordBatch]) -> Marks:
    """What one shard was told, by all who sent it."""
    told = (Marks(np.asarray(batch["mark"]), np.asarray(batch["last"])) for batch in batches)
    return NO_MARKS.merged(*told)
