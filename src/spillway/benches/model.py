"""How fast nets are simulated, beside simpy, and whether the simulator is right.

Five figures in one run, all in processor time of one core. Completions per second on a line of operators
(``benches.tandem``), and on the streams it is given; the model time that gives on the line, over what the same line
written for simpy gives; the speed-up by fast-forward on two hours of the first stream; and how far simulated means lie
from those of the exact solver, in half-widths of their intervals.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any, ClassVar

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.tandem import Tandem
from spillway.benches.tandem_in_simpy import Net as NetInSimpy
from spillway.benches.tandem_in_simpy import Operators as OperatorsInSimpy
from spillway.benches.tandem_in_simpy import SimpyLine, simpy_module
from spillway.model.stream_net import StreamNet
from spillway.records.bench import BenchRecords
from spillway.san import Exponential, Measure, Net, Precision, Simulation, simulate, solve

LINE = Tandem()
RIVALS = ("simpy_net", "simpy_operators")
_FULL, _SKIPPING = "every_event", "fast_forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Bench):
    """Subjects are the line, the streams, and the line's two versions in simpy."""

    NAME: ClassVar[str] = "model"
    MEANING: ClassVar[str] = "how fast nets are simulated, beside simpy, and whether the simulator is right"

    streams: Mapping[str, Callable[[], StreamNet]]
    seconds: float = option(400.0, "model time of a measured run, in seconds")
    repetitions: int = option(5, "measured runs of each")
    hours: float = option(2.0, "model time of the run with fast-forward and of the one without, in hours")
    simpy_cpu_s: float = option(5.0, "processor time of a run in simpy, about, in seconds")
    replications: int = option(20_000, "simulated runs beside the exact solution")
    seed: int = option(1, "of everything random", least=0)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        simpy = simpy_module()
        tell("Compiling the event loop, if it is not yet.")
        _run_line(1.0, seed=self.seed)
        tell("Simulating every event of a line.")
        for turn in range(self.repetitions):
            _note(notes, "line", _run_line(self.seconds, seed=self.seed + turn), turn=turn)
        tell("The same line in simpy.")
        kinds: tuple[Callable[..., SimpyLine], ...] = (NetInSimpy, OperatorsInSimpy)
        for name, kind in zip(RIVALS, kinds, strict=True):
            _note(notes, name, _run_in_simpy(partial(kind, simpy, LINE, self.seed), self.simpy_cpu_s))
        tell("Simulating every event of streams.")
        for name, made in self.streams.items():
            for turn in range(self.repetitions):
                _note(notes, name, _run_stream(made(), self.seconds / 2, seed=self.seed + turn), turn=turn)
        tell("A long run with fast-forward and without.")
        first = next(iter(self.streams.values()))
        for name, skip in ((_FULL, False), (_SKIPPING, True)):
            # Two replications of half the time.
            long = _run_stream(first(), self.hours * 3600 / 2, seed=self.seed, skip=skip)
            notes.add(name, "cpu_s", long.cpu_s)
        tell("Simulated against exact.")
        for name, off in _off_exact(seed=self.seed, replications=self.replications).items():
            notes.add(name, "half_widths_off_exact", off)
        return {"simpy": version("simpy"), "operators": LINE.operators, "streams": list(self.streams)}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        def figure(subject: str, measure: str) -> float:
            return median(records.values(subject, measure))

        systems = {"spillway": "line", **{name: name for name in RIVALS}}
        model_s = {name: figure(subject, "model_s_per_cpu_s") for name, subject in systems.items()}
        return {
            "operators": records.about["operators"],
            "hours": records.settings["hours"],
            "events_per_s": {name: figure(name, "events_per_s") for name in ("line", *records.about["streams"])},
            "events_per_s_of_every_run": records.values("line", "events_per_s"),
            "model_s_per_cpu_s": model_s,
            "ratio": {
                "over_simpy": model_s["spillway"] / model_s["simpy_net"],
                "over_simpy_operators": model_s["spillway"] / model_s["simpy_operators"],
                "fast_forward": figure(_FULL, "cpu_s") / figure(_SKIPPING, "cpu_s"),
            },
            "stored_per_s": {name: figure(subject, "stored_per_model_s") for name, subject in systems.items()},
            "half_widths_off_exact": {
                name: figure(name, "half_widths_off_exact") for name in records.subjects("half_widths_off_exact")
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One measured run; simpy does not count events."""

    cpu_s: float
    model_s: float
    events: int | None
    stored: float


def _note(notes: Notes, subject: str, run: _Run, *, turn: int = 0) -> None:
    notes.add(subject, "cpu_s", run.cpu_s, turn=turn)
    notes.add(subject, "model_s_per_cpu_s", run.model_s / run.cpu_s, turn=turn)
    notes.add(subject, "stored_per_model_s", run.stored / run.model_s, turn=turn)
    if run.events is not None:
        notes.add(subject, "events_per_s", run.events / run.cpu_s, turn=turn)


def _run_line(model_s: float, *, seed: int) -> _Run:
    net = LINE.net()
    return _run(net, LINE.measures(net, model_s), model_s, "stored", seed=seed, skip=False)


def _run_stream(stream: StreamNet, model_s: float, *, seed: int, skip: bool = False) -> _Run:
    return _run(stream.net, stream.measures(horizon_s=model_s), model_s, "output", seed=seed, skip=skip)


def _run(net: Net, measures: Sequence[Measure], model_s: float, stored: str, *, seed: int, skip: bool) -> _Run:
    """Two replications of a net in this process; processor time, because cores may be shared."""
    started_s = time.process_time()
    result = _simulated(net, measures, seed=seed, replications=2, fast_forward=skip)
    cpu_s = time.process_time() - started_s
    return _Run(cpu_s=cpu_s, model_s=2 * model_s, events=result.events, stored=2 * result[stored].mean)


def _simulated(
    net: Net, measures: Sequence[Measure], *, seed: int, replications: int, fast_forward: bool
) -> Simulation:
    precision = Precision(replications_min=replications, replications_max=replications)
    return simulate(net, measures, seed=seed, precision=precision, fast_forward=fast_forward)


def _off_exact(*, seed: int, replications: int) -> dict[str, float]:
    """A short line at human pace, small enough to be solved: how far off the simulated means are, in half-widths."""
    line = Tandem(operators=2, arrivals=Exponential(0.9), cost_s=1.0, kept=0.8, room=2, crash_rate=0.05, down_s=4.0)
    net = line.net()
    measures = line.measures(net, 60.0)
    exact = solve(net, measures)
    result = _simulated(net, measures, seed=seed, replications=replications, fast_forward=False)
    return {name: abs(result[name].mean - value) / result[name].half_width for name, value in exact.items()}


def _run_in_simpy(made: Callable[[], SimpyLine], wanted_cpu_s: float) -> _Run:
    """A run long enough to be timed: half of the time that is wanted, at least."""
    model_s = min(10.0, wanted_cpu_s)
    while True:
        started_s = time.process_time()
        stored = made().stored_until(model_s)
        cpu_s = time.process_time() - started_s
        if cpu_s >= wanted_cpu_s / 2:
            return _Run(cpu_s=cpu_s, model_s=model_s, events=None, stored=stored)
        model_s *= max(2.0, min(50.0, 0.9 * wanted_cpu_s / max(cpu_s, 1e-3)))
