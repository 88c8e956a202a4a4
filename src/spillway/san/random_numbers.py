"""Random numbers inside the event loop: a stream per replication, and the laws of `distributions`.

The generator is xoshiro256++ (Blackman and Vigna, 2019): four words of state, about two nanoseconds a word. Its state
is filled from `spillway.seeds`, which makes streams of different names independent for every practical purpose;
all-zero state, the one it cannot leave, has probability 2**-256.
"""

import math
from typing import Any

import numpy as np

from spillway.san.compiled import compiled, inlined
from spillway.san.distributions import STAGES_MAX

# How an activity's time is sampled; INSTANT is no time at all.
INSTANT, EXPONENTIAL, DETERMINISTIC, UNIFORM, NORMAL, WEIBULL, ERLANG, EMPIRICAL = range(8)

_FRACTION = 2.0**-53
_INVERSION_MEAN_MAX = 10.0


@inlined
def next_word(state: Any) -> Any:
    """64 random bits."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return result


@inlined
def below_one(state: Any) -> float:
    """Uniform on [0, 1)."""
    return np.float64(np.int64(next_word(state) >> np.uint64(11))) * _FRACTION


@inlined
def above_zero(state: Any) -> float:
    """Uniform on (0, 1], so that its logarithm exists."""
    return np.float64(np.int64(next_word(state) >> np.uint64(11)) + 1) * _FRACTION


@compiled
def refused(kind: int, a: float, b: float) -> bool:
    """Whether the parameters make no such law; the same rules as `distributions`, for those of the marking."""
    if kind in (EXPONENTIAL, DETERMINISTIC):
        return not 0 < a < math.inf
    if kind == UNIFORM:
        return not 0 <= a < b < math.inf
    if kind == NORMAL:
        return not (0 <= a < math.inf and 0 < b < math.inf)
    if kind == WEIBULL:
        return not (0 < a < math.inf and 0 < b < math.inf)
    if kind == ERLANG:
        return not (1 <= a <= STAGES_MAX and a == math.floor(a) and 0 < b < math.inf)
    return False


@compiled
def sample(kind: int, a: float, b: float, values: Any, cumulated: Any, first: int, last: int, state: Any) -> float:
    """A time of a law; `values[first:last]` and their cumulated weights are those of an empirical one."""
    if kind == EXPONENTIAL:
        return -math.log(above_zero(state)) / a
    if kind == DETERMINISTIC:
        return a
    if kind == UNIFORM:
        return a + (b - a) * below_one(state)
    if kind == WEIBULL:
        return float(b * (-math.log(above_zero(state))) ** (1.0 / a))
    if kind == ERLANG:
        total = 0.0
        for _ in range(int(a)):
            total -= math.log(above_zero(state))
        return total / b
    if kind == NORMAL:
        time = 0.0
        while time <= 0.0:  # with a mean of 0 or more, half of the samples or more are kept
            radius = math.sqrt(-2.0 * math.log(above_zero(state)))
            time = a + b * radius * math.cos(2.0 * math.pi * below_one(state))
        return time
    chosen = below_one(state) * cumulated[last - 1]
    while first < last - 1:
        middle = (first + last - 1) // 2
        if cumulated[middle] > chosen:
            last = middle + 1
        else:
            first = middle + 1
    return float(values[first])


@compiled
def binomial(count: int, chance: float, state: Any) -> int:
    """How many of `count` things come true, each with this chance."""
    if count <= 0 or chance <= 0.0:
        return 0
    if chance >= 1.0:
        return count
    return _few(count, chance, state) if chance <= 0.5 else count - _few(count, 1.0 - chance, state)


@compiled
def _few(count: int, chance: float, state: Any) -> int:
    """`binomial` for a chance of at most one half, by inversion.

    Few expected: the terms are summed up from 0. Many: from the most likely value outwards, which takes as many steps
    as the value lies away from it, some standard deviations: microseconds for a million.
    """
    odds = chance / (1.0 - chance)
    left = below_one(state)
    if count * chance < _INVERSION_MEAN_MAX:
        term = math.exp(count * math.log1p(-chance))
        for k in range(count):
            if left < term:
                return k
            left -= term
            term *= odds * (count - k) / (k + 1)
        return count
    mode = int((count + 1) * chance)
    peak = math.exp(
        math.lgamma(count + 1.0)
        - math.lgamma(mode + 1.0)
        - math.lgamma(count - mode + 1.0)
        + mode * math.log(chance)
        + (count - mode) * math.log1p(-chance)
    )
    left -= peak
    above, below = mode, mode
    term_above, term_below = peak, peak
    while left >= 0.0 and (term_above > 0.0 or term_below > 0.0):
        term_above *= odds * (count - above) / (above + 1)
        above += 1
        left -= term_above
        if left < 0.0:
            return above
        term_below *= below / (odds * (count - below + 1))
        below -= 1
        left -= term_below
        if left < 0.0:
            return below
    return mode
