"""A driver from outside: told what to do, heard, and killed with all it started."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from spillway.state.folders import MEMORY_VARIABLE

_WORDS_MAX = 4_000  # of a driver that ended
_LOOK_S = 0.01


class StuckError(Exception):
    """A driver did not do what it should in time, or is gone."""


class DriverProcess:
    """A driver, by its lines: the main of a module."""

    def __init__(self, master: str, *, memory: Path, java: str = "", module: str = "spillway.soak.host_driver") -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, master, java],
            env={**os.environ, "PYTHONPATH": path, MEMORY_VARIABLE: str(memory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,  # so that its Java is killed with it, and an interrupt is not its to hear
        )
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def tell(self, what: str, **options: Any) -> None:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"what": what, **options}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise StuckError(self._last_words()) from None

    def next(self, *, seconds_max: float) -> dict[str, Any]:
        """What it tells next."""
        event = self.soon(seconds_max=seconds_max)
        if event is None:
            raise StuckError("the driver said nothing for too long")
        return event

    def soon(self, *, seconds_max: float) -> dict[str, Any] | None:
        """What it tells next, if that is soon."""
        try:
            event = self._events.get(timeout=max(seconds_max, 0.001))
        except queue.Empty:
            return None
        if event["event"] == "gone":
            raise StuckError(self._last_words())
        return event

    def kill(self) -> list[dict[str, Any]]:
        """Kill it and all it started; returns what it had told and nobody has heard yet."""
        # Its Python workers have a group of their own, and may find out late that nobody listens. Nor are there any
        # that begin once the driver and its Java are gone, which are of its group.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        while others := of_session(self._process.pid):
            for process in others:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_LOOK_S)
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._log.close()
        unheard = []
        while not self._events.empty():
            unheard.append(self._events.get())
        return [event for event in unheard if event["event"] != "gone"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._events.put(json.loads(line))
        self._events.put({"event": "gone"})

    def _last_words(self) -> str:
        self._log.seek(0)
        return f"the driver has ended: {self._log.read()[-_WORDS_MAX:]}"


def of_session(leader: int) -> list[int]:
    """The living processes of a session, by the process that began it."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, _, session = place.read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) == leader and state not in "ZX":
                found.append(int(place.parent.name))
    return found
