"""A driver's side of a talk in lines: it does what standard input says, and tells how it goes on standard output.

Every line is a JSON object, both ways. What is told of a batch is told when it is done, so that it is known also of a
driver that was killed.
"""

import json
import queue
import sys
import threading
from typing import Any, Protocol

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For Java that lives for seconds to minutes."""
QUICK_SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "1g",
    "spark.python.daemon.module": "spillway.spark.quick_daemon",
}
"""Of a session of such a driver."""


class Obedient(Protocol):
    """What can be asked: each method answers with an event."""

    @property
    def running(self) -> bool:
        """Whether there is something to follow."""

    def follow(self) -> list[dict[str, Any]]:
        """What has happened since the last look; takes a moment."""


def obey(driver: Obedient) -> None:
    """Do what standard input says until it ends."""
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            asked.put(line)
        asked.put("")

    threading.Thread(target=read, daemon=True).start()
    _tell({"event": "ready"})
    while True:
        try:
            line = asked.get(block=not driver.running)
        except queue.Empty:
            for event in driver.follow():
                _tell(event)
            continue
        if not line:
            return
        options = json.loads(line)
        _tell(getattr(driver, options.pop("what"))(**options))


def _tell(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)
