"""A job of a stream process on a node of its own, killed with its memory: once, small, and for real."""

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from spillway.papers.ecoc.failures import Trial, run_trial
from spillway.papers.ecoc.nodes import Nodes
from spillway.papers.ecoc.processes import kill_session, used_by

linux = pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are known by /proc")


@linux
def test_all_of_a_session_is_counted_and_killed_whatever_its_process_group() -> None:
    script = "import os, sys, time; os.fork() or os.setpgid(0, 0); print(flush=True); sum(range(10**6)); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()  # of both
    alone = used_by(os.getsid(0))
    used = used_by(process.pid)
    assert used is not None
    assert used.memory_bytes > 1 << 20
    assert alone is not None
    assert alone.cpu_s > 0
    kill_session(process.pid)
    process.wait()
    process.stdout.read()  # which ends when nobody holds the pipe any more
    process.stdout.close()
    assert used_by(process.pid) is None


def test_a_trial_says_when_it_kills_from_its_seed_alone() -> None:
    def trial(repetition: int) -> Trial:
        return Trial(
            process="SP2", setting="extended", interval=500, repetition=repetition, per_batch=100, pace_s=1.0, seed=4
        )

    assert trial(0).killed_at() == trial(0).killed_at()
    assert len({trial(repetition).killed_at() for repetition in range(8)}) > 1
    for repetition in range(8):
        batch, part = trial(repetition).killed_at()
        assert 5 < batch < trial(repetition).elements.batches - 5
        assert 0 <= part < 1


@linux
@pytest.mark.kill
@pytest.mark.spark
def test_a_killed_job_in_a_cycle_is_taken_over_by_another_node_and_nothing_is_lost(spark: Any) -> None:
    trial = Trial(process="SP3", setting="extended", interval=80, repetition=0, per_batch=40, pace_s=0.3, seed=1)
    began_s = time.time()
    with Nodes() as nodes:
        found = run_trial(trial, nodes, spark)
    assert found.output.lossless, found.output.witnesses
    assert found.output.ordered_in_stream
    assert found.output.ideal_tuples == 2 * trial.elements.count
    assert -1 <= found.to <= found.committed < trial.elements.batches - 1
    assert 0 < found.recovery.seconds < time.time() - began_s
    assert found.recovery.cpu is not None
    assert found.recovery.cpu > 0
