"""Replicas as processes of the local runtime, killed in every way: what is written is what an undisturbed run writes.

One world goes through all of it, since what was broken before must not matter for what comes.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.kill.job_process import JOB, SINK, SOURCE, WAYS, committed, drawn
from tests.waiting import waited_for

import spillway as sw
from spillway.engine.log_files import LogPlace
from spillway.engine.seat import Seat
from spillway.soak.host_graph import outputs

pytestmark = pytest.mark.kill

READER = f"{JOB}-out"
FIRST, SECOND = REPLICAS = (f"{JOB}-0", f"{JOB}-1")
WAIT_S = 120


class World:
    """The processes of one run."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder = folder
        self.seat = Seat(LogPlace(root=folder / "logs", run="kills"), JOB)
        self._way = way
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            command = [sys.executable, "-m", "tests.kill.job_process", str(self.folder), self._way, name]
            path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
            log = (self.folder / f"{name}.log").open("ab")
            with log:
                self._processes[name] = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=log)

    def kill(self, *names: str, with_memory: bool = False) -> None:
        for name in names:
            process = self._processes.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if with_memory:
                shutil.rmtree(self.folder / "state" / name, ignore_errors=True)
                for log in (self.folder / "logs").glob(f"*~{REPLICAS.index(name)}"):
                    shutil.rmtree(log)

    def close(self) -> None:
        self.kill(*list(self._processes))

    def until(self, what: str, *, of: int) -> None:
        """Wait until a job has come so far."""
        assert waited_for(lambda: self._lives() and committed(self.folder, what) >= of, seconds_max=WAIT_S), self.said()

    def goes_on(self, batches: int = 5) -> None:
        """Wait until the reader has written more."""
        self.until(READER, of=committed(self.folder, READER) + batches)

    def until_active(self, name: str) -> None:
        assert waited_for(lambda: self._lives() and self.seat.newest().replica == name, seconds_max=WAIT_S), self.said()

    def until_fit(self, name: str) -> None:
        """Wait until a replica has caught up, so that the other may lose everything."""
        self.until(name, of=max(committed(self.folder, one) for one in REPLICAS) + 3)
        self.goes_on()

    def said(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))

    def _lives(self) -> bool:
        ended = [name for name, process in self._processes.items() if process.poll() is not None]
        assert not ended, self.said()
        return True


@contextmanager
def world(folder: Path, way: str) -> Iterator[World]:
    with ExitStack() as stack:
        made = World(folder, way)
        stack.callback(made.close)
        made.start(SOURCE, *REPLICAS, READER)
        made.goes_on()
        yield made


def check(made: World) -> None:
    """What the reader has written is what the graph puts out as one job in one process."""
    made.close()
    came = committed(made.folder, READER)
    with sw.LocalRun(drawn(made.folder / "wanted", group=None, batches=came + 1)) as run:
        run.run()
    written = outputs(made.folder / "out", (SINK,))[SINK]
    assert {batch: table for batch, table in written.items() if batch <= came} == outputs(
        made.folder / "wanted", (SINK,)
    )[SINK]


def other(name: str) -> str:
    return SECOND if name == FIRST else FIRST


def test_a_group_whose_replicas_die_in_every_way(tmp_path: Path) -> None:
    with world(tmp_path, "peer") as made:
        active = made.seat.newest().replica
        made.kill(other(active))  # the standby
        made.goes_on()
        made.start(other(active))
        made.until_fit(other(active))

        made.kill(active, with_memory=True)
        made.until_active(other(active))
        made.goes_on()
        made.start(active)
        made.until_fit(active)

        active = other(active)
        made.kill(active)
        made.kill(other(active))  # before it can have taken over: nobody is left, and all memory lives
        made.start(*REPLICAS)
        made.goes_on()

        for _ in range(2):  # whoever takes over is killed at once
            active = made.seat.newest().replica
            made.until_fit(other(active))
            made.kill(active)
            made.until_active(other(active))
            made.kill(other(active))
            made.start(*REPLICAS)
            made.goes_on()

        made.kill(SOURCE, *REPLICAS, READER)  # as one driver of all
        made.start(SOURCE, *REPLICAS, READER)
        made.goes_on()
        check(made)


@pytest.mark.parametrize("way", WAYS)
def test_one_that_stays_away_is_let_go_and_comes_back_and_the_other_loses_everything(way: str, tmp_path: Path) -> None:
    with world(tmp_path, way) as made:
        active = made.seat.newest().replica or FIRST
        away = other(active)
        made.kill(away)
        assert waited_for(lambda: away in made.seat.newest().away, seconds_max=WAIT_S), made.said()
        made.goes_on(20)
        made.start(away)
        made.until_fit(away)
        assert not made.seat.newest().missing
        assert "because it was let go" in (tmp_path / f"{away}.told").read_text()
        made.kill(active, with_memory=True)
        made.goes_on(20)
        check(made)
