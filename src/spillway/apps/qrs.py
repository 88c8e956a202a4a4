"""Heartbeats in a filtered electrocardiogram, after Pan and Tompkins (1985, IEEE Trans. Biomed. Eng. 32(3)).

The QRS complex is the steep part of a heartbeat, and R its highest point. Of the filtered signal x, with T the time
between two samples,

    slope       s(n) = (x(n) + 2 x(n-1) - 2 x(n-3) - x(n-4)) / 8T
    energy      e(n) = mean of s(n)² … s(n-N+1)²                        N T = 150 ms, as long as a QRS complex

A *peak* is an energy such that no larger one is within 200 ms after it, and none within 200 ms before it that is not
part of an earlier peak: no heart beats twice in that time. Its place is where |x| is largest while the energy gathers.
Peaks are told apart by running levels of signal S and noise P, of the energy and of |x| alike:

    threshold = P + (S - P) / 4, half of it in an irregular rhythm;        S or P += (peak - level) / 8

* Both energy and height of a beat are above their thresholds.
* Within 360 ms of a beat, a peak that is not half as steep is its T wave.
* *Search-back*: when for 1.66 times the usual interval there was no beat, the highest peak since the last one that is
  above half the thresholds was one; S moves by a quarter then.
* The usual interval is the mean of the last eight that were between 0.92 and 1.16 times the usual one; the rhythm is
  irregular while one of the last eight intervals of all is not. Eight in a row that are not are the usual from then on.

The levels begin as a third of the largest and half of the mean of the first two seconds; peaks of these wait until
then, and are then judged one with each sample. So a sample gives one beat at most, whatever the batches are.

What is kept of a signal is one row of a ``Window``, whose count is the number of samples so far: the last samples and
slopes, each in the slot of its number modulo their number, and then the cells named below. In one row a backup holds
all of it as of the same batch, or nothing. Positions are numbers of samples; what there is none of is at -inf.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError
from spillway.graph.feeds import SEQ, SEQ_FIELD
from spillway.graph.protections import Protection
from spillway.operators.keyed import Float64s, float_column, want_number
from spillway.operators.operator import Out
from spillway.operators.signals import Signal
from spillway.operators.stored_keys import stored
from spillway.state.compiled import compiled
from spillway.state.window import Window

SAMPLES_PER_S_MIN = 100.0  # with fewer a QRS complex has no shape
SAMPLES_PER_S_MAX = 10_000.0

_INTERVALS = 8
_WAITING_MAX = 16  # two seconds of peaks 200 ms apart, and some
_FIELDS = 4  # of a peak: its energy, its height, where it is, its slope

# The cells that follow samples and squared slopes.
_TOP, _TOP_AT, _FROM = 0, 1, 2  # the highest energy of a peak that may yet rise, where, and what it rose from
_ENERGY_S, _ENERGY_P, _HEIGHT_S, _HEIGHT_P = 3, 4, 5, 6  # the levels; before that, largest and sum of the beginning
_LAST, _LAST_HEIGHT, _LAST_SLOPE = 7, 8, 9  # the last beat
_MISSED = 10  # the highest peak since then that was none
_ODD_COUNT = 14  # intervals in a row that were unusual
_RECENT_COUNT, _RECENT = 15, 16  # the last intervals, and the last usual ones, oldest first
_USUAL_COUNT, _USUAL = 16 + _INTERVALS, 17 + _INTERVALS
_WAITING_COUNT, _WAITING = 17 + 2 * _INTERVALS, 18 + 2 * _INTERVALS
_CELLS = _WAITING + _WAITING_MAX * _FIELDS
_POSITIONS = (_TOP_AT, _LAST, _MISSED + 2, *range(_WAITING + 2, _CELLS, _FIELDS))


class Lengths(NamedTuple):
    """How many samples things take."""

    kept: int  # samples that are looked back at
    energy: int  # 150 ms
    apart: int  # 200 ms
    t_wave: int  # 360 ms
    learnt: int  # two seconds


def lengths(samples_per_s: float) -> Lengths:
    """The lengths at a sampling rate.

    >>> lengths(200.0)
    Lengths(kept=75, energy=30, apart=40, t_wave=72, learnt=400)
    """
    energy, apart = round(0.15 * samples_per_s), round(0.2 * samples_per_s)
    return Lengths(
        kept=energy + apart + 5,
        energy=energy,
        apart=apart,
        t_wave=round(0.36 * samples_per_s),
        learnt=round(2 * samples_per_s),
    )


class QRSDetector(Signal):
    """The heartbeats in a filtered signal, or in that of each key: see above.

    Puts out ``beat_s``, when the R of a beat was; ``rr_s``, the time since the beat before, null for the first;
    ``height``, that of the filtered R; ``searched``, whether it was found by looking back; under the ``seq`` of the
    sample that decided, which comes at least 200 ms after R. ``time`` names the column of times in seconds, and
    ``delay`` says by how many samples the filter before it delays the signal, which is made up for. Samples come at
    even distances. The divergence is the number of samples that the backup lacks.
    """

    parameters = ("samples_per_s", "delay")

    def __init__(
        self,
        name: str,
        *,
        value: str,
        samples_per_s: float,
        delay: int = 0,
        time: str = "time",
        key: str | None = None,
        protect: Protection | None = None,
        shards: int | None = None,
        delay_max: timedelta | None = None,
    ) -> None:
        if not SAMPLES_PER_S_MIN <= samples_per_s <= SAMPLES_PER_S_MAX:
            raise GraphError(
                f"Operator {name!r}: between {SAMPLES_PER_S_MIN:g} and {SAMPLES_PER_S_MAX:g} samples_per_s are wanted; "
                f"got {samples_per_s!r}."
            )
        self.lengths = lengths(samples_per_s)
        recent = Window(1, self.lengths.kept + self.lengths.energy + _CELLS)
        super().__init__(name, value=value, recent=recent, key=key, protect=protect, shards=shards, delay_max=delay_max)
        self.time = time
        self.samples_per_s = float(samples_per_s)
        self.delay = delay

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        key = self.check_signal(inputs)
        want_number(self, inputs, "in", self.time)
        numbers = [pa.field(name, pa.float64()) for name in ("beat_s", "rr_s", "height")]
        return {"out": pa.schema([SEQ_FIELD, *key, *numbers, pa.field("searched", pa.bool_())])}

    def reads(self, port: str) -> frozenset[str]:
        return super().reads(port) | {self.time}

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if not batch.num_rows:
            return
        values, groups = self.samples(batch), self.groups(batch)
        spoke, found = np.empty(batch.num_rows, np.int64), np.empty((batch.num_rows, 4))
        rows = self.recent.rings[:, 0, :]
        count = detect(rows, self.recent.counts, groups, values, self.lengths, self.samples_per_s, spoke, found)
        if not count:
            return
        chosen, (ago, interval, height, searched) = pa.array(spoke[:count]), found[:count].T
        times = float_column(self, batch, self.time)[spoke[:count]]
        spoken = {name: batch[name].take(chosen) for name in (SEQ, *self.key)}
        yield self.out(
            **spoken,
            beat_s=times - (ago + self.delay) / self.samples_per_s,
            rr_s=pa.array(interval / self.samples_per_s, mask=~np.isfinite(interval)),
            height=height.copy(),
            searched=searched > 0,
        )

    def states(self, keys: pa.Array) -> Float64s:
        keys = stored(keys)
        rows, _ = self.recent.newest(keys)
        cells, counts = rows[:, 0, :], self.recent.totals(keys)
        kept, energy = self.lengths.kept, self.lengths.energy
        parts: list[Any] = [np.minimum(counts, self.lengths.learnt)[:, None]]
        for first, size in ((0, kept), (kept, energy)):
            # Slots follow from how many samples there were; what comes next follows from their ages.
            order = first + (counts[:, None] + np.arange(size)) % size
            parts.append(np.take_along_axis(cells, order, axis=1))
        rest = cells[:, kept + energy :].copy()
        places = np.array(_POSITIONS)
        rest[:, places] = counts[:, None] - rest[:, places]
        unused = np.arange(_WAITING_MAX) >= rest[:, _WAITING_COUNT, None]
        rest[:, _WAITING:][np.repeat(unused, _FIELDS, axis=1)] = 0.0
        return np.concatenate([*parts, rest], axis=1, dtype=np.float64)


@compiled
def detect(
    rows: Any, counts: Any, groups: Any, values: Any, lengths: Lengths, samples_per_s: float, spoke: Any, found: Any
) -> int:
    """Apply samples in order; returns how many beats were found.

    ``spoke`` tells which sample decided on each, ``found`` how many samples ago it was, how many after the beat before,
    its height, and 1 if it was found by looking back.
    """
    count = 0
    for i in range(groups.size):
        group = groups[i]
        row = rows[group]
        now = counts[group]
        counts[group] += 1
        cells = row[lengths.kept + lengths.energy :]
        energy = _gathered(row, now, values[i], lengths, samples_per_s)
        _look_for_peak(row, cells, now, energy, lengths, samples_per_s)
        if now < lengths.learnt:
            cells[_ENERGY_S] = max(cells[_ENERGY_S], energy)
            cells[_ENERGY_P] += energy
            cells[_HEIGHT_S] = max(cells[_HEIGHT_S], abs(values[i]))
            cells[_HEIGHT_P] += abs(values[i])
            if now + 1 == lengths.learnt:
                cells[_ENERGY_S] /= 3.0
                cells[_ENERGY_P] *= 0.5 / lengths.learnt
                cells[_HEIGHT_S] /= 3.0
                cells[_HEIGHT_P] *= 0.5 / lengths.learnt
        else:
            searched = cells[_WAITING_COUNT] == 0.0
            before = cells[_LAST]
            if _search_back(cells, now, lengths) if searched else _judge(cells, lengths):
                spoke[count] = i
                found[count, 0] = now - cells[_LAST]
                found[count, 1] = cells[_LAST] - before
                found[count, 2] = cells[_LAST_HEIGHT]
                found[count, 3] = searched
                count += 1
    return count


@compiled
def _gathered(row: Any, now: int, value: float, lengths: Lengths, samples_per_s: float) -> float:
    """Enter a sample; returns the energy with it."""
    kept = lengths.kept
    if now == 0:
        row[:kept] = value
        cells = row[kept + lengths.energy :]
        cells[_TOP_AT], cells[_LAST], cells[_MISSED + 2] = 0.0, -np.inf, -np.inf
    row[now % kept] = value
    slope = _slope(row, now, kept, samples_per_s)
    row[kept + now % lengths.energy] = slope * slope
    total = 0.0
    for slot in range(kept, kept + lengths.energy):
        total += row[slot]
    return total / lengths.energy


@compiled
def _slope(row: Any, at: int, kept: int, samples_per_s: float) -> float:
    """Between the samples up to number ``at``; those before the first one were entered as equal to it."""
    rise = row[at % kept] + 2.0 * row[(at - 1) % kept] - 2.0 * row[(at - 3) % kept] - row[(at - 4) % kept]
    return float(rise * samples_per_s / 8.0)


@compiled
def _look_for_peak(row: Any, cells: Any, now: int, energy: float, lengths: Lengths, samples_per_s: float) -> None:
    """Follow the energy; a peak that nothing has passed for 200 ms begins to wait."""
    if energy > cells[_TOP]:
        cells[_TOP] = energy
        cells[_TOP_AT] = now
    elif now - cells[_TOP_AT] >= lengths.apart:
        # An energy that only fell since the last peak is the end of that one.
        if cells[_TOP] > cells[_FROM] and cells[_WAITING_COUNT] < _WAITING_MAX:
            first = _WAITING + int(cells[_WAITING_COUNT]) * _FIELDS
            cells[_WAITING_COUNT] += 1.0
            cells[first] = cells[_TOP]
            _place(row, cells[first : first + _FIELDS], int(cells[_TOP_AT]), lengths, samples_per_s)
        cells[_TOP] = cells[_FROM] = energy
        cells[_TOP_AT] = now


@compiled
def _place(row: Any, peak: Any, top_at: int, lengths: Lengths, samples_per_s: float) -> None:
    """Fill in height, place and slope of the peak whose energy is highest at ``top_at``."""
    peak[1], peak[3] = -1.0, 0.0
    for at in range(max(top_at - lengths.energy - 3, 0), top_at + 1):
        height = abs(row[at % lengths.kept])
        if height > peak[1]:
            peak[1], peak[2] = height, at
    for at in range(top_at - lengths.energy + 1, top_at + 1):
        peak[3] = max(peak[3], abs(_slope(row, at, lengths.kept, samples_per_s)))


@compiled
def _judge(cells: Any, lengths: Lengths) -> bool:
    """Whether the peak that has waited longest is a beat, which it then is from here on."""
    peak = cells[_WAITING : _WAITING + _FIELDS].copy()
    for cell in range(_WAITING, _CELLS - _FIELDS):
        cells[cell] = cells[cell + _FIELDS]
    cells[_WAITING_COUNT] -= 1.0
    since = peak[2] - cells[_LAST]
    is_wave = since < lengths.t_wave and peak[3] < 0.5 * cells[_LAST_SLOPE]
    if since >= lengths.apart and not is_wave and _above(cells, peak, 1.0):
        _accept(cells, peak, 0.125)
        return True
    cells[_ENERGY_P] += 0.125 * (peak[0] - cells[_ENERGY_P])
    cells[_HEIGHT_P] += 0.125 * (peak[1] - cells[_HEIGHT_P])
    if since >= lengths.apart and not is_wave and peak[0] > cells[_MISSED]:
        cells[_MISSED : _MISSED + _FIELDS] = peak
    return False


@compiled
def _search_back(cells: Any, now: int, lengths: Lengths) -> bool:
    """Whether a beat is overdue and the highest peak since the last one was one, which it then is from here on."""
    if cells[_USUAL_COUNT] < 2.0 or cells[_MISSED] <= 0.0:
        return False
    # A beat is heard of only when its energy has gathered and nothing higher has followed.
    overdue = now - lengths.apart - lengths.energy - cells[_LAST] > 1.66 * _usual(cells)
    peak = cells[_MISSED : _MISSED + _FIELDS].copy()
    if overdue and _above(cells, peak, 0.5):
        _accept(cells, peak, 0.25)
        return True
    return False


@compiled
def _above(cells: Any, peak: Any, part: float) -> bool:
    """Whether energy and height are above a part of their thresholds."""
    if cells[_RECENT_COUNT] >= _INTERVALS:
        for place in range(_INTERVALS):
            if not _is_usual(cells, cells[_RECENT + place]):
                part *= 0.5
                break
    energy = cells[_ENERGY_P] + 0.25 * (cells[_ENERGY_S] - cells[_ENERGY_P])
    height = cells[_HEIGHT_P] + 0.25 * (cells[_HEIGHT_S] - cells[_HEIGHT_P])
    return bool(peak[0] > part * energy and peak[1] > part * height)


@compiled
def _accept(cells: Any, peak: Any, weight: float) -> None:
    """A peak is a beat: levels and intervals follow it."""
    cells[_ENERGY_S] += weight * (peak[0] - cells[_ENERGY_S])
    cells[_HEIGHT_S] += weight * (peak[1] - cells[_HEIGHT_S])
    interval = peak[2] - cells[_LAST]
    cells[_LAST], cells[_LAST_HEIGHT], cells[_LAST_SLOPE] = peak[2], peak[1], peak[3]
    cells[_MISSED : _MISSED + _FIELDS] = 0.0
    cells[_MISSED + 2] = -np.inf
    if interval == np.inf:
        return
    odd = cells[_USUAL_COUNT] > 0.0 and not _is_usual(cells, interval)
    _enter(cells, _RECENT_COUNT, interval)
    cells[_ODD_COUNT] = cells[_ODD_COUNT] + 1.0 if odd else 0.0
    if cells[_ODD_COUNT] >= _INTERVALS:
        cells[_USUAL_COUNT : _USUAL + _INTERVALS] = cells[_RECENT_COUNT : _RECENT + _INTERVALS]
        cells[_ODD_COUNT] = 0.0
    elif not odd:
        _enter(cells, _USUAL_COUNT, interval)


@compiled
def _enter(cells: Any, count: int, interval: float) -> None:
    """Put an interval behind those counted in the cell ``count``, which it is followed by."""
    if cells[count] < _INTERVALS:
        cells[count] += 1.0
    else:
        for place in range(count + 1, count + _INTERVALS):
            cells[place] = cells[place + 1]
    cells[count + int(cells[count])] = interval


@compiled
def _usual(cells: Any) -> float:
    total = 0.0
    count = int(cells[_USUAL_COUNT])
    for place in range(count):
        total += cells[_USUAL + place]
    return total / count


@compiled
def _is_usual(cells: Any, interval: float) -> bool:
    usual = _usual(cells)
    return 0.92 * usual <= interval <= 1.16 * usual
