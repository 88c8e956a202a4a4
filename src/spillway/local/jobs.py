"""A graph with jobs in one process: each job a run of its own, batch by batch in turn."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from spillway.backup.keeper import Observer, ignore
from spillway.clock import Clock, ManualClock, SystemClock
from spillway.engine.author import Author
from spillway.engine.coordinating import Coordination, check_coordination, needed_for_job
from spillway.engine.job_logs import JobLogs, LogObserver, unobserved
from spillway.engine.letting_go import LettingGo
from spillway.engine.log_files import LogPlace
from spillway.engine.outlets import Outlets
from spillway.engine.replicas import Replica
from spillway.engine.restarting import Home, begin
from spillway.engine.rewinding import job_protection
from spillway.engine.seat import Seat
from spillway.engine.stream_log import BYTES_MAX
from spillway.errors import GraphError, RunError
from spillway.graph.graph import Graph
from spillway.local.run import LocalRun
from spillway.operators.operator import Operator
from spillway.records.checkpointed import Checkpointed
from spillway.records.failed_over import FailedOver
from spillway.records.let_go import LetGo
from spillway.records.progress import ShardProgress
from spillway.records.rejoined import Rejoined
from spillway.records.summary import OperatorSummaries, ShownRun, summarise
from spillway.seeds import generator
from spillway.state.folders import claim, make_temporary

LOGS = "logs"
_IDLE_MAX = 200  # steps in which nothing happens before jobs are taken for stuck, where a replica could take over


class LocalJobs(ShownRun):
    """The jobs of a graph being run in this process, as ``LocalRun`` runs a graph.

    Jobs take turns: one batch each, if what it reads is there and its logs have room, in the order in which they read
    from each other; with a ``seed``, in another order every time. What leaves is the same. ``state`` and ``backups``
    have a folder for each job. ``log_bytes_max`` is what a stream log may hold before the job that writes it waits.
    With ``only`` it is these jobs alone, and others are run by other processes, given the same ``state`` and
    ``backups``: then a job is asked for its ``turn`` again and again, and silence is measured in real time.

    Jobs that are protected as a whole (``Coordinated``, ``Uncoordinated``) go back by themselves when memory is lost.
    For replicas of a group, every step takes a tenth of the time after which one that is silent is taken for dead.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        state: Path | None = None,
        backups: str | None = None,
        batches: Mapping[str, int] | None = None,
        clock: Clock | None = None,
        observe: Observer = ignore,
        observe_logs: LogObserver = unobserved,
        seed: int | None = None,
        log_bytes_max: int = BYTES_MAX,
        only: Sequence[str] | None = None,
    ) -> None:
        self.name = graph.name
        self._graphs = _chosen(graph, only)
        check_coordination(graph)
        self._temporary = state is None
        self.state = make_temporary("local-", graph=graph.name) if state is None else state
        if state is not None and only is None:
            claim(state, graph=graph.name)  # otherwise each job claims its own folder
        self._backups = backups
        self._clock = clock
        self._observe = observe
        self._observe_logs = observe_logs
        self._random = None if seed is None else generator(seed, "local jobs")
        self._bytes_max = log_bytes_max
        self._place = LogPlace(root=self.state / LOGS, run=f"local {graph.name}")
        self._outlets: dict[str, Outlets] = {}
        self._past: list[ShardProgress] = []  # of runs that were started again
        self._runs: dict[str, LocalRun] = {}
        self._logs: dict[str, JobLogs] = {}
        self._coordination: dict[str, Coordination] = {}  # of jobs that are protected as a whole
        self._replicas: dict[str, Replica] = {}  # of jobs that are one of a group
        self._letting_go: dict[str, LettingGo] = {}
        self._down: set[str] = set()
        self._waiting: dict[str, int] = {}  # replicas that wait for a peer to start from, and the batch they come to
        self._rejoined: list[Rejoined] = []
        self._looks = ManualClock()
        self._looks_by: Clock = self._looks if only is None else SystemClock()
        groups = [graph.member.group for graph in self._graphs.values() if graph.member is not None]
        self._look_s = min((group.detection.total_seconds() / 10 for group in groups), default=0.0)
        self._idle = 0  # steps in which nothing happened
        self._checkpoints: list[Checkpointed] = []  # of runs that were started again
        for job in self._graphs:
            self._start(job, (batches or {}).get(job, 0))

    def __enter__(self) -> "LocalJobs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs, those first that others read from."""
        return tuple(self._graphs)

    def job(self, name: str) -> LocalRun:
        """One of them."""
        if name not in self._runs:
            raise GraphError(f"Graph {self.name!r} has jobs {', '.join(self._runs)}; there is no {name!r}.")
        return self._runs[name]

    def logs(self, name: str) -> JobLogs:
        """What a job reads and writes."""
        return self._logs[name]

    def run(self) -> None:
        """All batches that are left."""
        while self.step():
            pass

    def step(self) -> bool:
        """A turn of every job; false if all are done. A job that raises has its batch before it again."""
        moved = [self.turn(job) for job in self._turns()]
        heard = [self._hear(job) for job in self._runs]
        self._looks.advance(self._look_s)
        self._idle = 0 if any(moved) or any(heard) else self._idle + 1
        if not self._idle:
            return True
        if all(self._done(job) or job in self._down for job in self._runs):
            return False
        if self._replicas and self._idle < _IDLE_MAX:
            return True  # another may take over in a while
        waiting = [f"{stream} of job {job!r}" for job, logs in self._logs.items() for stream in logs.full()]
        assert waiting, f"graph {self.name!r}: each job waits for what another has not put out"
        raise RunError(
            f"Graph {self.name!r}: no job can go on, because stream logs are full: {', '.join(waiting)}. Allow them "
            f"more with log_bytes_max=."
        )

    def turn(self, job: str) -> bool:
        """One batch of one job, if it can; whether it could."""
        if job in self._waiting:
            self._rejoin(job, self._waiting[job])
        if job in self._down or job in self._waiting:
            return False
        run, logs = self._runs[job], self._logs[job]
        if self._letting_go[job].look():
            return True
        if job in self._replicas:
            self._replicas[job].look(committed=run.batch - 1, working=True)
            if self._replicas[job].let_go:  # while it was away, and it has just come back
                self.restart(job)
                return False
        if run.look_at_logs():
            return True
        if self._done(job):
            return logs.end(run.batch)  # which may be gone with memory
        if not logs.ready(run.batch) or self._must_wait(job):
            return False
        before = len(run.rewinds())
        run.step()
        if len(run.rewinds()) == before:  # otherwise it went back
            logs.committed(run.batch - 1)
        if self._done(job):
            logs.end(run.batch)
        return True

    def restart(self, job: str) -> None:
        """Start a job again as another process would, after its own has died: with what it had committed.

        A replica goes on with what its group declares, and waits for that if need be.
        """
        run = self._runs[job]
        self._past += run.records()
        if job in self._coordination:
            self._checkpoints += self._coordination[job].log
        self._logs[job].close()
        run.close()
        if job in self._replicas:
            self._rejoin(job, run.batch)
        else:
            self._start(job, run.batch)

    def stop(self, job: str) -> None:
        """Have a replica of a group take no more turns, as if its process had died, until it is started again."""
        if job not in self._replicas:
            raise GraphError(f"Job {job!r} is none of a group: without it nothing would go on.")
        self._down.add(job)
        self._logs[job].close()

    def failovers(self) -> list[FailedOver]:
        """Each time that a replica of a group became active."""
        found = [one for replica in self._replicas.values() for one in replica.log]
        return sorted(found, key=lambda one: (one.job, one.epoch))

    def let_go(self) -> list[LetGo]:
        """Each replica that those it reads from have let go, because it stayed away."""
        return sorted((one for each in self._letting_go.values() for one in each.log), key=lambda one: one.time_s)

    def rejoined(self) -> list[Rejoined]:
        """Each time that a replica was started with the memory of another, or with none."""
        return list(self._rejoined)

    def wipe(self, job: str) -> None:
        """Lose all memory of a job: its shards, and the stream logs that it writes."""
        self.job(job).wipe()
        for writer in self._logs[job].writers.values():
            writer.wipe()

    def records(self) -> list[ShardProgress]:
        """What every shard did in every batch so far."""
        return [*self._past, *(row for run in self._runs.values() for row in run.records())]

    def checkpoints(self) -> list[Checkpointed]:
        """The checkpoints of jobs that are protected as a whole, each as it came to count."""
        return [*self._checkpoints, *(one for each in self._coordination.values() for one in each.log)]

    def progress(self) -> OperatorSummaries:
        """Backups, divergence, failures, per operator."""
        return summarise(self.records())

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        return self._run_of(sink).result(sink)

    def shard(self, operator: str, index: int) -> Operator:
        """The operator at work on one shard, to look at its state between batches."""
        return self._run_of(operator).shard(operator, index)

    def close(self) -> None:
        """Let go of all memory, and remove it if its folder is a temporary one."""
        for job, run in self._runs.items():
            self._logs[job].close()
            run.close()
        if self._temporary:
            shutil.rmtree(self.state, ignore_errors=True)

    def _start(self, job: str, batch: int) -> None:
        graph = self._graphs[job]
        checked = graph.checked()
        protection = job_protection(checked)
        logs = self._logs[job] = JobLogs(
            checked,
            place=self._place,
            bytes_max=self._bytes_max,
            goes_back=protection is not None,
            observe=self._observe_logs,
        )
        if protection is not None:
            self._coordination[job] = Coordination(
                checked,
                job=job,
                protection=protection,
                logs=logs,
                backups=needed_for_job(job, protection, self._backups),
                clock=self._clock or SystemClock(),
                observe=self._observe_logs,
            )
        logs.open()
        before = self._letting_go.get(job)
        letting_go = self._letting_go[job] = LettingGo(job, logs, place=self._place, clock=self._looks_by)
        letting_go.log = [] if before is None else before.log
        self._outlets.setdefault(job, Outlets(checked, logs, author=Author(self._backups, graph.name)))
        self._runs[job] = LocalRun(
            graph,
            state=self.state / job,
            backups=self._backups,
            batch=batch,
            clock=self._clock,
            observe=self._observe,
            logs=logs,
            outlets=self._outlets[job],
            coordination=self._coordination.get(job),
        )
        self._down.discard(job)
        if graph.member is not None:
            forerunner = self._replicas.get(job)
            replica = Replica(graph.member, logs, place=self._place, clock=self._looks_by)
            replica.log += forerunner.log if forerunner is not None else ()
            self._replicas[job] = replica
        if batch > 0:
            logs.committed(batch - 1)  # which may not have been told before it died
        if self._done(job):
            logs.end(self._runs[job].batch)

    def _rejoin(self, job: str, batch: int) -> None:
        """Start a replica with what it is to go on with; it waits if that is not there yet."""
        member = self._replicas[job].member
        peers = {
            name: self._home(name, self._runs[name].batch - 1)
            for name in member.group.names(member.job)
            if name != job and name in self._runs and name not in self._waiting
        }
        self._waiting[job] = batch
        hopeful = any(name not in self._down and not self._done(name) for name in peers)
        seat, own = Seat(self._place, member.job), self._home(job, batch - 1)
        begun = begin(member, own, peers, seat=seat, hopeful=hopeful, clock=self._looks_by)
        if begun.waits:
            return
        self._rejoined += [begun.rejoined] if begun.rejoined is not None else []
        del self._waiting[job]
        self._start(job, begun.behind + 1)

    def _home(self, job: str, committed: int) -> Home:
        return Home(
            name=job,
            graph=self._graphs[job].checked(),
            state=self.state / job,
            backups=self._backups,
            logs=self._logs[job],
            committed=lambda: committed,
        )

    def _hear(self, job: str) -> bool:
        """Let a job hear what the others say; whether that was anything."""
        return self._runs[job].hear(held_up=self._must_wait(job))

    def _must_wait(self, job: str) -> bool:
        """Whether a job has to wait for those that read from it."""
        coordination = self._coordination.get(job)
        waits = coordination is not None and coordination.must_wait(self._runs[job].batch)
        return waits or bool(self._logs[job].full())

    def _done(self, job: str) -> bool:
        ended = self._logs[job].ended()
        run = self._runs[job]
        return ended is not None and run.batch >= max(ended, run.batches)

    def _turns(self) -> Iterable[str]:
        jobs = list(self._runs)
        if self._random is not None:
            self._random.shuffle(jobs)
        return jobs

    def _run_of(self, node: str) -> LocalRun:
        for job, graph in self._graphs.items():
            if node in graph.nodes:
                return self._runs[job]
        raise GraphError(f"Graph {self.name!r} has no {node!r}.")


def _chosen(graph: Graph, only: Sequence[str] | None) -> dict[str, Graph]:
    """The graphs of these jobs, or of all."""
    graphs = graph.divided()
    for job in only or ():
        if job not in graphs:
            raise GraphError(f"Graph {graph.name!r} has jobs {', '.join(graphs)}; there is no {job!r}.")
    return graphs if only is None else {job: graphs[job] for job in only}
