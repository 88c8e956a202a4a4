"""Ctrl-C ends a command in a sentence, whatever it was at: no traceback, of ours or of PySpark's."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.waiting import waited_for

from spillway.cli import explain
from spillway.cli.main import main
from spillway.state.folders import MEMORY_VARIABLE

ROOT = Path(__file__).parents[2]

# Whoever runs the tests may have interrupts ignored, as shells do for what runs in the background.
HEEDING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("spillway.cli.main", run_name="__main__", alter_sys=True)
"""


@contextmanager
def command(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command as a shell starts it: Ctrl-C reaches all its processes."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        MEMORY_VARIABLE: str(folder / "memory"),
    }
    started = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def endless(folder: Path) -> tuple[str, ...]:
    return ("run", "grep", "--tuples", "1e9", "--tuples-per-batch", "100", "--directory", str(folder / "run"))


def interrupted(started: subprocess.Popen[str]) -> str:
    """What it said, having been interrupted."""
    os.killpg(started.pid, signal.SIGINT)
    said, _ = started.communicate()
    assert "Traceback" not in said and "Error" not in said and "Exception" not in said, said
    assert started.returncode == 130, said
    return said


@pytest.mark.spark
def test_in_the_middle_of_a_run(tmp_path: Path) -> None:
    with command(tmp_path, *endless(tmp_path)) as started:
        commits = tmp_path / "run" / "checkpoint" / "commits"
        assert waited_for(lambda: started.poll() is not None or (commits / "2").exists(), seconds_max=300)
        said = interrupted(started)
    assert "stopping after the batch at hand; again to stop at once" in said
    assert "none of its operators keeps state" in said and "the same --directory again resumes" in said


@pytest.mark.spark
def test_while_spark_starts(tmp_path: Path) -> None:
    with command(tmp_path, *endless(tmp_path)) as started:
        assert waited_for(lambda: started.poll() is not None or java_below(started.pid), seconds_max=300)
        # All that it started has ended with it, or its output would go on.
        assert interrupted(started) == "spillway: stopped.\n"


def java_below(process: int) -> bool:
    """Whether a process has one of Java's, or of what starts it, below it."""
    children = Path(f"/proc/{process}/task/{process}/children")
    return any("java" in Path(f"/proc/{child}/cmdline").read_text() for child in children.read_text().split())


def test_before_anything_has_begun(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(anything: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(explain, "add_options", interrupt)
    assert main(["explain", "x"]) == 130
    assert capsys.readouterr().err == "spillway: stopped.\n"
