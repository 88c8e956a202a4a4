"""One operator's share of one batch: what arrived for it, applied in the right order.

    feedback of the batch before, then for every window of the batch: its tuples port by port, finish(); and if the
    window ends: end_window(), all state dropped, begin()

or, where windows end by a watermark and the operator can keep several of them: the tuples of all windows that are open,
finish(); and if some have ended: end_windows(), all state dropped but that of the others

Tuples wait until the batch is complete if their order matters, if windows must be told apart, or if they are to be made
durable first; otherwise they are applied as they come.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.backup.keeper import Keeper
from spillway.graph.feeds import BEFORE_ALL, SEQ
from spillway.graph.watermarks import NO_TIMES, TIMES, Times, Watermark, times_of
from spillway.graph.windows import MARKS, NO_MARKS, Hopping, Marks, Sliding, marks_of
from spillway.operators.adding import Added
from spillway.operators.operator import Operator, Out
from spillway.operators.several_windows import SeveralWindows
from spillway.state.shard import Shard

PUNCTUATION = ""  # the part of an item log that is no port
CLOCK = "clock of "  # how parts begin that are neither: what a source says of time


class ShardAtHand(Protocol):
    """The shard an operator works on, and who keeps it."""

    shard: Shard
    keeper: Keeper


class Turn:
    """The batch as one operator sees it; ``opened`` is the shard it works on, if it keeps state.

    One that is ``again`` is part of a recovery and no step of the batch at hand, so nobody is told of it.
    """

    def __init__(self, operator: Operator, opened: ShardAtHand | None = None, *, again: bool = False) -> None:
        self.operator = operator
        self.tuples = 0
        self.position: int | None = None  # where a sliding window ends now
        self.late = self.ahead = 0  # tuples that were put aside: see graph.watermarks
        self.seq = opened.shard.seq if opened is not None else None
        """The highest ``seq`` of all tuples so far, or heard of in a punctuation."""
        self._opened = opened
        self._again = again
        self._waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self._feedback: dict[str, list[pa.RecordBatch]] = {}
        self._waits = operator.protect.keeps_items or (
            operator.stateful and (operator.ordered or isinstance(operator.windowing, Hopping))
        )
        operator.seq = BEFORE_ALL if self.seq is None else self.seq
        operator.begin()

    def feed_back(self, port: str, batches: list[pa.RecordBatch]) -> None:
        """Feedback of the batch before, given before any tuple."""
        if batches:
            self._feedback[port] = batches

    def arrive(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        """Tuples for an input port."""
        self.tuples += batch.num_rows
        if isinstance(self.operator.windowing, Sliding) and batch.num_rows:
            newest = self.operator.windowing.position(batch)
            self.position = newest if self.position is None else max(self.position, newest)
        if self._waits:
            self._waiting[port].append(batch)
            return
        yield from self._take_feedback()
        yield from self._process(port, batch)

    def arrive_added(self, port: str, added: Added) -> Iterator[Out]:
        """Tuples for an input port that were added up; they never wait (see ``engine.adding``)."""
        assert not self._waits
        self.tuples += int(added.tuples.sum())
        yield from self._take_feedback()
        self._hear(pc.max(added.batch[SEQ]).as_py())
        yield from self._put_out(self.operator.process_added(port, added))

    def punctuate(self, marks: pa.RecordBatch) -> None:
        """Which windows the batch has tuples of, as far as one of those who send them knows."""
        self._waiting[PUNCTUATION].append(marks)

    def tell_time(self, source: str, times: pa.RecordBatch) -> None:
        """What the tuples of a source say of time, as far as one of those who read it knows."""
        self._waiting[f"{CLOCK}{source}"].append(times)

    def arrived(self) -> Mapping[str, list[pa.RecordBatch]]:
        """All that came, by part: what an item log keeps."""
        return {**self._feedback, **self._waiting}

    def finish(self) -> Iterator[Out]:
        """Everything has arrived."""
        yield from self._take_feedback()
        if self.operator.watermark is not None:
            yield from self._follow(self.operator.watermark)
        elif isinstance(self.operator.windowing, Hopping):
            yield from self._hop(self.operator.windowing, marks_of(self._waiting.pop(PUNCTUATION, [])))
        else:
            for port in self.operator.inputs:
                yield from self._apply(port, self._waiting.pop(port, []))
            yield from self.operator.finish()

    def _take_feedback(self) -> Iterator[Out]:
        feedback, self._feedback = self._feedback, {}
        for port, batches in feedback.items():
            yield from self._process(port, _in_order(batches))

    def _follow(self, watermark: Watermark) -> Iterator[Out]:
        """Windows that end by a watermark: put aside what is late or ahead, and apply the rest."""
        window = self.operator.windowing
        assert self._opened is not None and isinstance(window, Hopping)
        told = {each.source: times_of(self._waiting.pop(f"{CLOCK}{each.source}", [])) for each in watermark.clocks}
        first = self._opened.shard.window
        passed = watermark.after(told, first=first, extent=window.extent)
        heard = NO_TIMES.merged(*told.values())
        if isinstance(self.operator, SeveralWindows):
            yield from self._put_aside(window, first=first, top=passed.top)
            yield from self._keep_several(self.operator, heard, first=passed.first)
        elif passed.first is None:
            yield from self._hop(window, NO_MARKS)
        else:
            yield from self._put_aside(window, first=first, top=passed.first)
            yield from self._hop(window, heard.marks().until(passed.first))

    def _put_aside(self, window: Hopping, *, first: int | None, top: int | None) -> Iterator[Out]:
        """Take out tuples whose window has ended, or lies beyond ``top``."""
        for port in self.operator.inputs:
            kept = []
            for batch in self._waiting[port]:
                numbers = window.numbers(batch)
                late = numbers < first if first is not None else np.zeros(numbers.size, np.bool_)
                ahead = numbers > top if top is not None else np.zeros(numbers.size, np.bool_)
                self.late += int(late.sum())
                self.ahead += int(ahead.sum())
                aside = late | ahead
                if not aside.any():
                    kept.append(batch)
                    continue
                if not aside.all():
                    kept.append(batch.filter(pa.array(~aside)))
                if self.operator.late:
                    yield Out("late", batch.filter(pa.array(aside)))
            self._waiting[port] = kept

    def _keep_several(self, operator: SeveralWindows, heard: Times, *, first: int | None) -> Iterator[Out]:
        """Apply tuples of all windows that are open, and end those before ``first``."""
        assert self._opened is not None
        shard, keeper = self._opened.shard, self._opened.keeper
        for port in operator.inputs:
            yield from self._apply(port, self._waiting.pop(port, []))
        yield from operator.finish()
        self._hear(int(heard.lasts.max()) if heard.lasts.size else None)
        if first is None or first == shard.window:
            return
        keeper.window_open(first)
        if (operator.windows_held() < first).any():
            yield from operator.end_windows(first)
            kept = operator.kept_open(first)
            keeper.windows_dropped()
            operator.begin()
            operator.reopen(kept)

    def _hop(self, window: Hopping, marks: Marks) -> Iterator[Out]:
        """Windows one at a time: each ends when the next begins."""
        assert self._opened is not None
        keeper = self._opened.keeper
        open_before = self._opened.shard.window
        labels, begins = window.ends(marks.windows, open_before)
        lasts = window.lasts(marks, begins)
        if labels[0] != open_before:
            keeper.window_open(labels[0])
        for place, label in enumerate(labels):
            self.operator.open_window = label
            for port in self.operator.inputs:
                yield from self._apply(port, _of_window(window, self._waiting[port], begins, place))
            yield from self.operator.finish()
            self._hear(lasts[place])
            if place + 1 < len(labels):
                assert label is not None
                yield from self.operator.end_window(label)
                keeper.window_ended(following=labels[place + 1])
                self.operator.begin()

    def _apply(self, port: str, batches: list[pa.RecordBatch]) -> Iterator[Out]:
        if batches and self.operator.ordered and self.operator.stateful:
            batches = [_in_order(batches)]
        for batch in batches:
            yield from self._process(port, batch)

    def _process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if batch.num_rows:
            self._hear(pc.max(batch[SEQ]).as_py())
        yield from self._put_out(self.operator.process(port, batch))

    def _put_out(self, outs: Iterator[Out] | None) -> Iterator[Out]:
        if outs is not None:  # a process() that puts nothing out need not return anything
            yield from outs
        if self._opened is not None and not self._again:
            self._opened.keeper.applying()

    def _hear(self, seq: int | None) -> None:
        """Tuples up to this number have been, here or at another shard."""
        if seq is not None and (self.seq is None or seq > self.seq):
            self.operator.seq = self.seq = seq


def replayed(operator: Operator, opened: ShardAtHand, parts: Mapping[str, list[pa.RecordBatch]]) -> Turn:
    """Apply what an item log kept of one batch once more; what follows from it was put out before."""
    turn = Turn(operator, opened, again=True)
    for part, batches in parts.items():
        if part in operator.feedback_inputs:
            turn.feed_back(part, batches)
            continue
        for batch in batches:
            if batch.schema == MARKS and part == PUNCTUATION:
                turn.punctuate(batch)
            elif batch.schema == TIMES and part.startswith(CLOCK):
                turn.tell_time(part.removeprefix(CLOCK), batch)
            else:
                for _ in turn.arrive(part, batch):
                    pass
    for _ in turn.finish():
        pass
    return turn


def _of_window(
    window: Hopping, batches: list[pa.RecordBatch], begins: npt.NDArray[np.int64], place: int
) -> list[pa.RecordBatch]:
    if not begins.size:
        return batches
    parts = (batch.filter(pa.array(window.places(batch, begins) == place)) for batch in batches)
    return [part for part in parts if part.num_rows]


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One record batch, sorted by ``seq``."""
    table = pa.Table.from_batches(batches).combine_chunks()
    batch = table.to_batches()[0] if table.num_rows else batches[0]
    order = np.argsort(np.asarray(batch[SEQ]), kind="stable")
    if np.array_equal(order, np.arange(order.size)):
        return batch
    return batch.take(pa.array(order))
