"""How good the answer still is after system failures (seed 002, section 4.2: figures 6, 7 and 8).

Each of the three workloads runs at the paper's two settings of theta and L, scaled as ``workloads`` says, through none
to ten failures of the whole system, and its answer is scored against the truth of the whole input. Failures are spread
evenly over the stream.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from spillway.apps import heavy_hitters, online_join, online_lr
from spillway.apps.packets import PACKET_BYTES_MAX
from spillway.graph.feeds import Feed
from spillway.graph.protections import Approximate
from spillway.graph.sinks import Memory
from spillway.papers.af.losses import Outcome, failing_batches, lossy, run_through
from spillway.papers.af.workloads import WORKLOADS, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pair of limits, and what the paper's figure reads for it after ten failures."""

    theta: float
    items: float  # L
    paper_theta: str
    paper_after_ten: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One workload of figures 6 to 8."""

    workload: Workload
    watched: str  # the operator whose state is lost
    measure: str  # the paper's name for the score
    better: str  # "higher" or "lower"
    paper_without: float  # the score without failures
    settings: tuple[Setting, ...]
    tuples_per_batch: int
    quick_batches: int
    batches: int
    item_divergence_max: float  # α: the most that one item can move the state, where losses of items are made up for
    score: Callable[[Outcome, Feed], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run: a point of a figure, with its losses beside their bounds."""

    workload: str
    theta: float
    items: float
    failures: int
    scores: dict[str, float]
    distance_max: float  # the most that one failure cost one shard
    distance_bound: float  # what was allowed then
    distance_sum: float  # over all failures and shards
    theta_bound: float  # what is allowed in all: theta + α L
    items_lost: int
    items_bound: float
    within_bounds: bool
    backups: int
    backup_chances: int
    recover_s: float

    def as_row(self) -> dict[str, Any]:
        row = asdict(self)
        scores = row.pop("scores")
        return {**row, **{f"score_{name}": value for name, value in scores.items()}}


def _score_hitters(outcome: Outcome, feed: Feed) -> dict[str, float]:
    options = WORKLOADS["hitters"].options
    exact = heavy_hitters.exact_bytes(feed, window=int(options["window"]))
    found = heavy_hitters.score(outcome.out, exact, phi=int(options["phi"]))
    return {"precision": found.precision, "recall": found.recall, "too_low_bytes": float(found.too_low_bytes_max)}


def _score_join(outcome: Outcome, feed: Feed) -> dict[str, float]:
    found = online_join.score(outcome.out, online_join.exact_pairs(feed))
    return {"relative_error": found.relative_error, "covered": float(found.covered)}


def _score_lr(outcome: Outcome, feed: Feed) -> dict[str, float]:
    found = online_lr.score(outcome.out)
    return {"prediction_rate": found.rate, "log_loss": found.log_loss}


STUDIES = {
    "hitters": Study(
        workload=WORKLOADS["hitters"],
        watched="local",
        measure="precision",
        better="higher",
        paper_without=0.989,
        settings=(
            Setting(theta=12_500, items=20, paper_theta="theta 1e5, L 1e3", paper_after_ten=0.928),
            Setting(theta=1_250, items=2, paper_theta="theta 1e4, L 100", paper_after_ten=0.955),
        ),
        tuples_per_batch=100_000,
        quick_batches=22,
        batches=22,
        item_divergence_max=PACKET_BYTES_MAX,
        score=_score_hitters,
    ),
    "join": Study(
        workload=WORKLOADS["join"],
        watched="join",
        measure="relative_error",
        better="lower",
        paper_without=0.091,
        settings=(
            Setting(theta=200, items=200, paper_theta="theta 1e5, L 1e3", paper_after_ten=0.113),
            Setting(theta=20, items=20, paper_theta="theta 1e4, L 100", paper_after_ten=0.106),
        ),
        tuples_per_batch=100_000,
        quick_batches=22,
        batches=44,
        item_divergence_max=0.0,
        score=_score_join,
    ),
    "lr": Study(
        workload=WORKLOADS["lr"],
        watched="local",
        measure="prediction_rate",
        better="higher",
        paper_without=0.943,
        settings=(
            Setting(theta=10, items=1_000, paper_theta="theta 10, L 1e3", paper_after_ten=0.904),
            Setting(theta=1, items=100, paper_theta="theta 1, L 100", paper_after_ten=0.929),
        ),
        tuples_per_batch=30_000,
        quick_batches=22,
        batches=44,
        item_divergence_max=0.0,
        score=_score_lr,
    ),
}


def points(name: str, *, failures: tuple[int, ...], seed: int, quick: bool) -> Iterator[Point]:
    """The points of one figure, setting by setting."""
    study = STUDIES[name]
    batches = study.quick_batches if quick else study.batches
    feed = study.workload.generator(seed=seed, batches=batches, tuples_per_batch=study.tuples_per_batch)
    truth = Remembered(feed)
    for setting in study.settings:
        for count in failures:
            yield _point(name, study, setting, truth, batches=batches, failures=count)


class Remembered:
    """A feed that makes each piece once: several runs read the same input."""

    def __init__(self, feed: Feed) -> None:
        self.schema = feed.schema
        self.pieces = feed.pieces
        self.pieces_per_batch = feed.pieces_per_batch
        self._made = [feed.read(piece) for piece in range(feed.pieces)]

    def read(self, piece: int) -> Any:
        return self._made[piece]


def _point(name: str, study: Study, setting: Setting, feed: Feed, *, batches: int, failures: int) -> Point:
    after = failing_batches(batches, failures)
    short = lossy(feed, after=after, items=setting.items)
    protect = Approximate(theta=setting.theta, items=setting.items)
    options: dict[str, Any] = {}
    if name == "lr":
        options["train"] = batches * study.tuples_per_batch // 2  # the other half is the test set, as in the paper
    graph = study.workload.graph(short, protect, sink=Memory(), **options)
    outcome = run_through(graph, after=after, watched=study.watched, feed=short, items=setting.items)
    worst = max(outcome.costs, key=lambda cost: cost.distance, default=None)
    rows = [row for row in outcome.progress if row.operator == study.watched]
    distance_sum = sum(cost.distance for cost in outcome.costs)
    bound = setting.theta + study.item_divergence_max * setting.items
    return Point(
        workload=name,
        theta=setting.theta,
        items=setting.items,
        failures=failures,
        scores=study.score(outcome, feed),
        distance_max=worst.distance if worst else 0.0,
        distance_bound=worst.bound if worst else 0.0,
        distance_sum=distance_sum,
        theta_bound=bound,
        items_lost=outcome.items_lost,
        items_bound=setting.items,
        within_bounds=outcome.within_bounds
        and distance_sum <= setting.theta + study.item_divergence_max * setting.items,
        backups=sum(row.backup for row in rows),
        backup_chances=len(rows),
        recover_s=outcome.recover_s,
    )
