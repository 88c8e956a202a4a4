"""How processes end: with the pool, and with the one that leads them, however it dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from tests.parallel.tasks import deaf, endless, halved
from tests.waiting import waited_for

from spillway.errors import RunError
from spillway.parallel import Processes, processes

ROOT = Path(__file__).parents[2]


def runs(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def begin(pool: Processes, work: Callable[[Path], None], folder: Path, *, tasks: int) -> None:
    """Let a pool begin tasks, and wait until every process is at one."""

    def take() -> None:
        with suppress(RunError, RuntimeError):  # the pool is closed beneath it
            list(pool.completed(work, [folder] * tasks))

    Thread(target=take, daemon=True).start()
    assert waited_for(lambda: len(marks(folder)) == pool.count)


def all_noted(pool: Processes) -> bool:
    """Whether every process has ended and Python knows: the pool's own thread may be told of an end before the one that
    closes it, and then be about to note it."""
    return waited_for(lambda: all(process.exitcode is not None for process in pool.started))


def marks(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that leads two others, in a group of its own as a terminal would give it; both are at work."""
    command = [sys.executable, "-m", "tests.parallel.tasks", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, process_group=0, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert waited_for(lambda: len(marks(tmp_path)) == 2)
            yield process
        finally:
            process.kill()
            for pid in marks(tmp_path):
                if runs(pid):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_do_not_outlive_a_leader_that_dies(
    leader: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    workers = marks(tmp_path)
    assert all(map(runs, workers))
    leader.send_signal(number)
    assert leader.wait() == -number
    assert waited_for(lambda: not any(map(runs, workers)))


@pytest.mark.kill
def test_an_interrupt_of_the_group_is_the_leaders_to_hear(leader: subprocess.Popen[str], tmp_path: Path) -> None:
    workers = marks(tmp_path)
    os.killpg(leader.pid, signal.SIGINT)
    _, said = leader.communicate()
    assert leader.returncode != 0
    assert not any(map(runs, workers))
    assert not marks(tmp_path)  # they cleaned up
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1  # the leader's


def test_what_runs_is_given_up_when_the_pool_is_closed(tmp_path: Path) -> None:
    pool = Processes(2)

    def interrupt_when_both_are_at_work() -> None:
        with pool:
            begin(pool, endless, tmp_path, tasks=5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt_when_both_are_at_work()
    assert len(pool.started) == 2
    assert all_noted(pool)
    assert not marks(tmp_path)


def test_a_process_that_will_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "ENDING_S_MAX", 0.2)
    with Processes(1) as pool:
        begin(pool, deaf, tmp_path, tasks=1)
    assert all_noted(pool)
    assert [process.exitcode for process in pool.started] == [-signal.SIGKILL]


def test_a_process_ended_by_others_does_not_end_the_leader(tmp_path: Path) -> None:
    with Processes(1) as pool:
        list(pool.ordered(halved, [2]))

        def end_it() -> None:
            waited_for(lambda: bool(marks(tmp_path)))
            pool.started[0].terminate()

        Thread(target=end_it, daemon=True).start()
        with pytest.raises(RunError, match="ended before its task was done"):
            list(pool.completed(endless, [tmp_path]))
