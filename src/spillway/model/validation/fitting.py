"""How long state takes to be right again after a loss: the factors of Z = min(αS + βL, γS), from trials of one fault.

Seed 001 (5.6.4) finds them by dropping tuples of a sample stream at random points, with several recovery times and a
thousand times each, and counting the windows that are affected; α and β are those that fit best. Here an operator's job
is taken down in a run of the graph in one process, under the checkpoint way and with a clock that is told what time it
is, and what sinks then write is compared with an undisturbed run: Z is how many tuples came to the operator from the
restart until all that follows was right. No process is killed for it, and no random law is used but for the moment.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from spillway.clock import ManualClock
from spillway.graph.graph import Graph
from spillway.local.jobs import LocalJobs
from spillway.model.flow import Flow, Settling
from spillway.model.validation.judging import Batches, judge, read
from spillway.model.validation.ways import WAYS, Times, cut, jobs_of, killed
from spillway.parallel.pool import Pool
from spillway.seeds import generator
from spillway.state.folders import make_temporary

OUTAGES_S = (1.0, 2.0, 4.0, 8.0)
TAIL_S = 20.0
"""How long is waited for state to be right again; it is taken for right then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One job is down once."""

    job: str
    batch: int  # the first that it does not get
    outage: int  # in batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """What all trials of a graph have in common."""

    graph: Graph
    times: Times
    interval_s: float
    tolerance: float
    wanted: Mapping[str, Batches]

    def settled_after(self, trial: Trial) -> int:
        """How many batches after the restart something was still wrong."""
        folder = make_temporary("validate-", graph=self.graph.name)  # in memory: nothing here must outlive it
        try:
            self._run(trial, folder)
            restart = trial.batch + trial.outage
            last = restart + round(TAIL_S / self.interval_s)
            found = judge(self.wanted, read(folder / "out", list(self.wanted)), range(restart, last))
            wrong = [batch for batch, judged in found.items() if not judged.is_right(self.tolerance)]
            return max(wrong, default=restart - 1) - restart + 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, trial: Trial, folder: Path) -> None:
        graph = cut(self.graph, WAYS["checkpoint"], self.times, out=folder / "out")
        clock = ManualClock()
        last = trial.batch + trial.outage + round(TAIL_S / self.interval_s)
        with LocalJobs(graph, backups=str(folder / "backups"), clock=clock) as jobs:
            for batch in range(last):
                if batch == trial.batch:
                    jobs.logs(trial.job).close()
                    jobs.job(trial.job).wipe()
                if batch == trial.batch + trial.outage:
                    jobs.restart(trial.job)
                    self._catch_up(jobs, trial, batch)
                down = trial.batch <= batch < trial.batch + trial.outage
                for job in jobs.jobs:
                    if not (down and job == trial.job):
                        jobs.turn(job)
                clock.advance(self.interval_s)

    def _catch_up(self, jobs: LocalJobs, trial: Trial, batch: int) -> None:
        """Let the batches pass that were dropped, which are empty."""
        for job in jobs.jobs:
            while jobs.job(job).batch < batch and jobs.turn(job):
                pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What trials say of one operator."""

    settling: Settling
    outages_s: tuple[float, ...]
    settled_s: tuple[float, ...]  # on average, after each of these outages

    @property
    def mean_s(self) -> float:
        return float(np.mean(self.settled_s))


def trials_of(graph: Graph, *, interval_s: float, settle_s: float, repetitions: int, seed: int) -> Iterator[Trial]:
    """Every job with state, down for as long as each of the outages, at moments drawn at random."""
    checked = graph.checked()
    for job, nodes in killed(jobs_of(graph)).items():
        if not any(checked.operators[node].stateful for node in nodes):
            continue
        draw = generator(seed, "trials", job)
        for outage_s in OUTAGES_S:
            for _ in range(repetitions):
                batch = round((settle_s + 10.0 * draw.random()) / interval_s)
                yield Trial(job=job, batch=batch, outage=max(1, round(outage_s / interval_s)))


def last_batch(trials: Sequence[Trial], interval_s: float) -> int:
    """The one behind all that trials look at."""
    return max(trial.batch + trial.outage for trial in trials) + round(TAIL_S / interval_s)


def fit(trials: Trials, chosen: Sequence[Trial], flow: Flow, *, age_s: float, pool: Pool) -> dict[str, Fitted]:
    """The factors of every operator with state, as its job's trials have them."""
    found: dict[str, dict[int, list[int]]] = {}
    for trial, batches in pool.completed(partial(_settled_after, trials), chosen):
        found.setdefault(trial.job, {}).setdefault(trial.outage, []).append(batches)
    fitted = {}
    for job, by_outage in sorted(found.items()):
        outages_s = [outage * trials.interval_s for outage in sorted(by_outage)]
        settled_s = [float(np.mean(by_outage[outage])) * trials.interval_s for outage in sorted(by_outage)]
        fitted[job] = _fit(flow, job, outages_s, settled_s, age_s=age_s)
    return fitted


def _settled_after(trials: Trials, trial: Trial) -> int:
    return trials.settled_after(trial)


def _fit(flow: Flow, operator: str, outages_s: Sequence[float], settled_s: Sequence[float], *, age_s: float) -> Fitted:
    """A job is named by its operator with state. Its ports settle at once if each takes the same time, so the factors
    are those of the one that tuples come to most slowly, for the size of its state."""
    index = flow.index(operator)
    ports = [
        (reach * flow.rate, port.state_tuples)
        for reach, port in zip(flow.per_arrival[index], flow.operators[index].ports, strict=True)
        if port.stateful and reach > 0
    ]
    rate, state = min(ports, key=lambda port: port[0] / port[1])
    needed = np.asarray(settled_s) * rate
    lost = (np.asarray(outages_s) + age_s) * rate
    (penalty, staleness), _ = nnls(np.column_stack([np.full(len(lost), float(state)), lost]), needed)
    cap = max(1.0, float(needed.max()) / state)
    return Fitted(
        settling=Settling(penalty=float(penalty), staleness=float(staleness), cap=cap),
        outages_s=tuple(outages_s),
        settled_s=tuple(settled_s),
    )
