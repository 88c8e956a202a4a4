"""Nodes from outside: one at work and one that waits to take over, told what to do, heard, and killed."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from spillway.errors import RunError
from spillway.papers.ecoc.node import Assignment
from spillway.papers.ecoc.processes import Used, kill_session, used_by

_WORDS_MAX = 4_000  # of a node that ended
_START_S_MAX = 300.0

Event = dict[str, Any]


class Node:
    """A process of ``node``."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        self._began_s = time.time()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spillway.papers.ecoc.node"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.start_s = 0.0
        """How long it took to be ready."""

    def wait_until_ready(self) -> None:
        if not self.start_s:
            event = self.next(seconds_max=_START_S_MAX)
            assert event["event"] == "ready", event
            self.start_s = event["time_s"] - self._began_s

    def run(self, assignment: Assignment) -> None:
        """Begin the failing job of a process, or go on with it."""
        assert self._process.stdin is not None
        try:
            print(json.dumps(assignment.as_json()), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise RunError(self._last_words()) from None

    def next(self, *, seconds_max: float) -> Event:
        """What it tells next."""
        event = self.soon(seconds_max=seconds_max)
        if event is None:
            raise RunError(f"A node said nothing for {seconds_max:g} s. Is the machine too busy? Run it again.")
        return event

    def soon(self, *, seconds_max: float) -> Event | None:
        """What it tells next, if that is soon."""
        try:
            event = self._events.get(timeout=seconds_max)
        except queue.Empty:
            return None
        if event["event"] == "gone":
            raise RunError(self._last_words())
        if event.get("error"):
            raise RunError(f"A node could not go on: {event['error']}")
        return event

    def used(self) -> Used | None:
        return used_by(self._process.pid)

    def kill(self) -> None:
        """Kill it and all it started."""
        kill_session(self._process.pid)
        self._process.wait()
        self._reading.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._log.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._events.put(json.loads(line))
        self._events.put({"event": "gone", "time_s": time.time()})

    def _last_words(self) -> str:
        self._log.seek(0)
        return f"A node has ended: {self._log.read()[-_WORDS_MAX:]}"


class Nodes:
    """Two nodes, started when they are wanted: when the one at work is killed the other takes over, and a new one waits
    from the next run on."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *error: object) -> None:
        for node in self._nodes:
            node.kill()

    def both(self) -> tuple[Node, Node]:
        """The one to work and the one to wait, both ready."""
        while len(self._nodes) < 2:  # one after the other: each takes all there is of the machine
            self._nodes.append(Node())
            self._nodes[-1].wait_until_ready()
        return self._nodes[0], self._nodes[1]

    def kill_first(self) -> None:
        """Kill the one at work."""
        self._nodes.pop(0).kill()
