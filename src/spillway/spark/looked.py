"""One job of a graph that runs on Spark, as the one who looks after all of them sees it."""

from dataclasses import dataclass, field
from pathlib import Path

from spillway.engine.supervising import Supervision
from spillway.graph.graph import Graph
from spillway.records.progress import ShardProgress
from spillway.records.rewound import Rewound
from spillway.spark.job import SparkJob
from spillway.spark.running import Run


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
    past: list[ShardProgress] = field(default_factory=list)  # of runs that failed
    rewinds: list[Rewound] = field(default_factory=list)  # of these, too
    states: set[Path] = field(default_factory=set)
