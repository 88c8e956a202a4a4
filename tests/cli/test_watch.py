"""``spillway watch`` as a process: it says where it listens, ends on Ctrl-C, and with the run that it is a part of."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest
from tests.records.progressed import progress
from tests.report.test_cli import call

from spillway.cli import watch
from spillway.errors import RunError, SetupError
from spillway.records.rundir import RunDirectory


def started(path: Path, *more: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "spillway.cli.main", "watch", str(path), "--json", *more]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def line(output: IO[bytes] | None) -> dict[str, object]:
    assert output is not None
    return dict(json.loads(output.readline()))


def recorded(path: Path) -> Path:
    directory = RunDirectory(path, graph="words")
    directory.add([progress(batch=0)])
    directory.close("finished")
    return path


def test_ctrl_c_ends_it_without_a_word(tmp_path: Path) -> None:
    process = started(recorded(tmp_path / "run"))
    told = line(process.stdout)
    assert told["event"] == "listening" and str(told["address"]).startswith(f"http://127.0.0.1:{told['port']}/#token=")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")


def test_one_that_is_a_part_of_a_run_ends_with_it(tmp_path: Path) -> None:
    process = started(tmp_path / "not there yet", "--attached")
    assert line(process.stdout)["event"] == "listening"
    process.communicate(b"over\n", timeout=60)
    assert process.returncode == 0


def test_what_is_no_run_and_what_is_missing_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="is no run directory"):
        call(watch, str(tmp_path))
    monkeypatch.setattr(watch, "is_there", lambda: False)
    with pytest.raises(SetupError, match=r"pip install 'spillway\[metrics\]'"):
        call(watch, str(recorded(tmp_path / "run")), "--metrics")
    (tmp_path / "token").write_text("short")
    with pytest.raises(SetupError, match="at least 8 bytes"):
        call(watch, str(tmp_path / "run"), "--token-file", str(tmp_path / "token"))
