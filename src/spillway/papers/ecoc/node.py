"""A node: a process with a Spark of its own that runs one job of a stream process when it is told to.

    python -m spillway.papers.ecoc.node

It is a process because it is killed, and it begins before it is needed because the seed's nodes do (5.3): a provider
waits with its software loaded until an operator is migrated to it. Every line is a JSON object, both ways. What it is
told is an ``Assignment``. What it tells:

    ready       Spark is there
    went_back   the job was sent back, to a batch
    batch       a batch counts, and how many of its producers' do
    ended       the job has read all there will ever be, or why it stopped
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spillway.errors import SpillwayError
from spillway.graph.graph import Graph
from spillway.graph.sinks import Parquet
from spillway.papers.ecoc.cutting import Elements, cut
from spillway.papers.ecoc.evaluation import PROCESSES, Process, Setting
from spillway.spark.offsets import numbers_in
from spillway.spark.settings import session
from spillway.spark.start import run_jobs

_LOOK_S = 0.01
# A node lives for a minute or two: what is loaded in advance, or compiled well, would not pay.
SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": "spillway.spark.quick_daemon",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A stream process in its folders, all jobs of which are run somewhere."""

    process: str
    setting: Setting
    interval: int
    elements: Elements
    folder: str
    state: str

    @property
    def declared(self) -> Process:
        return PROCESSES[self.process]

    @property
    def failing(self) -> str:
        return self.declared.failing

    @property
    def output(self) -> Path:
        return Path(self.folder) / "output"

    @property
    def backups(self) -> Path:
        return Path(self.folder) / "backups"

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder) / "checkpoint"

    def graph(self) -> Graph:
        sink = Parquet(str(self.output))
        return cut(self.declared, self.elements, sink, setting=self.setting, interval=self.interval)

    def committed(self, job: str) -> int:
        """The last batch of a job that counts; -1 if none does."""
        return max(numbers_in(self.checkpoint / job / "commits"), default=-1)

    def producers(self) -> list[str]:
        """The jobs that the failing one reads from, as far as they come before it."""
        graph = self.graph()
        jobs = {node: job.name for job in graph.jobs for node in job.nodes}
        return [jobs[edge.stream.node] for edge in graph.edges if edge.node == self.failing and not edge.feedback]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Assignment":
        return cls(**{**told, "elements": Elements(**told["elements"])})


def main() -> None:
    """Do what standard input says until it ends."""
    spark = session(**SETTINGS)
    _tell("ready")
    for line in sys.stdin:
        _run(Assignment.from_json(json.loads(line)), spark)


def _run(given: Assignment, spark: Any) -> None:
    job, producers = given.failing, given.producers()
    told, rewinds = given.committed(job), 0
    try:
        with run_jobs(
            given.graph(),
            spark,
            backups=given.backups,
            state=given.state,
            checkpoint=given.checkpoint,
            only=job,
        ) as run:
            ended = False
            while not ended:
                ended = run.wait(_LOOK_S)
                gone_back = run.rewinds()[job]
                if len(gone_back) > rewinds:
                    rewinds, told = len(gone_back), gone_back[-1].to
                    _tell("went_back", to=told, committed=gone_back[-1].committed)
                committed = given.committed(job)
                if committed > told:
                    told = committed
                    _tell("batch", batch=told, produced=min(given.committed(name) for name in producers))
        _tell("ended", error="")
    except SpillwayError as error:
        _tell("ended", error=str(error))


def _tell(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, "time_s": time.time(), **more}), flush=True)


if __name__ == "__main__":
    main()
