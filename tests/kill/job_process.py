"""One job of a graph with a group, in a process of its own on the local runtime: python -m tests.kill.job_process …

It can be killed like a driver, at any moment, and costs a Python and no Java. What counts is a number in a file, as
Spark has it in its checkpoint.
"""

import sys
import time
from datetime import timedelta
from pathlib import Path

import spillway as sw
from spillway.clock import SystemClock
from spillway.engine.job_logs import JobLogs
from spillway.engine.letting_go import LettingGo
from spillway.engine.log_files import LogPlace
from spillway.engine.outlets import Outlets
from spillway.engine.replicas import Replica
from spillway.engine.restarting import Home, begin
from spillway.engine.seat import Seat
from spillway.files.durable import write_whole
from spillway.graph.graph import Graph
from spillway.soak.replica_graph import SCHEMA, Tuples

SOURCE, JOB, SINK = "reading", "match", "out"
TUPLES = 50
PACE_S = 0.08  # between two batches of what arrives
BYTES_MAX = 1 << 15  # of a log: some batches
DETECTION = timedelta(seconds=0.5)
WAYS: dict[str, sw.Group] = {
    "peer": sw.Group(detection=DETECTION, restart="peer"),
    "replicate": sw.Replicate(detection=DETECTION, restart="peer"),
}


def drawn(out: Path, *, group: sw.Group | None, batches: int) -> Graph:
    """A count that keeps no backups, fed by another job; as one job without a group."""
    graph = sw.Graph("killed", protect=group if isinstance(group, sw.Replicate) else None)
    source = graph.source("in", sw.Generator(make=Tuples(TUPLES), schema=SCHEMA, pieces=batches))
    counts = graph.add(sw.operators.Count("counts", key="k", protect=sw.Nothing()), source)
    graph.sink(SINK, counts, sw.Parquet(str(out / SINK)))
    if group is not None:
        graph.job(SOURCE, ["in"])
        graph.job(JOB, ["counts"], protect=None if isinstance(group, sw.Replicate) else group)
    return graph


class Process:
    """The job at work."""

    def __init__(self, folder: Path, way: str, job: str) -> None:
        self._folder = folder
        self._job = job
        self._graphs = drawn(folder / "out", group=WAYS[way], batches=1_000_000).divided()
        self._place = LogPlace(root=folder / "logs", run="kills")
        self._clock = SystemClock()

    def run(self) -> None:
        while True:
            self._run()  # again, if it was let go just when it came back

    def _run(self) -> None:
        part, own = self._graphs[self._job], self._home(self._job)
        member, logs, checked = part.member, own.logs, part.checked()
        behind = own.committed() if member is None else self._behind(own)
        if behind > own.committed():
            self._commit(behind)
        logs.open()
        letting_go = LettingGo(self._job, logs, place=self._place, clock=self._clock)
        replica = None if member is None else Replica(member, logs, place=self._place, clock=self._clock)
        with sw.LocalRun(
            part, state=own.state, batch=behind + 1, logs=logs, outlets=Outlets(checked, logs)
        ) as run:  # fmt: skip
            if behind >= 0:
                logs.committed(behind)
            while True:
                letting_go.look()
                if replica is not None:
                    replica.look(committed=run.batch - 1, working=True)
                    if replica.let_go:
                        return
                if not logs.ready(run.batch) or logs.full():
                    time.sleep(0.02)
                    continue
                run.step()
                self._commit(run.batch - 1)
                logs.committed(run.batch - 1)
                if self._job == SOURCE:
                    time.sleep(PACE_S)

    def _behind(self, own: Home) -> int:
        """The batch that a replica goes on behind; waits for it."""
        member = self._graphs[self._job].member
        assert member is not None
        peers = {name: self._home(name) for name in member.group.names(JOB) if name != self._job}
        seat = Seat(self._place, JOB)
        while (begun := begin(member, own, peers, seat=seat, hopeful=True, clock=self._clock)).waits:
            time.sleep(0.01)
        if begun.rejoined is not None:
            with (self._folder / f"{self._job}.told").open("a") as told:
                told.write(f"{begun.rejoined.told()}\n")
        return begun.behind

    def _home(self, job: str) -> Home:
        graph = self._graphs[job].checked()
        return Home(
            name=job,
            graph=graph,
            state=self._folder / "state" / job,
            backups=None,
            logs=JobLogs(graph, place=self._place, bytes_max=BYTES_MAX),
            committed=lambda: committed(self._folder, job),
        )

    def _commit(self, batch: int) -> None:
        write_whole(self._folder / f"{self._job}.committed", str(batch).encode())


def committed(folder: Path, job: str) -> int:
    """The last batch of a job that counts; -1 if none does."""
    try:
        return int((folder / f"{job}.committed").read_text())
    except FileNotFoundError:
        return -1


if __name__ == "__main__":
    Process(Path(sys.argv[1]), sys.argv[2], sys.argv[3]).run()
