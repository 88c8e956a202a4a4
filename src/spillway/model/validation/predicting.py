"""What the model says of runs like those that were made: of many simulated ones, where 95 of 100 lie.

That is an interval for what a run shows, not for a mean of all runs: a single run of some minutes has a few crashes,
and may well have had more or fewer. Several real runs are compared by their mean, with means of as many simulated ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spillway.model.faults import Faults
from spillway.model.flow import Flow, Settling
from spillway.model.protections import CheckpointState, HighAvailabilityGroups, Technique
from spillway.model.stream_net import build
from spillway.model.validation.ways import Way
from spillway.san.intervals import Precision
from spillway.san.replications import simulate

LEVEL = 0.95
AT_ONCE_S = 1e-3
MEASURES = ("availability", "tainted", "lost", "duplicates", "output")
"""Those of the model that can be measured in reality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What the model is told of the system, each of which may be what explains a difference."""

    recovery_s: float
    failover_s: float
    checkpoint_age_s: float
    settling: Mapping[str, Settling]

    def slower(self, what: str, factor: float) -> "Parameters":
        """The same with one of them so many times as large."""
        if what != "settling":
            return replace(self, **{what: getattr(self, what) * factor})
        changed = {
            name: replace(each, penalty=each.penalty * factor, staleness=each.staleness * factor, cap=each.cap * factor)
            for name, each in self.settling.items()
        }
        return replace(self, settling=changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the model is asked."""

    flow: Flow
    way: Way
    jobs: Mapping[str, tuple[str, ...]]  # that are killed
    spared: tuple[str, ...]
    crash_rate: float
    horizon_s: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where 95 of 100 runs lie."""

    mean: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        """Whether a run is one of those; what rounding does to a number that never varies is no difference."""
        slack = 1e-9 * max(1.0, abs(self.high))
        return self.low - slack <= value <= self.high + slack


def technique_for(question: Question, parameters: Parameters) -> Technique:
    """The way, as the model knows it.

    Jobs that run twice with logs between them are groups of which another speaks at once: what is put out while both
    copies are down is kept, and state is in backups. Seed 001's own template (`FullReplication`) loses both.
    """
    stateful = tuple(each.name for each in question.flow.operators if each.stateful)
    if question.way.group is None:
        return CheckpointState(operators=stateful, age_s=parameters.checkpoint_age_s)
    keeps = question.way.keeps
    return HighAvailabilityGroups(
        groups=tuple(question.jobs.values()),
        failover_s=parameters.failover_s if question.way.fails_over else AT_ONCE_S,
        checkpoints=() if keeps else stateful,
        age_s=parameters.checkpoint_age_s,
        by_position=keeps,
        saved=keeps,
    )


def predict(question: Question, parameters: Parameters, *, samples: int, seed: int) -> dict[str, Interval]:
    """The intervals of all measures, from so many times as many simulated runs as there were real ones.

    In this process: a run of minutes is simulated in milliseconds, and other processes would have to load kernels.
    """
    flow = _settling(question.flow, parameters.settling)
    faults = Faults(
        crash_rate=question.crash_rate,
        recovery_s=parameters.recovery_s,
        together=tuple(nodes for nodes in question.jobs.values() if len(nodes) > 1),
        spared=question.spared,
    )
    net = build(flow, technique_for(question, parameters), faults)
    measures = [each for each in net.measures(horizon_s=question.horizon_s) if each.name in MEASURES]
    count = samples * question.runs
    precision = Precision(relative=1.0, level=LEVEL, replications_min=count, replications_max=count)
    found = simulate(net.net, measures, seed=seed, precision=precision)
    return {name: _interval(found.samples[:, at], question.runs) for at, name in enumerate(found.estimates)}


def _settling(flow: Flow, settling: Mapping[str, Settling]) -> Flow:
    operators = tuple(
        replace(each, ports=tuple(replace(port, settling=settling[each.name]) for port in each.ports))
        if each.name in settling
        else each
        for each in flow.operators
    )
    return replace(flow, operators=operators)


def _interval(samples: Any, runs: int) -> Interval:
    """Of means of so many runs.

    >>> _interval(np.arange(200.0), 2)
    Interval(mean=99.5, low=5.45, high=193.55)
    """
    means = samples[: len(samples) // runs * runs].reshape(-1, runs).mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(mean=float(means.mean()), low=round(float(low), 9), high=round(float(high), 9))
