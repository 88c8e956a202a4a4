"""Spark starts without its chatter: which profile it logs by, what host it is on, which module of Java is young.

Spark says most of it through its log, whose settings its Java process must be given when it starts. What Java itself
says goes straight to standard error, which the process has from us, and so do the last words of Spark's Python
processes. So the process gets a pipe for it, and as long as it lives a thread passes on what says something (see
``sifting``). Whoever wants to see it all sets ``SPILLWAY_VERBOSE``.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from spillway.given import is_verbose
from spillway.spark.sifting import Sifter

_SETTINGS = Path(__file__).with_name("log4j2.properties")
_OPTIONS_VARIABLE = "SPARK_SUBMIT_OPTS"  # what the Java process is started with, beside what users set
_STDERR = 2
_LINE_BYTES_MAX = 1 << 16


@contextmanager
def quiet_start() -> Iterator[None]:
    """Around the start of a session: if it starts Java, that says nothing but what went wrong."""
    if is_verbose() or SparkContext._gateway is not None:
        yield
        return
    before = os.environ.get(_OPTIONS_VARIABLE)
    given = before or ""
    if "log4j" not in given and not _has_own_settings():
        os.environ[_OPTIONS_VARIABLE] = f'{given} "-Dlog4j2.configurationFile={_SETTINGS.as_uri()}"'.strip()
    try:
        with _sifted_stderr():
            yield
    finally:
        if before is None:
            os.environ.pop(_OPTIONS_VARIABLE, None)
        else:
            os.environ[_OPTIONS_VARIABLE] = before


def _has_own_settings() -> bool:
    """Whether the user has said how Spark is to log."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (os.path.join(home, "conf") if home else "")
    return bool(folder) and any(Path(folder).glob("log4j2.*"))


@contextmanager
def _sifted_stderr() -> Iterator[None]:
    """Have processes that are started meanwhile write to a pipe, as their standard error."""
    try:
        before = os.dup(_STDERR)
    except OSError:  # there is none
        yield
        return
    reading, writing = os.pipe()
    with suppress(Exception):
        sys.stderr.flush()
    os.dup2(writing, _STDERR)
    os.close(writing)
    started = threading.Event()
    threading.Thread(target=_pass_on, args=(reading, started), name="spillway stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(before, _STDERR)
        os.close(before)
        started.set()


def _pass_on(reading: int, started: threading.Event) -> None:
    """Hand what comes on to standard error, which is ours again once the start is over."""
    sifter = Sifter()
    with open(reading, "rb", buffering=0) as pipe:
        rest = b""
        while chunk := pipe.read(_LINE_BYTES_MAX):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            _tell(sifter.sifted([line.decode(errors="replace") for line in lines]), started)
        _tell(sifter.rest(), started)


def _tell(lines: list[str], started: threading.Event) -> None:
    if lines:
        started.wait()
        with suppress(Exception):  # whoever read it has gone; the process must not wait for that
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            sys.stderr.flush()


def end_in_silence(context: SparkContext) -> None:
    """Have the server that Spark's Java process reports to in this one end without a traceback when that has ended."""
    server = getattr(context, "_accumulatorServer", None)
    if server is None:
        return
    print_traceback = server.handle_error

    def handle_error(request: Any, client: Any) -> None:
        if is_verbose() or not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            print_traceback(request, client)

    server.handle_error = handle_error
