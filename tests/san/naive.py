"""A slow simulator of nets, written from the rules in `net` alone: it scans everything after every completion."""

import math
from dataclasses import dataclass, field

from spillway.san import AtInstant, Impulses, Measure, Net, TimeAverage
from spillway.san.distributions import (
    Deterministic,
    Distribution,
    Empirical,
    Erlang,
    Exponential,
    Normal,
    Uniform,
    Weibull,
)
from spillway.san.expressions import expression
from spillway.san.parts import Activity, Arc

WORD = 2**64


class Bits:
    """xoshiro256++ on Python's own integers."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def word(self) -> int:
        s0, s1, s2, s3 = self.words
        result = (_turned((s0 + s3) % WORD, 23) + s0) % WORD
        shifted = (s1 << 17) % WORD
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= shifted
        self.words = [s0, s1, s2, _turned(s3, 45)]
        return result

    def below_one(self) -> float:
        return (self.word() >> 11) / 2**53

    def exponential(self) -> float:
        return -math.log(((self.word() >> 11) + 1) / 2**53)

    def time(self, law: Distribution, marking: dict[str, int]) -> float:
        numbers = [parameter.value(marking) for parameter in law.parameters()]
        match law:
            case Exponential():
                return self.exponential() / numbers[0]
            case Deterministic():
                return numbers[0]
            case Uniform():
                return numbers[0] + (numbers[1] - numbers[0]) * self.below_one()
            case Weibull():
                return float(numbers[1] * self.exponential() ** (1.0 / numbers[0]))
            case Erlang():
                total = 0.0
                for _ in range(int(numbers[0])):
                    total += self.exponential()
                return total / numbers[1]
            case Normal():
                while True:
                    radius = math.sqrt(2.0 * self.exponential())
                    time = numbers[0] + numbers[1] * radius * math.cos(2.0 * math.pi * self.below_one())
                    if time > 0:
                        return time
            case Empirical(values=values, weights=weights):
                assert weights is not None
                chosen_at = self.below_one() * math.fsum(weights)
                for value, weight in zip(values, weights, strict=True):
                    chosen_at -= weight
                    if chosen_at < 0:
                        return value
                return values[-1]
        raise AssertionError(law)


@dataclass
class Naive:
    """One replication. `trace` holds time, activity and case of every completion."""

    net: Net
    measures: list[Measure]
    bits: Bits
    trace: list[tuple[float, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.marking = {name: place.tokens for name, place in self.net.places.items()}
        self.timed = [each for each in self.net.activities.values() if each.timed]
        self.instants = [each for each in self.net.activities.values() if not each.timed]
        self.due: dict[str, float] = {}
        self.rates: dict[str, float] = {}
        self.before = dict(self.marking)
        self.now = 0.0
        self.sums = {measure.name: 0.0 for measure in self.measures}

    def run(self) -> dict[str, float]:
        end = max(measure.end for measure in self.measures)
        for measure in self.measures:
            if isinstance(measure, AtInstant) and measure.at == 0:
                raise AssertionError("the twin reads no measure at time 0")
        self._settle(None)
        while True:
            upcoming = min(self.due.values(), default=math.inf)
            self._pass(min(upcoming, end))
            if upcoming >= end:
                break
            first = next(each for each in self.timed if self.due.get(each.name) == upcoming)
            self.now = upcoming
            self._complete(first)
            self._settle(first)
        for measure in self.measures:
            if isinstance(measure, TimeAverage):
                self.sums[measure.name] /= measure.end - measure.start
        return self.sums

    def _pass(self, until: float) -> None:
        """The present marking lasts from now until then."""
        for measure in self.measures:
            if isinstance(measure, AtInstant):
                if self.now < measure.at <= until:
                    self.sums[measure.name] = expression(measure.value).value(self.marking)
            elif not isinstance(measure, Impulses):
                lasted = min(until, measure.end) - max(self.now, measure.start)
                if lasted > 0:
                    self.sums[measure.name] += lasted * expression(measure.value).value(self.marking)

    def _enabled(self, activity: Activity) -> bool:
        return all(self.marking[arc.place] >= arc.tokens for arc in activity.arcs) and all(
            gate.predicate.value(self.marking) for gate in activity.gates
        )

    def _case(self, activity: Activity) -> int:
        case = 0
        if len(activity.outcomes) > 1:
            chosen_at = self.bits.below_one()
            total = 0.0
            for case, outcome in enumerate(activity.outcomes):  # noqa: B007 - the last one is meant
                total += outcome.chance.value(self.marking)
                if chosen_at < total:
                    break
        return case

    def _complete(self, activity: Activity) -> None:
        case = self._case(activity)
        for measure in self.measures:
            if isinstance(measure, Impulses) and measure.start <= self.now < measure.end:
                for key in (activity.name, (activity.name, case)):
                    if key in measure.on:
                        self.sums[measure.name] += expression(measure.on[key]).value(self.marking)
        for arc in activity.arcs:
            self.marking[arc.place] -= arc.tokens
        for gate in activity.gates:
            for each in gate.does:
                self.marking[each.place] = int(each.to.value(self.marking))
        for output in activity.outcomes[case].outputs:
            if isinstance(output, Arc):
                self.marking[output.place] += output.tokens
            else:
                for each in output.does:
                    self.marking[each.place] = int(each.to.value(self.marking))
        self.trace.append((self.now, activity.name, case))

    def _settle(self, finished: Activity | None) -> None:
        while ready := [each for each in self.instants if self._enabled(each)]:
            highest = max(each.priority for each in ready)
            equals = [each for each in ready if each.priority == highest]
            chosen = equals[0]
            if len(equals) > 1:
                chosen_at = self.bits.below_one() * sum(each.weight for each in equals)
                for chosen in equals:
                    chosen_at -= chosen.weight
                    if chosen_at < 0:
                        break
            self._complete(chosen)
        for activity in self.timed:
            if not self._enabled(activity):
                self.due.pop(activity.name, None)
                continue
            assert activity.distribution is not None
            if activity is finished or activity.name not in self.due or self._reactivated(activity):
                self.due[activity.name] = self.now + self.bits.time(activity.distribution, self.marking)
            elif isinstance(activity.distribution, Exponential):
                rate = activity.distribution.parameters()[0].value(self.marking)
                if rate != self.rates[activity.name]:
                    left = self.due[activity.name] - self.now
                    self.due[activity.name] = self.now + left * (self.rates[activity.name] / rate)
            if isinstance(activity.distribution, Exponential):
                self.rates[activity.name] = activity.distribution.parameters()[0].value(self.marking)
        self.before = dict(self.marking)

    def _reactivated(self, activity: Activity) -> bool:
        predicate = activity.reactivate_when
        watched = set(activity.reactivate_on) if predicate is None else activity.reads()
        changed = any(self.marking[place] != self.before[place] for place in watched)
        return changed and (predicate is None or predicate.value(self.marking) != 0)


def _turned(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) % WORD
