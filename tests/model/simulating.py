"""Simulations of stream nets, as tests want them: so many runs, whatever comes out."""

from spillway.model import Faults, Flow, StreamNet, Technique, build
from spillway.model.kinds import aggregate, functor, sink, source
from spillway.san.intervals import Precision
from spillway.san.replications import Simulation, simulate


def runs(count: int) -> Precision:
    return Precision(relative=1.0, replications_min=count, replications_max=count)


def simulated(stream: StreamNet, *, horizon_s: float, count: int = 2, seed: int = 1) -> Simulation:
    return simulate(stream.net, stream.measures(horizon_s=horizon_s), seed=seed, precision=runs(count))


def found(
    flow: Flow,
    technique: Technique,
    faults: Faults,
    *,
    horizon_s: float,
    count: int = 2,
    seed: int = 1,
    skip: bool = True,
) -> Simulation:
    return simulated(build(flow, technique, faults, fast_forward=skip), horizon_s=horizon_s, count=count, seed=seed)


def chain(*, rate: float = 100.0, selectivity: float = 1.0, state_tuples: int = 200) -> Flow:
    """Source, filter, aggregate, sink."""
    return Flow(
        name="chain",
        operators=(
            source("source", cost_s=1e-6),
            functor("filter", cost_s=1e-6, selectivity=selectivity),
            aggregate("aggregate", cost_s=1e-6, state_tuples=state_tuples),
            sink("sink", cost_s=1e-6),
        ),
        streams=(
            ("source", "out", "filter", "in"),
            ("filter", "out", "aggregate", "in"),
            ("aggregate", "out", "sink", "in"),
        ),
        rates={"source": rate},
    )
