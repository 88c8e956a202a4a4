"""A model and reality side by side: real runs in some ways, what the model says of them, and why they differ.

Where a measure lies outside of its interval, one parameter of the model after the other is made larger and smaller, and
what is told is which of them, by how much, would have made the model say what was seen. That is no proof that it is the
cause, but it is where to look.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from spillway.errors import ModelError
from spillway.graph.graph import Graph
from spillway.model.flow import Flow
from spillway.model.from_graph import flow_of
from spillway.model.measuring import measure_profile
from spillway.model.profile import Profile
from spillway.model.validation.fitting import Fitted, Trials, fit, last_batch, trials_of
from spillway.model.validation.judging import NOTHING, Batches, judge, read, undisturbed
from spillway.model.validation.predicting import Interval, Parameters, Question, predict
from spillway.model.validation.ways import READING, WAYS, WRITING, Times, Way, cut, jobs_of, killed
from spillway.model.validation.world import Lived, Terms, World
from spillway.parallel.pool import Pool
from spillway.state.folders import make_temporary

FACTORS = (0.5, 2.0, 0.25, 4.0)
_EXPLAINS = {
    "settling": "state were right again {} times as late",
    "recovery_s": "a process came back {} times as late",
    "failover_s": "a failover took {} times as long",
    "checkpoint_age_s": "checkpoints were {} times as old",
}

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be tried."""

    graph: Graph
    ways: tuple[str, ...]
    times: Times
    terms: Terms
    rate: float  # tuples per second
    runs: int  # of each way
    repetitions: int  # of every trial
    samples: int  # intervals are made of so many times as many simulated runs
    tolerance: float  # the share of wrong tuples in a batch that is still right

    def __post_init__(self) -> None:
        for way in self.ways:
            if way not in WAYS:
                raise ModelError(f"There is no way {way!r} to run a graph here; there are {', '.join(WAYS)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One measure of one way."""

    way: str
    measure: str
    measured: float
    predicted: Interval
    explanation: str = ""

    @property
    def inside(self) -> bool:
        return self.predicted.contains(self.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """All that came of one way."""

    way: str
    kills: int
    measures: Mapping[str, float]  # means over the runs
    runs: tuple[Mapping[str, float], ...]
    recovery_s: float
    failover_s: float
    failovers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A model and reality."""

    flow: Flow
    profile: Profile
    fitted: Mapping[str, Fitted]
    tried: tuple[Tried, ...]
    compared: tuple[Compared, ...]

    def of(self, way: str, measure: str) -> Compared:
        return next(one for one in self.compared if (one.way, one.measure) == (way, measure))


def validate(plan: Plan, *, pool: Pool, tell: Tell) -> Validation:
    """Measure what the model must know, run the graph in each of the ways, and ask the model what it says of that."""
    folder = make_temporary("validate-", graph=plan.graph.name)
    try:
        return _validate(plan, folder, pool=pool, tell=tell)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _validate(plan: Plan, folder: Path, *, pool: Pool, tell: Tell) -> Validation:
    jobs = jobs_of(plan.graph)
    terms = plan.terms
    trials = list(
        trials_of(
            plan.graph,
            interval_s=terms.interval_s,
            settle_s=terms.settle_s,
            repetitions=plan.repetitions,
            seed=terms.seed,
        )
    )
    tell("Running the graph undisturbed.")
    profile = profile_of(plan, folder / "profile")
    flow = flow_of(plan.graph.checked(), profile)
    wanted = undisturbed(
        plan.graph,
        max(terms.batches, last_batch(trials, terms.interval_s)),
        out=folder / "undisturbed",
        backups=str(folder / "undisturbed-backups"),
    )
    tell(f"{len(trials)} trials of one fault each.")
    age_s = plan.times.checkpoint_s / 2 + terms.interval_s  # a backup counts once the next batch begins
    common = Trials(
        graph=plan.graph, times=plan.times, interval_s=terms.interval_s, tolerance=plan.tolerance, wanted=wanted
    )
    fitted = fit(common, trials, flow, age_s=age_s, pool=pool)
    for job, found in fitted.items():
        tell(f"{job}: right again {found.mean_s:.1f} s after a restart, on average.")
    tried = [_try(plan, WAYS[name], folder, wanted, tell) for name in plan.ways]
    compared: list[Compared] = []
    for one in tried:
        parameters = Parameters(
            recovery_s=one.recovery_s,
            failover_s=one.failover_s,
            checkpoint_age_s=age_s,
            settling={job: found.settling for job, found in fitted.items()},
        )
        question = Question(
            flow=flow,
            way=WAYS[one.way],
            jobs=killed(jobs),
            spared=(*jobs[READING], *jobs[WRITING]),
            crash_rate=terms.crash_rate,
            horizon_s=terms.horizon_s,
            runs=plan.runs,
        )
        tell(f"{one.way}: asking the model.")
        compared += _compare(one, question, parameters, plan)
    return Validation(flow=flow, profile=profile, fitted=fitted, tried=tuple(tried), compared=tuple(compared))


def profile_of(plan: Plan, folder: Path) -> Profile:
    """What the graph is like in the batches that are measured, and no others.

    How much is put out differs from one stretch of the input to another by more than chance has it: what was measured
    on all of it would be off by that, and a parameter of the model would seem to explain it.
    """
    return measure_profile(
        plan.graph,
        backups=str(folder),
        batches_skipped=plan.terms.first_batch,
        batches_max=plan.terms.batches,
        tuples_per_s=plan.rate,
    )


def _try(plan: Plan, way: Way, folder: Path, wanted: Mapping[str, Batches], tell: Tell) -> Tried:
    """Run the graph in a way, as often as is asked for."""
    lived: list[Lived] = []
    runs = []
    for number in range(plan.runs):
        out = folder / f"{way.name}-{number}"
        terms = plan.terms.of_run(way.name, number)
        with World(cut(plan.graph, way, plan.times, out=out), terms) as world:
            found = world.live(lambda said, number=number: tell(f"{way.name}, run {number + 1}: {said}"))  # type: ignore[misc]
        lived.append(found)
        runs.append(_measures(found, terms, wanted, read(out, list(wanted)), tolerance=plan.tolerance))
        shutil.rmtree(out, ignore_errors=True)
        tell(f"{way.name}, run {number + 1}: {found.kills} kills, available {runs[-1]['availability']:.3f}")
    recoveries = [seconds for one in lived for seconds in one.recoveries_s]
    failovers = taken_over(lived, way, plan.terms)
    # Where nothing had to come back, or nobody to take over, it would take as long as it was told to at least.
    return Tried(
        way=way.name,
        kills=sum(one.kills for one in lived),
        measures={name: fmean(run[name] for run in runs) for name in runs[0]},
        runs=tuple(runs),
        recovery_s=fmean(recoveries) if recoveries else plan.terms.recovery_s,
        failover_s=fmean(failovers) if failovers else plan.times.detection_s,
        failovers=len(failovers),
    )


def taken_over(lived: Sequence[Lived], way: Way, terms: Terms) -> list[float]:
    """How long it took another replica to take over, each time; when both were down, it is a matter of coming back."""
    unheard_s = (seconds for one in lived for seconds in one.failovers_s)
    return [seconds for seconds in unheard_s if way.fails_over and seconds < terms.recovery_s]


def _measures(
    lived: Lived,
    terms: Terms,
    wanted: Mapping[str, Batches],
    written: Mapping[str, Batches],
    *,
    tolerance: float,
) -> dict[str, float]:
    batches = range(terms.first_batch, terms.batches)
    found = judge(wanted, written, batches)
    right = {batch: judged.is_right(tolerance) for batch, judged in found.items()}
    total = sum(found.values(), NOTHING)
    instants = [(int(at_s // terms.interval_s), heard) for at_s, heard in lived.heard]
    available = [heard and right[batch] for batch, heard in instants if batch in right]
    return {
        "availability": fmean(available),
        "tainted": float(total.tainted),
        "lost": float(lived.dropped),
        "duplicates": float(total.duplicates),
        "output": float(total.wanted - total.lost + total.duplicates),
        "missing": float(total.lost),
        "wanted": float(total.wanted),
    }


def _compare(tried: Tried, question: Question, parameters: Parameters, plan: Plan) -> Sequence[Compared]:
    asked: dict[tuple[str, float], dict[str, Interval]] = {}

    def answer(what: str = "", factor: float = 1.0) -> dict[str, Interval]:
        key = what, factor
        if key not in asked:
            told = parameters.slower(what, factor) if what else parameters
            asked[key] = predict(question, told, samples=plan.samples, seed=plan.terms.seed)
        return asked[key]

    def explain(measure: str, measured: float) -> str:
        for factor in FACTORS:
            for what, sentence in _EXPLAINS.items():
                if answer(what, factor)[measure].contains(measured):
                    return f"the model would say so if {sentence.format(f'{factor:g}')}"
        return "no parameter of the model by itself, four times as large or as small, makes it say so"

    found = []
    for measure, predicted in answer().items():
        measured = tried.measures[measure]
        why = "" if predicted.contains(measured) else explain(measure, measured)
        found.append(Compared(way=tried.way, measure=measure, measured=measured, predicted=predicted, explanation=why))
    return found


def as_row(compared: Compared) -> dict[str, Any]:
    """As records have it."""
    return {
        "way": compared.way,
        "measure": compared.measure,
        "measured": compared.measured,
        "mean": compared.predicted.mean,
        "low": compared.predicted.low,
        "high": compared.predicted.high,
        "inside": compared.inside,
        "explanation": compared.explanation,
    }
