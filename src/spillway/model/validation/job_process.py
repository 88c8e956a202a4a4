"""One job of a graph in a process of its own, which is killed from outside.

It is asked for its turn again and again until its leader is gone. What it has committed it says in shared memory, so
that whoever follows it, after a kill at any moment, knows where to go on: what was done and not said is done again, as
after any failure. It is said before what was read is acknowledged, as Spark commits a batch first: what is acknowledged
is gone, and a follower that had to read it again could not.
"""

import signal
import time
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from spillway.engine.job_logs import LogStep
from spillway.errors import SpillwayError
from spillway.graph.graph import Graph
from spillway.local.jobs import LocalJobs

_IDLE_S = 0.004  # between two looks whether there is something to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a process is to run."""

    graph: Graph
    job: str
    state: Path
    backups: str
    interval_s: float
    """Between the arrivals of two batches, if the job reads what arrives; the others take what is there."""
    paced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Numbers in memory that a process shares with its leader, and with whoever follows it."""

    began_s: Any  # when the first tuple begins to arrive, by the clock that only goes forward; 0 before that is known
    opened: Any  # how often a process of the job was ready to begin
    committed: Any  # its last batch


def work(order: Order, shared: Shared, trouble: Connection) -> None:
    """Run a job from the batch behind the one that is committed; an error of its own is told and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leader hears of it, and ends this one
    try:
        _work(order, shared)
    except SpillwayError as error:
        trouble.send(str(error))


def _work(order: Order, shared: Shared) -> None:
    leader = parent_process()
    assert leader is not None, "it is started by another"
    resume = {order.job: shared.committed.value + 1}

    def note(step: LogStep, stream: str, batch: int) -> None:
        if step is LogStep.READ:
            shared.committed.value = batch

    with LocalJobs(
        order.graph,
        state=order.state,
        backups=order.backups,
        batches=resume,
        only=[order.job],
        observe_logs=note,
    ) as jobs:
        shared.opened.value += 1
        while leader.is_alive():
            run = jobs.job(order.job)
            arrives_s = shared.began_s.value + (run.batch + 1) * order.interval_s
            if not shared.began_s.value:
                time.sleep(_IDLE_S)
            elif order.paced and (rest_s := arrives_s - time.monotonic()) > 0:
                time.sleep(min(rest_s, order.interval_s))
            elif jobs.turn(order.job):
                shared.committed.value = run.batch - 1  # of one that reads no log
            else:
                time.sleep(_IDLE_S)
