"""Pan and Tompkins' detector once more, as plainly as it can be said: whole lists, no rings, nothing compiled."""

import math
from dataclasses import dataclass, field


@dataclass
class Peak:
    energy: float
    height: float
    at: int
    slope: float


@dataclass
class Beat:
    decided: int
    at: int
    interval: int | None
    height: float
    searched: bool


@dataclass
class Levels:
    signal: float
    noise: float

    def threshold(self) -> float:
        return self.noise + 0.25 * (self.signal - self.noise)


@dataclass
class Rhythm:
    recent: list[int] = field(default_factory=list)
    usual: list[int] = field(default_factory=list)
    odd: int = 0

    def mean(self) -> float:
        return sum(self.usual) / len(self.usual)

    def is_usual(self, interval: int) -> bool:
        return 0.92 * self.mean() <= interval <= 1.16 * self.mean()

    def irregular(self) -> bool:
        return len(self.recent) == 8 and not all(self.is_usual(interval) for interval in self.recent)

    def add(self, interval: int) -> None:
        odd = bool(self.usual) and not self.is_usual(interval)
        self.recent = [*self.recent, interval][-8:]
        self.odd = self.odd + 1 if odd else 0
        if self.odd == 8:
            self.usual, self.odd = list(self.recent), 0
        elif not odd:
            self.usual = [*self.usual, interval][-8:]


class Detector:
    """One filtered signal, seen whole."""

    def __init__(self, signal: list[float], samples_per_s: float) -> None:
        self.signal, self.samples_per_s = signal, samples_per_s
        self.width, self.apart = round(0.15 * samples_per_s), round(0.2 * samples_per_s)
        self.t_wave, self.learnt = round(0.36 * samples_per_s), round(2 * samples_per_s)
        self.squares = [self.slope(at) ** 2 for at in range(len(signal))]
        self.energies = [self.energy(at) for at in range(len(signal))]
        beginning, heights = self.energies[: self.learnt], [abs(value) for value in signal[: self.learnt]]
        self.energy_levels = Levels(max(beginning) / 3.0, sum(beginning) * (0.5 / self.learnt))
        self.height_levels = Levels(max(heights) / 3.0, sum(heights) * (0.5 / self.learnt))
        self.rhythm = Rhythm()
        self.last: Peak | None = None
        self.missed: Peak | None = None

    def sample(self, at: int) -> float:
        return self.signal[max(at, 0)]

    def slope(self, at: int) -> float:
        rise = self.sample(at) + 2.0 * self.sample(at - 1) - 2.0 * self.sample(at - 3) - self.sample(at - 4)
        return rise * self.samples_per_s / 8.0

    def energy(self, at: int) -> float:
        # Added up in the order of their slots: floating point numbers want the same order for the same sum.
        slots = {number % self.width: self.squares[number] for number in range(max(at - self.width + 1, 0), at + 1)}
        return sum(slots.get(slot, 0.0) for slot in range(self.width)) / self.width

    def peaks(self) -> dict[int, Peak]:
        """By the sample that shows that nothing higher follows."""
        found = {}
        top, top_at, rose_from = 0.0, 0, 0.0
        for now, energy in enumerate(self.energies):
            if energy > top:
                top, top_at = energy, now
            elif now - top_at >= self.apart:
                if top > rose_from:
                    found[now] = self.peak(top, top_at)
                top, top_at, rose_from = energy, now, energy
        return found

    def peak(self, top: float, top_at: int) -> Peak:
        places = range(max(top_at - self.width - 3, 0), top_at + 1)
        at = max(places, key=lambda place: (abs(self.signal[place]), -place))
        steepest = max(abs(self.slope(place)) for place in range(top_at - self.width + 1, top_at + 1))
        return Peak(top, abs(self.signal[at]), at, steepest)

    def above(self, peak: Peak, part: float) -> bool:
        part *= 0.5 if self.rhythm.irregular() else 1.0
        energy, height = self.energy_levels.threshold(), self.height_levels.threshold()
        return peak.energy > part * energy and peak.height > part * height

    def judge(self, peak: Peak) -> bool:
        since = math.inf if self.last is None else peak.at - self.last.at
        steep = self.last is None or peak.slope >= 0.5 * self.last.slope
        possible = since >= self.apart and (since >= self.t_wave or steep)
        if possible and self.above(peak, 1.0):
            return True
        self.energy_levels.noise += 0.125 * (peak.energy - self.energy_levels.noise)
        self.height_levels.noise += 0.125 * (peak.height - self.height_levels.noise)
        if possible and (self.missed is None or peak.energy > self.missed.energy):
            self.missed = peak
        return False

    def overdue(self, now: int) -> bool:
        if self.missed is None or self.last is None or len(self.rhythm.usual) < 2:
            return False
        late = now - self.apart - self.width - self.last.at > 1.66 * self.rhythm.mean()
        return late and self.above(self.missed, 0.5)

    def accept(self, peak: Peak, weight: float) -> int | None:
        """Returns the interval since the last beat."""
        self.energy_levels.signal += weight * (peak.energy - self.energy_levels.signal)
        self.height_levels.signal += weight * (peak.height - self.height_levels.signal)
        interval = None if self.last is None else peak.at - self.last.at
        self.last, self.missed = peak, None
        if interval is not None:
            self.rhythm.add(interval)
        return interval


def beats(signal: list[float], samples_per_s: float) -> list[Beat]:
    """All beats of a filtered signal."""
    detector = Detector(signal, samples_per_s)
    peaks = detector.peaks()
    found: list[Beat] = []
    waiting: list[Peak] = []
    for now in range(len(signal)):
        waiting += [peaks[now]] if now in peaks else []
        if now < detector.learnt:
            continue
        if waiting:
            peak = waiting.pop(0)
            if detector.judge(peak):
                found.append(Beat(now, peak.at, detector.accept(peak, 0.125), peak.height, False))
        elif detector.overdue(now):
            assert detector.missed is not None
            peak = detector.missed
            found.append(Beat(now, peak.at, detector.accept(peak, 0.25), peak.height, True))
    return found
