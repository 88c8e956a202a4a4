"""One job of a stream process is killed, its memory is gone, and another node takes over (seed 003, 5.4 and 5.5).

Theory. All jobs but one run on a Spark here, the failing one on a node of its own, a process. When it has done some
batches, at a moment drawn at random, the node is killed with all its processes, and the job's shards and the logs it
writes are removed: a host that is gone takes its memory with it. Another node, whose Spark is running as the seed's
providers are, is told to go on. Then

    recovery    from being told until the first batch behind the checkpoint counts: a new instance of the operator is
                there with its state. What Spark and Python load for their first query is part of it; starting the
                process is not, and is said beside it (``start_s``)
    catch-up    from there until it has read all that its producer had written by then

Sensors begin a batch every ``pace_s`` (Spark's own trigger), as samples come from a device at their rate; others in
their Spark do too, while the failing job works as fast as it can. CPU is that of all processes of the node as a share
of all cores, memory what they hold together, shared pages divided, as a mean over the phase.

Whatever came out is compared with what the process puts out as one graph, undisturbed, in one process, by what
``spillway verify`` uses. A tuple comes when its batch is in the sink, and should when its first sample was due.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.errors import RunError
from spillway.graph.feeds import SEQ
from spillway.graph.sinks import Memory
from spillway.graph.stream_logs import LogOutput
from spillway.local.run import LocalRun
from spillway.papers.ecoc.cutting import Elements, sensors_of, whole
from spillway.papers.ecoc.evaluation import PROCESSES, Process, Setting
from spillway.papers.ecoc.node import Assignment
from spillway.papers.ecoc.nodes import Event, Node, Nodes
from spillway.papers.ecoc.watching import Phase, Watch
from spillway.records.reproduction import Row
from spillway.score.reliability import Reliability
from spillway.score.reliability_tables import compare
from spillway.seeds import generator
from spillway.spark.job_places import JobPlaces
from spillway.spark.start import run_jobs
from spillway.state.folders import make_temporary

SECONDS_MAX = 300.0
"""For anything that is waited for."""

_SAMPLE_S = 0.25
_ARRIVED = "arrived_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One kill."""

    process: str
    setting: Setting
    interval: int
    repetition: int
    per_batch: int  # elements of each sensor
    pace_s: float
    seed: int

    @property
    def lead(self) -> int:
        """Batches before the first that may be the last: an interval, so that there is a checkpoint, and some."""
        return self._interval + 3

    @property
    def elements(self) -> Elements:
        """As many as it takes to be killed within an interval, and to catch up."""
        return Elements(
            count=(self.lead + 2 * self._interval + 6) * self.per_batch, per_batch=self.per_batch, seed=self.seed
        )

    @property
    def _interval(self) -> int:
        return max(1, round(self.interval / self.per_batch))

    def killed_at(self) -> tuple[int, float]:
        """After which batch the node is killed, and how much of the time to the next has passed then."""
        random = generator(self.seed, "kill", self.process, self.setting, self.interval, self.repetition)
        return self.lead + int(random.integers(self._interval)), float(random.random())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a kill cost, and what came out in spite of it."""

    trial: Trial
    committed: int  # the last batch before the kill
    to: int  # that the job went back to
    start_s: float  # until the node that took over was ready, before it was needed
    recovery: Phase
    catch_up: Phase
    output: Reliability

    def as_row(self) -> Row:
        phases = {
            f"{name}_{key}": value
            for name, phase in (("recovery", self.recovery), ("catch_up", self.catch_up))
            for key, value in asdict(phase).items()
        }
        return {
            **asdict(self.trial),
            "committed": self.committed,
            "went_back_to": self.to,
            "start_s": self.start_s,
            **phases,
            "ideal_tuples": self.output.ideal_tuples,
            "real_tuples": self.output.real_tuples,
            "lost_tuples": self.output.lost_tuples,
            "wrong_tuples": self.output.wrong_tuples,
            "lole": self.output.lossless,
            "iaso": self.output.ordered_in_stream,
            "delay_max_s": self.output.delay_max_s,
        }


def run_trial(trial: Trial, nodes: Nodes, spark: Any) -> Recovered:
    """Run a stream process, kill one of its jobs, let another node take over, and compare what comes out."""
    process = PROCESSES[trial.process]
    with _folders(trial) as (folder, state):
        given = Assignment(
            process=trial.process,
            setting=trial.setting,
            interval=trial.interval,
            elements=trial.elements,
            folder=str(folder),
            state=str(state),
        )
        working, waiting = nodes.both()
        began_s = time.time()
        with run_jobs(
            given.graph(),
            spark,
            backups=given.backups,
            state=state,
            checkpoint=given.checkpoint,
            trigger={"processingTime": f"{round(trial.pace_s * 1000)} milliseconds"},
            only=[job for job in process.operators if job != process.failing],
        ) as others:
            working.run(given)
            batch, part = trial.killed_at()
            reached = _until(working, lambda event: event.get("batch", -1) >= batch)
            if reached["batch"] >= reached["produced"]:  # one that is behind would be done before the next sample is
                time.sleep(part * trial.pace_s)
            nodes.kill_first()
            committed = given.committed(process.failing)
            _wipe(given)
            to, recovery, catch_up = _take_over(given, waiting, committed=committed)
            if not others.wait(SECONDS_MAX):
                raise RunError(f"{trial.process}, {trial.setting}: the other jobs did not end in {SECONDS_MAX:g} s.")
        output = _judged(process, trial, given.output, began_s=began_s)
    return Recovered(
        trial=trial,
        committed=committed,
        to=to,
        start_s=waiting.start_s,
        recovery=recovery,
        catch_up=catch_up,
        output=output,
    )


@contextmanager
def _folders(trial: Trial) -> Iterator[tuple[Path, Path]]:
    """A folder on disk and one in memory."""
    state = make_temporary("ecoc-", graph=trial.process)
    try:
        with tempfile.TemporaryDirectory(prefix="spillway-ecoc-", ignore_cleanup_errors=True) as folder:
            yield Path(folder), state
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _wipe(given: Assignment) -> None:
    """Have the memory of the failing job gone: its shards, and the logs that it wrote."""
    graph = given.graph()
    places = JobPlaces(graph.name, checkpoint=str(given.checkpoint), state=Path(given.state))
    shards = places.state(given.failing)
    assert shards is not None
    exits = graph.divided()[given.failing].checked().exits.values()
    logs = [places.logs.root / exit.sink.stream for exit in exits if isinstance(exit.sink, LogOutput)]
    for gone in (shards, *logs):
        shutil.rmtree(gone)


def _take_over(given: Assignment, node: Node, *, committed: int) -> tuple[int, Phase, Phase]:
    """Let a node go on with the job; which batch it went back to, and how it came from there to where others are.

    A job that was killed right behind a checkpoint goes on from there, and need not go back.
    """
    with Watch(node.used) as watch:
        told_s = time.time()
        node.run(given)
        recovered = _until(node, lambda event: event["event"] in ("went_back", "batch"))
        to = committed
        if recovered["event"] == "went_back":
            to = recovered["to"]
            recovered = _until(node, lambda event: event["event"] == "batch")
        caught_up = recovered
        if recovered["batch"] < recovered["produced"]:
            caught_up = _until(node, lambda event: event["event"] == "batch" and event["batch"] >= event["produced"])
        watch.wait_until(caught_up["time_s"])
    recovery = watch.phase(told_s, recovered["time_s"])
    catch_up = watch.phase(recovered["time_s"], caught_up["time_s"])
    _until(node, lambda event: event["event"] == "ended")
    return to, recovery, catch_up


def _until(node: Node, happened: Callable[[Event], bool]) -> Event:
    """The first thing a node tells that is waited for."""
    until_s = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until_s:
        event = node.soon(seconds_max=_SAMPLE_S)
        if event is not None and happened(event):
            return event
        if event is not None and event["event"] == "ended":
            raise RunError("A node had nothing left to do before it was killed. Run it again.")
    raise RunError(f"A node did not come as far as it should in {SECONDS_MAX:g} s. Is the machine too busy?")


def _judged(process: Process, trial: Trial, output: Path, *, began_s: float) -> Reliability:
    """What came out beside what should have."""
    with LocalRun(whole(process, trial.elements, Memory())) as run:
        run.run()
        ideal = run.result("out")
    sensors = len(sensors_of(process))
    due_s = began_s + trial.pace_s * (np.asarray(ideal[SEQ]) // (sensors * trial.per_batch))
    ideal = ideal.append_column(_ARRIVED, pa.array(due_s))
    return compare(ideal, pa.concat_tables(_arrived(output, ideal.schema)), seq=SEQ, time=_ARRIVED)


def _arrived(output: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    """The output by batch, with the time at which each was there."""
    yield schema.empty_table()
    for folder in output.iterdir():
        if folder.name.startswith("batch="):
            arrived_s = folder.stat().st_mtime
            for file in sorted(folder.glob("*.parquet")):
                tuples = pq.ParquetFile(file).read()
                arrived = pa.array(np.full(tuples.num_rows, arrived_s))
                yield tuples.append_column(_ARRIVED, arrived).select(schema.names).cast(schema)
