"""One job of a graph that runs on Spark, as the one who looks after all of them sees it."""

from dataclasses import dataclass, field
from pathlib import Path

from spillway.engine.supervising import Supervision
from spillway.graph.graph import Graph
from spillway.records.progress import ShardProgress
from spillway.records.rewound import Rewound
from spillway.spark.job import SparkJob
from spillway.spark.running import Run

_ROWS_MAX = 100_000


@dataclass(slots=True, kw_only=True)
class Looked:
    """One job, as the one who looks after it sees it."""

    name: str
    graph: Graph
    job: SparkJob
    supervision: Supervision
    run: Run | None = None  # None before it was started, and while it is to be started again
    committed: int = -1  # as far as its logs were told
    done: bool = False
    again_at_s: float = 0.0
    placed: bool = False  # whether it is where it is to go on from, if it is a replica
    past: list[ShardProgress] = field(default_factory=list)  # of runs that failed
    rewinds: list[Rewound] = field(default_factory=list)  # of these, too
    states: set[Path] = field(default_factory=set)

    def all_records(self) -> list[ShardProgress]:
        """What its shards did in every batch, in this run of it and those that failed."""
        return [*self.past, *(self.run.records() if self.run is not None else ())][-_ROWS_MAX:]

    def all_rewinds(self) -> list[Rewound]:
        """Each time it was sent back, in this run of it and those that failed."""
        return [*self.rewinds, *(self.run.rewinds() if self.run is not None else ())][-_ROWS_MAX:]

    def keep_past(self) -> None:
        """Have what a run that is over has done among what the job has done."""
        self.past, self.rewinds = self.all_records(), self.all_rewinds()

    @property
    def starts(self) -> bool:
        """Whether it is just being started."""
        return self.run is not None and not self.done and self.run.active and not self.job.started()
