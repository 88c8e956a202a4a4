"""A driver on a cluster that runs the graph of ``host_graph`` as it is told, line by line, and tells how it goes.

    python -m spillway.soak.host_driver MASTER [JAVA-OPTIONS]

It is a process of its own because it is killed, and because a process has one Spark. Lines are those of ``obeying``.
"""

import sys
import time
from pathlib import Path
from typing import Any

from spillway.backup.keeper import Step
from spillway.errors import SpillwayError
from spillway.soak.host_graph import host_graph
from spillway.soak.host_holds import HOLDS, Hold, Holding
from spillway.soak.obeying import QUICK_JAVA, QUICK_SETTINGS, obey
from spillway.spark.hosts import hosts_seen
from spillway.spark.running import Run
from spillway.spark.settings import session
from spillway.spark.start import run as start_run

_LOOK_S = 0.05
_SETTINGS: dict[str, Any] = {
    "spark.executor.memory": "512m",
    # A host that is paused is to be noticed soon.
    "spark.executor.heartbeatInterval": "500ms",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "3s",
    "spark.network.timeoutInterval": "500ms",
}


class Driver:
    """What can be asked: each method answers with an event."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._run: Run | None = None
        self._told = 0

    @property
    def running(self) -> bool:
        return self._run is not None

    def hosts(self, count: int, seconds_max: float) -> dict[str, Any]:
        """Which hosts there are once there are so many, or the time is up."""
        until_s = time.monotonic() + seconds_max
        while len(hosts_seen(self._spark.sparkContext)) != count and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return {"event": "hosts", "hosts": sorted(hosts_seen(self._spark.sparkContext))}

    def begin(
        self,
        folder: str,
        batches: int,
        shards: int,
        rescale: bool,
        delay_max_s: float,
        holds: list[dict[str, Any] | None],
    ) -> dict[str, Any]:
        """Begin a run, or go on with one that another driver began, or this one with other shards."""
        place = Path(folder)
        graph = host_graph(place / "out", batches=batches, delay_max_s=delay_max_s, shards=shards)
        holding = Holding(
            folder=place / HOLDS,
            holds=[None if hold is None else Hold(**{**hold, "step": Step(hold["step"])}) for hold in holds],
        )
        self._told = 0
        backups, checkpoint = place / "backups", place / "checkpoint"
        try:
            self._run = start_run(
                graph, self._spark, backups=backups, checkpoint=checkpoint, observe=holding, rescale=rescale
            )
        except SpillwayError as error:
            return {"event": "ended", "error": str(error)}
        return {"event": "begun", "rescaled": [change.sentence() for change in self._run.rescaled]}

    def move(self, operator: str, shard: int, other: int) -> dict[str, Any]:
        """Move a shard to another host than its owner's: of those that are there, the one of this number."""
        if self._run is None:
            return {"event": "refused", "why": "nothing runs"}
        try:
            source = self._run.owner(operator, shard)
        except SpillwayError as error:
            return {"event": "refused", "why": str(error)}
        others = sorted(hosts_seen(self._spark.sparkContext) - {source})
        if not source or not others:
            return {"event": "refused", "why": "there is nobody to move it from, or to"}
        target = others[other % len(others)]
        return self._asked(lambda run: run.move(operator, shard, target)) | {"source": source, "target": target}

    def drain(self, host: str) -> dict[str, Any]:
        return self._asked(lambda run: run.drain(host))

    def _asked(self, ask: Any) -> dict[str, Any]:
        try:
            assert self._run is not None
            ask(self._run)
        except (SpillwayError, AssertionError) as error:
            return {"event": "refused", "why": str(error)}
        return {"event": "asked"}

    def follow(self) -> list[dict[str, Any]]:
        """What has happened since the last look."""
        assert self._run is not None
        run, error, ended = self._run, "", False
        try:
            ended = run.wait(_LOOK_S)
        except SpillwayError as stopped:
            ended, error = True, str(stopped)
        events = []
        rows = run.records()[self._told :]
        self._told += len(rows)
        if rows:
            # Moves are known before the records of the batch in which they show.
            moves = [move.as_json() for move in run.moves()]
            events.append({"event": "rows", "rows": [row.as_row() for row in rows], "moves": moves})
        if ended:
            run.stop()
            self._run = None
            waits, troubles = [wait.sentence() for wait in run.waits()], run.troubles()
            events.append({"event": "ended", "error": error, "waits": waits, "troubles": troubles})
        return events


def main(master: str, java: str = "") -> None:
    """Do what standard input says until it ends."""
    java = f"{QUICK_JAVA} {java}"
    options = {"spark.executor.extraJavaOptions": java, "spark.driver.extraJavaOptions": java}
    obey(Driver(session(master=master, **{**QUICK_SETTINGS, **_SETTINGS, **options})))


if __name__ == "__main__":
    main(*sys.argv[1:])
