"""Spark starts without a word, and what it says later is heard, but for the last words of its own processes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.given import VERBOSE_VARIABLE
from spillway.spark.quieting import end_in_silence
from spillway.spark.sifting import Sifter

RUNNER = '  File "x/lib/pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 265, in main'
CHAINED = f"""Traceback (most recent call last):
{RUNNER}
EOFError

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "x/lib/pyspark.zip/pyspark/worker_util.py", line 253, in get_sock_file_to_executor
    return self._sock.send(b)
           ^^^^^^^^^^^^^^^^^^
BrokenPipeError: [Errno 32] Broken pipe
"""
OWN = """Traceback (most recent call last):
  File "mine/worker.py", line 3, in make
BrokenPipeError: [Errno 32] Broken pipe
"""
OTHER = f"""Traceback (most recent call last):
{RUNNER}
ValueError: no such column
"""


def sifted(text: str) -> str:
    sifter = Sifter()
    lines = sifter.sifted(text.splitlines())
    return "".join(f"{line}\n" for line in [*lines, *sifter.rest()])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("one\n\ntwo\n", "one\n\ntwo\n"),
        ("WARNING: Using incubator modules: jdk.incubator.vector\none\n", "one\n"),
        (f"one\n{CHAINED}two\n", "one\ntwo\n"),
        (f"{CHAINED}{OWN}", OWN),
        (OWN, OWN),
        (OTHER, OTHER),
        (f"{OTHER}{CHAINED}", OTHER),
        (OWN[:60], OWN[:60] + "\n"),  # cut short, told all the same
    ],
)
def test_only_what_says_nothing_is_dropped(text: str, told: str) -> None:
    assert sifted(text) == told


@given(st.lists(st.sampled_from([*CHAINED.splitlines(), *OWN.splitlines(), *OTHER.splitlines(), "one", "  two"])))
def test_of_any_lines_those_in_no_traceback_come_through_in_order(lines: list[str]) -> None:
    told = sifted("".join(f"{line}\n" for line in lines)).splitlines()
    assert [line for line in told if line == "one"] == [line for line in lines if line == "one"]
    assert [line for line in told if line.startswith("ValueError")] == [
        line for line in lines if line.startswith("ValueError")
    ]


def test_a_traceback_without_end_is_not_held_for_ever() -> None:
    assert len(sifted("Traceback (most recent call last):\n" + "  on and on\n" * 3_000).splitlines()) == 3_001


class Server:
    """As far as it is asked."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def handle_error(self, request: object, client: object) -> None:
        self.told.append(request)


class Context:
    def __init__(self) -> None:
        self._accumulatorServer = Server()


@pytest.mark.parametrize(("error", "told"), [(EOFError(), []), (BrokenPipeError(), []), (ValueError(), ["request"])])
def test_that_java_has_ended_is_no_error_of_the_server_it_reports_to(error: Exception, told: list[str]) -> None:
    context: Any = Context()
    end_in_silence(context)
    try:
        raise error
    except Exception:
        context._accumulatorServer.handle_error("request", "client")
    assert context._accumulatorServer.told == told


SCRIPT = """
import spillway as sw
spark = sw.session(master="local[1,4]")
assert spark.range(3).count() == 3
spark._jvm.System.err.println("heard later")
spark.stop()
"""


def started(**environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != VERBOSE_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and not done.stdout
    return done.stderr


@pytest.mark.spark
def test_spark_starts_without_a_word(tmp_path: Path) -> None:
    assert started() == "heard later\n"


@pytest.mark.spark
def test_whoever_wants_to_hears_it_all() -> None:
    told = started(**{VERBOSE_VARIABLE: "1"})
    assert "Using incubator modules" in told and "heard later" in told


def test_that_spark_does_not_start_is_told_in_a_sentence(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "spillway.cli.main", "run", "grep", "--directory", str(tmp_path / "run")]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "none")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "spillway: Spark did not start: " in done.stderr and "'spillway doctor' says" in done.stderr
    assert "Traceback" not in done.stderr
