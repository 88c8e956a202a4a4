"""``spillway bench model``: how fast nets are simulated, beside simpy, and whether the simulator is right.

Five figures in one run, all in processor time of one core. Completions per second on a line of operators
(``benches.tandem``), and on bargain discovery under each protection; the model time that gives on the line, over
what the same line written for simpy gives; the speed-up by fast-forward on two hours of bargain discovery; and how far
simulated means lie from those of the exact solver, in half-widths of their intervals.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spillway.benches import tandem_in_simpy
from spillway.benches.tandem import Tandem
from spillway.benches.tandem_in_simpy import SimpyLine
from spillway.cli.output import PEOPLE, PROGRESS, print_json, print_table, rate
from spillway.model import Faults, Technique, build
from spillway.papers.dissertation.bargain import CHECKPOINT, HIGH_AVAILABILITY, REPLICATION, bargain
from spillway.records.rundir import machine
from spillway.san import Exponential, Measure, Net, Precision, Simulation, simulate, solve

MEANING = "how fast nets are simulated, beside simpy, and whether the simulator is right"

TECHNIQUES: dict[str, Technique] = {
    "checkpoint": CHECKPOINT,
    "high_availability": HIGH_AVAILABILITY,
    "replication": REPLICATION,
}
TWO_HOURS_S = 7200.0
_SIMPY_CPU_S = 5.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=400, help="model time of a measured run (default: 400)")
    parser.add_argument("--repetitions", type=int, default=5, help="measured runs (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="of everything random (default: 1)")


def main(options: argparse.Namespace) -> int:
    simpy = tandem_in_simpy.simpy_module()
    line = Tandem()
    PROGRESS.print("Compiling the event loop, if it is not yet.")
    _run_line(line, 1.0, seed=options.seed)
    PROGRESS.print("Simulating every event of a line.")
    runs = [_run_line(line, options.seconds, seed=options.seed + i) for i in range(options.repetitions)]
    best = max(runs, key=lambda run: run.events_per_s)
    PROGRESS.print("The same line in simpy.")
    net_in_simpy = _run_in_simpy(lambda: tandem_in_simpy.Net(simpy, line, options.seed))
    operators_in_simpy = _run_in_simpy(lambda: tandem_in_simpy.Operators(simpy, line, options.seed))
    rivals = {"simpy, the same net": net_in_simpy, "simpy, a process per operator": operators_in_simpy}
    PROGRESS.print("Simulating every event of bargain discovery.")
    streams = {
        name: max(_run_stream(name, options.seconds / 2, seed=options.seed + i).events_per_s for i in range(2))
        for name in TECHNIQUES
    }
    PROGRESS.print("Two hours with fast-forward and without.")
    full = _run_stream("checkpoint", TWO_HOURS_S / 2, seed=options.seed)
    skipping = _run_stream("checkpoint", TWO_HOURS_S / 2, seed=options.seed, skip=True)
    PROGRESS.print("Simulated against exact.")
    off = _off_exact(seed=options.seed)
    result: dict[str, Any] = {
        "events_per_s": {"line": best.events_per_s, **streams},
        "events_per_s_of_every_run": [run.events_per_s for run in runs],
        "model_s_per_cpu_s": {
            "spillway": best.model_s_per_s,
            "simpy_net": net_in_simpy.model_s_per_s,
            "simpy_operators": operators_in_simpy.model_s_per_s,
        },
        "ratio": {
            "over_simpy": best.model_s_per_s / net_in_simpy.model_s_per_s,
            "over_simpy_operators": best.model_s_per_s / operators_in_simpy.model_s_per_s,
            "fast_forward": full.cpu_s / skipping.cpu_s,
        },
        "stored_per_s": {
            "spillway": best.stored_per_s,
            "simpy_net": net_in_simpy.stored_per_s,
            "simpy_operators": operators_in_simpy.stored_per_s,
        },
        "half_widths_off_exact": off,
        "machine": machine(),
    }
    if options.json:
        print_json(result)
        return 0
    print_table(
        f"A line of {line.operators} operators, one core",
        ["", "completions", "model seconds per second", "stored per model second"],
        [
            ["spillway", rate(best.events_per_s), f"{best.model_s_per_s:,.0f}", f"{best.stored_per_s:.1f}"],
            *([name, "", f"{run.model_s_per_s:,.1f}", f"{run.stored_per_s:.1f}"] for name, run in rivals.items()),
        ],
    )
    PEOPLE.print("bargain discovery: " + ", ".join(f"{name} {rate(figure)}" for name, figure in streams.items()))
    for name, run in rivals.items():
        PEOPLE.print(f"over {name}: {best.model_s_per_s / run.model_s_per_s:.0f}x")
    PEOPLE.print(f"fast-forward over every event, two hours: {result['ratio']['fast_forward']:.0f}x")
    told = ", ".join(f"{name} {value:.2f}" for name, value in off.items())
    PEOPLE.print(f"half-widths (95 %) between simulated and exact: {told}")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One measured run."""

    cpu_s: float
    model_s: float
    events: int
    stored: float

    @property
    def events_per_s(self) -> float:
        return self.events / self.cpu_s

    @property
    def model_s_per_s(self) -> float:
        return self.model_s / self.cpu_s

    @property
    def stored_per_s(self) -> float:
        return self.stored / self.model_s


def _run_line(line: Tandem, model_s: float, *, seed: int) -> _Run:
    net = line.net()
    return _run(net, line.measures(net, model_s), model_s, "stored", seed=seed, skip=False)


def _run_stream(name: str, model_s: float, *, seed: int, skip: bool = False) -> _Run:
    """Bargain discovery at 450 tuples a second, crashes every 90 minutes."""
    stream = build(bargain(tuples_per_s=450), TECHNIQUES[name], Faults(crash_rate=1.85e-4, recovery_s=3.5))
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


def _off_exact(*, seed: int) -> dict[str, float]:
    """A short line at human pace, small enough to be solved: how far off the simulated means are, in half-widths."""
    line = Tandem(operators=2, arrivals=Exponential(0.9), cost_s=1.0, kept=0.8, room=2, crash_rate=0.05, down_s=4.0)
    net = line.net()
    measures = line.measures(net, 60.0)
    exact = solve(net, measures)
    result = _simulated(net, measures, seed=seed, replications=20_000, fast_forward=False)
    return {name: abs(result[name].mean - value) / result[name].half_width for name, value in exact.items()}


def _run_in_simpy(made: Callable[[], SimpyLine]) -> _Run:
    """A run long enough to be timed."""
    model_s = 10.0
    while True:
        started_s = time.process_time()
        stored = made().stored_until(model_s)
        cpu_s = time.process_time() - started_s
        if cpu_s >= _SIMPY_CPU_S / 2:
            return _Run(cpu_s=cpu_s, model_s=model_s, events=0, stored=stored)
        model_s *= max(2.0, min(50.0, 0.9 * _SIMPY_CPU_S / max(cpu_s, 1e-3)))
