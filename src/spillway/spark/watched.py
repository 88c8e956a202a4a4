"""The page of a run that watches itself: ``spillway watch`` in a process of its own, for as long as the run is held.

The page is made from records alone, so it needs nothing of this process, and takes nothing of it: it goes on while a
batch keeps Python busy, and tells what became of a driver that died. That process ends with the run; when the driver
died without a word it stays for a minute after somebody looked last.
"""

import json
import os
import selectors
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from spillway.errors import RunError, SetupError

_START_S_MAX = 60.0

Asked = bool | int
"""Whether to serve, or the port to serve on."""


class NotWatched:
    """No page."""

    address = ""

    def close(self) -> None:
        """There is nothing to end."""


class Watched(NotWatched):
    """The page of one run, or of several jobs."""

    def __init__(self, directory: Path, *, port: int, metrics: bool) -> None:
        command = [sys.executable, "-m", "spillway.cli.main", "watch", str(directory), "--attached", "--json"]
        command += ["--port", str(port), *(["--metrics"] if metrics else [])]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the run's, which ends this in its turn
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._ending = weakref.finalize(self, _end, self._process)
        told = self._listening()
        self.address = str(told["address"])
        """What to open in a browser, the token included."""

    def close(self) -> None:
        """End it; once is enough."""
        self._ending()

    def _listening(self) -> dict[str, Any]:
        """What it says once it listens."""
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            said = output.readline() if selector.select(_START_S_MAX) else b""
        try:
            told = json.loads(said)
        except ValueError:
            told = {"error": "The process that serves the page of a run did not start."}
        if "address" not in told:
            self.close()
            raise SetupError(str(told.get("error", "The page of a run is not served.")))
        return dict(told)


def watched(directory: Path | None, *, watch: Asked, metrics: Asked) -> NotWatched:
    """The page that was asked for, if one was; refused without a directory to read."""
    if watch is False and metrics is False:
        return NotWatched()
    if directory is None:
        raise RunError("The page of a run and its figures are made from its records: name a folder with directory=.")
    ports = {int(one) for one in (watch, metrics) if not isinstance(one, bool)}
    if len(ports) > 1 or any(not 0 < port < 65_536 for port in ports):
        raise RunError(
            f"One server has both the page and the figures, on one port from 1 to 65535; got watch={watch!r} and "
            f"metrics={metrics!r}. Give a port to one of them, and True to the other."
        )
    return Watched(directory.absolute(), port=next(iter(ports), 0), metrics=metrics is not False)


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):  # it may be gone
        process.stdin.write(b"over\n")
        process.stdin.flush()
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
