"""The processes of a graph's jobs, killed at random as the model says, and watched: who is heard at which instant.

A process is *at work* from the first batch that it commits after it was started. Of a job that is one process, that
one is heard; of one that runs twice, either; of a group, the replica that readers follow. Crashes come as the model has
them: exponential, independent for each process, none while it is down. A killed one loses the memory of its shards. Its
stream logs stay: they are what System S has in its transport, of which the model says that it does not fail.
"""

import multiprocessing
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Self

import numpy as np

from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace
from spillway.engine.log_mail import LogMail
from spillway.engine.seat import Seat
from spillway.errors import RunError
from spillway.files.folders import LocalFolder
from spillway.graph.graph import Graph
from spillway.local.jobs import LOGS
from spillway.model.validation.job_process import Order, Shared, work
from spillway.model.validation.ways import READING, WRITING
from spillway.seeds import generator
from spillway.state.folders import make_temporary, wipe

_LOOK_S = 0.01
_START_S_MAX = 120.0
_CATCH_UP_S_MAX = 60.0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a graph is run, how long, and how often its processes are killed."""

    interval_s: float  # a batch
    settle_s: float  # before the first kill: windows fill
    horizon_s: float  # in which is killed and measured
    crash_rate: float  # of each process, per second
    recovery_s: float  # from a kill until it is started again
    seed: int

    def of_run(self, *names: str | int) -> "Terms":
        """The same with crashes of its own."""
        return replace(self, seed=int(generator(self.seed, "run", *names).integers(2**31)))

    @property
    def first_batch(self) -> int:
        """That is measured."""
        return round(self.settle_s / self.interval_s)

    @property
    def batches(self) -> int:
        """Up to the last that is measured."""
        return self.first_batch + round(self.horizon_s / self.interval_s)


@dataclass(slots=True, kw_only=True)
class Lived:
    """What was seen."""

    heard: list[tuple[float, bool]] = field(default_factory=list)
    """Seconds since the first tuple arrived, and whether every job was heard then."""
    recoveries_s: list[float] = field(default_factory=list)  # from a kill until the process was at work again
    failovers_s: list[float] = field(default_factory=list)  # from the kill of a job's heard process until it was heard
    kills: int = 0
    ordered: list[tuple[float, str]] = field(default_factory=list)  # of those, when and in which job, as was asked for
    dropped: int = 0  # tuples that readers did not get, because they were down or somebody took over


@dataclass(slots=True, kw_only=True)
class _Worker:
    """One process of a job, and its successors."""

    member: str
    job: str
    shared: Shared
    process: BaseProcess | None = None
    trouble: Connection | None = None
    started_at: int = -1  # what was committed when it was started
    killed_s: float | None = None  # if it is not at work since
    crashes_s: float = np.inf  # when it is to be killed

    @property
    def at_work(self) -> bool:
        return self.process is not None and self.shared.committed.value > self.started_at


class World:
    """A graph that was cut into jobs, all of them running; for the length of a ``with``."""

    def __init__(self, graph: Graph, terms: Terms, *, kills: Iterable[tuple[float, str]] = ()) -> None:
        """Beside those at random, there are ``kills``: at a second, the process of a job that readers hear."""
        self._graph = graph
        self._terms = terms
        self._kills = deque(sorted(kills))
        self._context = multiprocessing.get_context("forkserver")
        # Whoever is forked has loaded what it needs; the one that forks has no threads, which a fork would break.
        self._context.set_forkserver_preload(["spillway.model.validation.nursery"])
        self._parts = graph.divided()
        self._groups = {job.name: job.group for job in graph.jobs}

    def __enter__(self) -> Self:
        self._folder = make_temporary("validate-", graph=self._graph.name)
        self._place = LogPlace(root=self._folder / LOGS, run=f"local {self._graph.name}")
        number = self._context.RawValue
        self._began_s = number("d", 0.0)
        self._workers: dict[str, _Worker] = {}
        for member, part in self._parts.items():
            job = member if part.member is None else part.member.job
            shared = Shared(began_s=self._began_s, opened=number("q", 0), committed=number("q", -1))
            self._workers[member] = _Worker(member=member, job=job, shared=shared)
        self._seats = {job: Seat(self._place, job) for job, group in self._groups.items() if group is not None}
        return self

    def __exit__(self, *raised: object) -> None:
        for worker in self._workers.values():
            if worker.process is not None:
                worker.process.kill()
                worker.process.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def live(self, tell: Tell) -> Lived:
        """Run, kill, and watch; then let all catch up."""
        terms, lived = self._terms, Lived()
        workers = self._workers.values()
        for worker in workers:
            self._start(worker)
        self._until(lambda: all(worker.shared.opened.value for worker in workers), _START_S_MAX, "started")
        # Not before all are there: what had arrived until then would be a backlog that no model knows of.
        began_s = self._began_s.value = time.monotonic()
        random = {name: generator(terms.seed, "crashes", name) for name in self._workers}
        first_s, last_s = terms.settle_s, terms.settle_s + terms.horizon_s
        unheard: dict[str, float] = {}  # jobs, and since when
        told_s = 0.0
        while (now_s := time.monotonic() - began_s) < last_s:
            self._check()
            self._order_kills(now_s, lived)
            for worker in self._workers.values():
                self._attend(worker, now_s, lived, random[worker.member], unheard, first_s=first_s)
            silent = {job for job in self._groups if not self._heard(job)}
            for job in list(unheard.keys() - silent):
                lived.failovers_s.append(now_s - unheard.pop(job))
            if now_s >= first_s:
                lived.heard.append((now_s, not silent))
            if now_s - told_s >= 10.0:
                told_s = now_s
                tell(f"{now_s:.0f} of {last_s:.0f} s, {lived.kills} kills")
            time.sleep(_LOOK_S)
        self._catch_up()
        lived.dropped = self._dropped()
        return lived

    def _order_kills(self, now_s: float, lived: Lived) -> None:
        """Have the next process killed whose time has come; if none of its job is at work, as soon as one is."""
        if not self._kills or now_s < self._kills[0][0]:
            return
        job = self._kills[0][1]
        active = None if self._groups[job] is None else self._seats[job].newest().replica
        for worker in self._workers.values():
            if worker.job == job and worker.at_work and active in (None, worker.member):
                self._kills.popleft()
                worker.crashes_s = now_s
                lived.ordered.append((now_s, job))
                return

    def _attend(
        self,
        worker: _Worker,
        now_s: float,
        lived: Lived,
        random: np.random.Generator,
        unheard: dict[str, float],
        *,
        first_s: float,
    ) -> None:
        """Kill a process if it is time, start a killed one again, and note when it is at work."""
        if worker.job in (READING, WRITING):
            return
        if worker.process is None:
            assert worker.killed_s is not None
            if now_s >= worker.killed_s + self._terms.recovery_s:
                self._start(worker)
            return
        if worker.at_work and worker.killed_s is not None:
            lived.recoveries_s.append(now_s - worker.killed_s)
            worker.killed_s, worker.crashes_s = None, np.inf
        if worker.at_work and now_s >= first_s and worker.crashes_s == np.inf and self._terms.crash_rate > 0:
            worker.crashes_s = now_s + random.exponential(1 / self._terms.crash_rate)
        if worker.at_work and now_s >= worker.crashes_s:
            was_heard = self._heard(worker.job)
            self._kill(worker, now_s)
            lived.kills += 1
            if was_heard and not self._heard(worker.job):
                unheard[worker.job] = now_s

    def _start(self, worker: _Worker) -> None:
        worker.started_at = worker.shared.committed.value
        worker.trouble, told = self._context.Pipe(duplex=False)
        order = Order(
            graph=self._graph,
            job=worker.member,
            state=self._folder,
            backups=str(self._folder / "backups"),
            interval_s=self._terms.interval_s,
            paced=worker.job == READING,
        )
        process = self._context.Process(target=work, args=(order, worker.shared, told), daemon=True)
        process.start()
        told.close()
        worker.process = process

    def _kill(self, worker: _Worker, now_s: float) -> None:
        assert worker.process is not None
        worker.process.kill()
        worker.process.join()
        worker.process, worker.killed_s, worker.crashes_s = None, now_s, np.inf
        wipe(self._folder / worker.member)

    def _heard(self, job: str) -> bool:
        """Whether what a job puts out is there for those who read it."""
        members = [worker for worker in self._workers.values() if worker.job == job]
        group = self._groups[job]
        if group is None or group.either:
            return any(worker.at_work for worker in members)
        active = self._seats[job].newest().replica
        return any(worker.at_work for worker in members if worker.member == active)

    def _check(self) -> None:
        """Refuse to go on without a process that nobody has killed."""
        for worker in self._workers.values():
            if worker.process is not None and not worker.process.is_alive():
                assert worker.trouble is not None
                said = worker.trouble.recv() if worker.trouble.poll() else "It said nothing."
                raise RunError(f"Job {worker.member!r} of graph {self._graph.name!r} ended by itself. {said}")

    def _catch_up(self) -> None:
        """Let all that was measured be written down."""
        for worker in self._workers.values():
            if worker.process is None:
                self._start(worker)
        writing = self._workers[WRITING]
        self._until(lambda: writing.shared.committed.value >= self._terms.batches - 1, _CATCH_UP_S_MAX, "written down")

    def _until(self, what: Callable[[], bool], seconds_max: float, wanted: str) -> None:
        until_s = time.monotonic() + seconds_max
        while not what():
            self._check()
            if time.monotonic() > until_s:
                raise RunError(f"Graph {self._graph.name!r}: jobs were not {wanted} in {seconds_max:.0f} s.")
            time.sleep(_LOOK_S)

    def _dropped(self) -> int:
        """What readers did not get: each stream once, however many replicas read it."""
        most: dict[tuple[str, str], int] = {}
        for worker in self._workers.values():
            logs = JobLogs(self._parts[worker.member].checked(), place=self._place)
            for view in logs.views.values():
                mails = [LogMail(LocalFolder(self._place.root / log)) for log in view.input.logs]
                notes = [one for mail in mails for one in mail.dropped(view.input.reader)]
                key = view.input.stream, worker.job
                most[key] = max(most.get(key, 0), sum(one.tuples for one in notes))
        return sum(most.values())
