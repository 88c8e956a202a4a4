"""The jobs of a graph running on Spark, each a streaming query, and who looks after them.

A thread of its own looks at every job some dozens of times a second. It starts them, one after the other: each has
Python processes to load, and Spark gives each ten seconds to call back, which is little on a busy machine. It tells the
logs what was committed, ends a job that has read all there will ever be, says so to those that read from it, and starts
one that failed again, after a while (see ``engine.supervising``). When it gives one up it stops the others, and what
stopped that one is raised by ``wait``.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spillway.backup.keeper import Observer
from spillway.engine.coordinating import check_coordination
from spillway.engine.job_logs import LogObserver, unobserved
from spillway.engine.supervising import RestartRule, Supervision
from spillway.errors import GraphError, SpillwayError
from spillway.graph.graph import Graph
from spillway.operators.operator import Operator
from spillway.records.checkpointed import Checkpointed
from spillway.records.events import Event, Kind
from spillway.records.failed_over import FailedOver
from spillway.records.let_go import LetGo
from spillway.records.progress import ShardProgress
from spillway.records.rejoined import Rejoined
from spillway.records.restarted import Restarted
from spillway.records.rewound import Rewound
from spillway.records.summary import OperatorSummaries, ShownRun, summarise
from spillway.spark.happenings import Happenings
from spillway.spark.job import spark_job
from spillway.spark.job_places import JobPlaces
from spillway.spark.looked import Looked
from spillway.spark.neighbours import Neighbours
from spillway.spark.raised import as_ours
from spillway.spark.rejoining import Rejoining
from spillway.spark.running import Run
from spillway.spark.watched import NotWatched
from spillway.tls import TLS

_LOOK_S = 0.03


class JobsRun(ShownRun):
    """A running graph that was cut into jobs.

    Has what a ``Run`` has where it makes sense for all jobs together; ``job(name)`` is the run of one of them, another
    one after it was started again.
    """

    def __init__(
        self,
        graph: Graph,
        spark: SparkSession,
        *,
        backups: str | None,
        state: Path | None,
        checkpoint: str | None,
        trigger: Mapping[str, Any] | None,
        directory: Path | None,
        observe: Observer,
        log_bytes_max: int,
        restart: RestartRule,
        rebalance: bool = False,
        tls: TLS | None = None,
        only: str | Sequence[str] | None = None,
        observe_logs: LogObserver = unobserved,
        page: NotWatched | None = None,
    ) -> None:
        graphs = graph.divided()
        asked = list(graphs) if only is None else [only] if isinstance(only, str) else list(only)
        for name in asked:
            if name not in graphs:
                raise GraphError(f"Graph {graph.name!r} has jobs {', '.join(graphs)}; there is no {name!r}.")
        wanted = [name for name in graphs if name in asked]
        check_coordination(graph)
        checked = graph.checked()
        feeds = all(source.feed is not None for source in checked.sources.values())
        self._bounded = feeds if trigger is None else bool(trigger.get("availableNow") or trigger.get("once"))
        self.name, self._graph, self._page = graph.name, graph, page or NotWatched()
        self.page = self._page.address
        """Where to open the page of all jobs, with the token, if they were started with ``watch=``; or empty."""
        self._spark, self._tls = spark, tls
        self._backups, self._trigger, self._rebalance = backups, trigger, rebalance
        self._directory, self._observe = directory, observe
        self._places = JobPlaces(graph.name, checkpoint=checkpoint, state=state)
        self._stopping, self._over = threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._jobs: dict[str, Looked] = {}
        self._happened = Happenings(self._jobs, directory=directory)
        self._thread: threading.Thread | None = None
        context: Any = spark.sparkContext
        one_machine = bool(context._jsc.sc().isLocal())
        for name in wanted:
            self._places.check_free(name)
        try:
            note = self._happened.has_rejoined
            self._rejoining = Rejoining(graphs, self._places, backups=backups, one_machine=one_machine, note=note)
            neighbours = {job.name: Neighbours([one for one in job.members if one in wanted]) for job in graph.jobs}
            for name, part in ((name, graphs[name]) for name in wanted):
                job = spark_job(
                    name,
                    part.checked(),
                    member=part.member,
                    neighbours=None if part.member is None else neighbours[part.member.job],
                    place=self._places.logs,
                    checkpoint=self._places.checkpoint(name),
                    bounded=self._bounded,
                    one_machine=one_machine,
                    bytes_max=log_bytes_max,
                    backups=backups,
                    observe=observe_logs,
                )
                self._jobs[name] = Looked(name=name, graph=part, job=job, supervision=Supervision(restart))
            for one in self._jobs.values():  # before any is started: what is read goes on, whatever it said before
                one.job.open()
            first = next(iter(self._jobs.values()))
            if self._rejoining.begun(first) and self._has_begun(first):
                self._start(first)
        except BaseException:
            self.stop()
            raise
        self._thread = InheritableThread(target=self._look_after, daemon=True)
        self._thread.start()

    def __enter__(self) -> "JobsRun":
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs, those first that others read from."""
        return tuple(self._jobs)

    @property
    def active(self) -> bool:
        return not self._over.is_set()

    def job(self, name: str) -> Run | None:
        """The run of a job; None while it waits to be started again."""
        return self._job(name).run

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all jobs have ended, at most so long; true if they have. Raises what one was given up for."""
        if not self._over.wait(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self) -> None:
        """Stop all jobs after the batch each has at hand; what is committed stays.

        Memory and checkpoints of a run that was given neither ``checkpoint`` nor ``state`` are removed.
        """
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._stop_all()
        self._over.set()
        if self._places.temporary:
            for one in self._jobs.values():
                if one.run is not None:
                    one.run.leave_hosts()
        self._places.leave([state for one in self._jobs.values() for state in one.states])
        self._page.close()

    def records(self, job: str | None = None) -> list[ShardProgress]:
        """What every shard did in every batch so far, of one job or of all (the last 100,000 of each)."""
        jobs = self._jobs.values() if job is None else [self._job(job)]
        return [row for one in jobs for row in one.all_records()]

    def progress(self, job: str | None = None) -> OperatorSummaries:
        """Backups, divergence, failures, per operator, of one job or of all; replicas of a group are added up."""
        return summarise(self.records(job))

    def restarts(self) -> list[Restarted]:
        """Each time a job failed and was started again (the last 100,000)."""
        return list(self._happened.restarts)

    def rewinds(self) -> dict[str, list[Rewound]]:
        """Each time a job that is protected as a whole was sent back, by job (the last 100,000)."""
        return {name: one.all_rewinds() for name, one in self._jobs.items()}

    def checkpoints(self) -> list[Checkpointed]:
        """The checkpoints of jobs that are protected as a whole, each as it came to count (the last 10,000 of each)."""
        found = [one.job.coordination for one in self._jobs.values() if one.job.coordination is not None]
        return [each for coordination in found for each in coordination.log]

    def failovers(self) -> list[FailedOver]:
        """Each time that a replica of a group became active, the first one too (the last 10,000 of each)."""
        return self._happened.failovers()

    def let_go(self) -> list[LetGo]:
        """Each replica that jobs run here have let go, because it stayed away (the last 10,000 of each)."""
        return self._happened.let_go()

    def rejoined(self) -> list[Rejoined]:
        """Each time that a replica was started with the memory of another, or with none (the last 10,000)."""
        return list(self._happened.rejoined)

    def events(self) -> list[Event]:
        """What happened to jobs and replicas, oldest first: failovers, replicas let go and back, jobs started again."""
        return self._happened.events()

    def troubles(self) -> list[str]:
        """What went wrong and was mended, or cost nothing."""
        told = [one.told for one in self.events() if one.kind is not Kind.ACTIVE] + self._rejoining.troubles
        for one in self._jobs.values():
            told += one.job.logs.troubles
            told += one.run.troubles() if one.run is not None else ()
        return told

    def waiting(self) -> dict[str, list[str]]:
        """The jobs that wait because a log is full, and the streams it is of."""
        full = {name: one.job.logs.full() for name, one in self._jobs.items() if not one.done}
        return {name: streams for name, streams in full.items() if streams}

    def wanting(self) -> dict[str, dict[str, str]]:
        """The jobs that wait for what others have not put out yet: the streams it is of, and who writes each."""
        wanting = {
            name: one.job.logs.wanting(self._places.committed(name), in_step=one.job.in_step)
            for name, one in self._jobs.items()
            if not one.done
        }
        return {name: streams for name, streams in wanting.items() if streams}

    def committed(self) -> dict[str, int]:
        """The last batch of each job that counts, in this run or one that it resumed; -1 if there is none."""
        return {name: self._places.committed(name) for name in self._jobs}

    def dropped(self) -> dict[str, int]:
        """Of streams whose tuples are dropped while their reader is down: how many it has not got."""
        return {stream: count for one in self._jobs.values() for stream, count in one.job.logs.dropped().items()}

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        return self._of_node(sink).job.outlets.result(sink)

    def shard(self, operator: str, index: int) -> Operator:
        """The operator at work on one shard, to look at its state once its job has ended."""
        one = self._of_node(operator)
        if one.run is None:
            raise GraphError(f"Job {one.name!r} is about to be started again: look when it is over.")
        return one.run.shard(operator, index)

    def _job(self, name: str) -> Looked:
        if name not in self._jobs:
            raise GraphError(f"Graph {self._graph.name!r} runs jobs {', '.join(self._jobs)} here; not {name!r}.")
        return self._jobs[name]

    def _of_node(self, node: str) -> Looked:
        for one in self._jobs.values():
            if node in one.graph.nodes:
                return one
        raise GraphError(f"Graph {self._graph.name!r} has no {node!r} in jobs {', '.join(self._jobs)}.")

    def _start(self, one: Looked) -> None:
        one.run = None
        if one.job.replica is not None:
            one.job.replica.begin_anew()
        one.job.open()
        one.run = Run(
            one.graph,
            self._spark,
            backups=self._backups,
            state=self._places.state(one.name),
            checkpoint=str(self._places.checkpoint(one.name)),
            trigger=self._trigger_of(one),
            directory=None if self._directory is None else self._directory / one.name,
            observe=self._observe,
            rebalance=self._rebalance,
            tls=self._tls,
            job=one.job,
        )
        one.states.add(one.run.state)

    def _trigger_of(self, one: Looked) -> Mapping[str, Any]:
        at_once = {"processingTime": "0 seconds"}
        if any(source.divided_anew for source in one.graph.checked().sources.values()):
            return self._trigger or at_once
        # Of what Spark does not divide into batches we know when all was read, and other jobs may have more.
        return at_once if self._bounded else self._trigger or at_once

    def _look_after(self) -> None:
        try:
            while not self._stopping.wait(_LOOK_S):
                for one in self._jobs.values():
                    self._look_at(one)
                self._happened.write()
                if all(one.done for one in self._jobs.values()):
                    break
        except Exception as error:
            self._error = error
            self._stop_all()
        finally:
            self._happened.close()
            self._over.set()

    def _look_at(self, one: Looked) -> None:
        try:
            working = one.done or (one.run is not None and one.run.active)
            one.job.attend(committed=one.committed, working=working, done=one.done)
            if one.done:
                one.job.committed(one.committed)  # others may still have something to say of its checkpoints
                if not self._must_go_back(one):
                    return
            if one.run is None:
                if time.monotonic() < one.again_at_s or any(other.starts for other in self._jobs.values()):
                    return
                if not (self._rejoining.begun(one) and self._has_begun(one)):
                    return
                self._start(one)
            assert one.run is not None
            self._tell_logs(one)
            if one.run.active:
                if one.job.coordination is not None:
                    one.run.interrupt(lambda: one.job.lost_log(self._places.committed(one.name)))
                if one.job.inputs is None or one.job.inputs.done() != one.committed + 1:
                    return
                one.run.query.stop()  # it has read all there will ever be, and all of it counts
            one.run.wait()
            self._tell_logs(one)
            self._end(one)
        except (PySparkException, Py4JError) as error:
            self._failed(one, as_ours(error, "Spark stopped the job"))
        except SpillwayError as error:
            self._failed(one, error)

    def _must_go_back(self, one: Looked) -> bool:
        """Whether a job that is done has lost what others have still to read; it is then to be started again."""
        lost = one.job.lost_log(one.committed)
        if lost is None:
            return False
        one.keep_past()
        one.done, one.run = False, None
        self._note_restart(one, lost, waited_s=0.0)
        return True

    def _has_begun(self, one: Looked) -> bool:
        """Whether a job has something to read; one that never will have is done."""
        if self._places.committed(one.name) >= 0 or one.job.has_begun():
            return True
        assert one.job.inputs is not None
        if one.job.inputs.done() == 0:
            self._end(one)
        return False

    def _tell_logs(self, one: Looked) -> None:
        """Tell a job's logs, and those it saves together with, what counts now, and let it hear what they say."""
        committed = self._places.committed(one.name)
        one.job.committed(committed)
        if committed > one.committed:
            one.job.forget(committed)
        one.committed = committed

    def _end(self, one: Looked) -> None:
        one.job.logs.end(one.committed + 1)
        one.job.logs.close()
        one.done = True

    def _failed(self, one: Looked, error: SpillwayError) -> None:
        """Have a job started again in a while, or raise what it is given up for."""
        one.job.logs.close()
        one.committed = self._places.committed(one.name)
        wait_s = one.supervision.failed(error, committed=one.committed)
        if one.run is not None:
            one.keep_past()
            with suppress(SpillwayError, PySparkException, Py4JError):  # what it failed for is known
                if one.run.active:  # it is not the query that failed
                    one.run.query.stop()
                one.run.wait(0)
        if wait_s is None or not one.states:  # which could not even be started once
            raise error
        one.run, one.placed, one.again_at_s = None, False, time.monotonic() + wait_s
        self._note_restart(one, error, waited_s=wait_s)

    def _note_restart(self, one: Looked, error: SpillwayError, *, waited_s: float) -> None:
        self._happened.restarted(
            Restarted(job=one.name, committed=one.committed, why=str(error), waited_s=waited_s, time_s=time.time())
        )

    def _stop_all(self) -> None:
        for one in reversed(list(self._jobs.values())):  # readers first: who writes to them may be waiting for room
            if one.run is not None:
                with suppress(PySparkException, Py4JError):  # with the JVM its queries are gone too
                    one.run.stop()
            one.job.logs.close()
