"""The five workloads of seed 002 (table 3), at the size of one machine, each with the paper's figures beside it.

Our streams are a hundredth to a thousandth of the paper's, so what the paper measures against the size of a stream is
measured against the size of ours: theta of heavy hitters is one hundredth of phi, as there, and L a hundred-thousandth
of the packets (there: a millionth); theta of the join is one thousandth of the sampled tuples, as there. The paper's
smaller setting is a tenth of the larger, and so is ours.
"""

from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from spillway.apps import APPS
from spillway.apps.app import App, Value
from spillway.graph.feeds import Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Approximate, Exact, Nothing, Protection, UpstreamBackup
from spillway.graph.sinks import Sink

MODES = ("none", "minibatch", "upstream", "approximate")
MINIBATCHES = 800  # in the paper's streams; upstream backup saves state every 1 % of a stream, so every 8 of them
SHARDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """What seed 002 reports: throughput by mode (tables 4 and 5), in its unit."""

    unit: str
    none: float
    minibatch: float
    upstream: float
    approximate: float

    @property
    def approximate_over_none(self) -> float:
        return self.approximate / self.none


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An application with its input and its thresholds."""

    app: App
    theta: float  # of the larger setting
    tuples_per_batch: int
    paper: Paper
    stateful: bool = True
    options: dict[str, Value] = field(default_factory=dict)
    generator_options: dict[str, Value] = field(default_factory=dict)

    def generator(self, *, seed: int, batches: int, tuples_per_batch: int | None = None) -> Generator:
        """Input of so many batches."""
        each = tuples_per_batch or self.tuples_per_batch
        return self.app.generator(
            seed=seed, tuples=each * batches, tuples_per_batch=each, pieces_per_batch=2, **self.generator_options
        )

    def graph(self, data: object, protect: Protection, *, sink: Sink | None = None, **options: Value) -> Graph:
        return self.app.build(data, protect=protect, shards=SHARDS, sink=sink, **{**self.options, **options})

    def protection(self, mode: str) -> Protection:
        """The protection that stands for a mode of the paper's tables."""
        every = max(MINIBATCHES // 100 * self.tuples_per_batch // SHARDS, 1)
        protections: dict[str, Protection] = {
            "none": Nothing(),
            "minibatch": Exact(items=True),
            "upstream": UpstreamBackup(every=every),
            "approximate": Approximate(theta=self.theta),
        }
        return protections[mode]

    def published(self) -> dict[str, Any]:
        """The paper's throughput by mode, and what approximate fault tolerance costs by it."""
        return {**asdict(self.paper), "approximate_over_none": self.paper.approximate_over_none}


WORKLOADS = MappingProxyType(
    {
        "grep": Workload(
            app=APPS["grep"],
            theta=0.0,
            stateful=False,
            tuples_per_batch=300_000,
            paper=Paper(unit="MB/s", none=3550, minibatch=358.16, upstream=379.61, approximate=3480),
        ),
        "wordcount": Workload(
            app=APPS["wordcount"],
            theta=10_000,
            tuples_per_batch=100_000,
            paper=Paper(unit="MB/s", none=1920, minibatch=380.49, upstream=373.89, approximate=1880),
        ),
        "hitters": Workload(
            app=APPS["hitters"],
            theta=12_500,
            tuples_per_batch=300_000,
            options={"phi": 1_250_000, "window": 2_000_000},
            paper=Paper(unit="GB/s", none=12.33, minibatch=0.91, upstream=0.89, approximate=11.77),
        ),
        "join": Workload(
            app=APPS["join"],
            theta=200,
            tuples_per_batch=300_000,
            paper=Paper(unit="GB/s", none=6.96, minibatch=0.89, upstream=0.87, approximate=6.59),
        ),
        "lr": Workload(
            app=APPS["lr"],
            theta=10,
            tuples_per_batch=30_000,
            paper=Paper(unit="tuples/s", none=62_699, minibatch=14_770, upstream=12_827, approximate=62_292),
        ),
    }
)
"""The workloads by the name of their application."""
