"""Spark's Python processes killed between runs of one session and under a run: every run gives its answer."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_runs import BATCHES, Places, build, counts_in, truth

import spillway as sw
from spillway.backup import Step
from spillway.errors import RunError
from spillway.spark import run
from spillway.spark.daemons import mend_daemons, retire_planners

pytestmark = [pytest.mark.kill, pytest.mark.spark]

WAIT_S = 240.0  # far longer than a run takes: one that is not done by then hangs


def children_of(pid: int) -> Iterator[int]:
    """The processes that one has started, and those these have, first to last."""
    for place in Path("/proc").iterdir():
        try:
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1]) if place.name.isdigit() else None
        except OSError:
            continue  # it has ended meanwhile
        if parent == pid:
            yield int(place.name)
            yield from children_of(int(place.name))


@pytest.fixture
def jvm(spark: Any) -> int:
    """The process of the session's own JVM."""
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def python_processes(jvm: int, *, named: bytes = b"daemon") -> list[int]:
    """Spark's daemons and workers: Python processes below this JVM, and no others."""
    found = []
    for pid in children_of(jvm):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(named) for word in words):
            found.append(pid)
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended because another did
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        while lives(pid):
            os.sched_yield()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def run_counts(spark: Any, **options: Any) -> None:
    with run(build(sw.Nothing()), spark, **options) as running:
        assert running.wait(WAIT_S), "it hangs"
        assert counts_in(running) == truth()


@pytest.mark.parametrize("spared", ["nothing", "daemons"])
def test_the_next_run_after_all_python_processes_died_is_like_any_other(spark: Any, jvm: int, spared: str) -> None:
    run_counts(spark)
    processes = python_processes(jvm)
    below = {pid: [*children_of(pid)] for pid in processes}
    workers = [pid for pid in processes if not below[pid]]
    assert 0 < len(workers) < len(processes)
    kill(processes if spared == "nothing" else workers)
    run_counts(spark)
    run_counts(spark)


def test_a_run_whose_python_processes_die_under_it_goes_on_and_so_do_the_next(spark: Any, jvm: int) -> None:
    killed: list[int] = []

    def strike(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == BATCHES // 2:
            killed.extend(python_processes(jvm))
            kill(killed)

    run_counts(spark, observe=strike)
    assert killed
    run_counts(spark)


def test_a_run_that_cannot_go_on_says_so_and_resumes(spark: Any, jvm: int, tmp_path: Path) -> None:
    def strike(step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN and batch == BATCHES // 2:
            kill(python_processes(jvm, named=b"python_streaming_source_runner"))

    places = Places(tmp_path).options()
    running = run(build(sw.Exact()), spark, observe=strike, **places)
    with pytest.raises(
        RunError, match=r"^Spark stopped the run: one of Spark's Python processes died.*same checkpoint="
    ):
        running.wait(WAIT_S)
    with run(build(sw.Exact()), spark, **places) as again:
        assert again.wait(WAIT_S)
        assert counts_in(again) == truth()


def test_processes_that_live_are_left_alone(spark: Any, jvm: int) -> None:
    run_counts(spark)
    before = python_processes(jvm)
    assert mend_daemons(spark) == 0
    assert python_processes(jvm) == before


def test_processes_that_plan_are_let_go_and_started_again(spark: Any, jvm: int) -> None:
    run_counts(spark)
    before = python_processes(jvm)
    assert retire_planners(spark) > 0
    for pid in set(before) - set(python_processes(jvm, named=b"spillway.spark.daemon")):
        while lives(pid):
            os.sched_yield()
    assert python_processes(jvm, named=b"spillway.spark.daemon")
    assert mend_daemons(spark) == 0
    run_counts(spark)
