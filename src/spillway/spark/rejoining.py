"""Replicas that run on Spark, as they are started: with what is their own, what is a peer's, or nothing.

See ``engine.restarting`` for what that means. What makes it count is Spark's own checkpoint: a query goes on behind the
last batch that is noted there as done. A replica that goes on where a peer is gets the peer's notes of that batch and
of the one before it, from which Spark reads where that batch began: both read the same, in the same batches. A note of
ours says meanwhile where the replica was, so that one that is killed in between is there again.

All of it is on one machine. On a cluster memory is with many hosts, and shards are recovered one by one.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from spillway.backup.reach import FOLDER
from spillway.clock import SystemClock
from spillway.engine.job_logs import JobLogs
from spillway.engine.restarting import Home, begin
from spillway.engine.seat import Seat
from spillway.errors import GraphError, RunError, StateError
from spillway.files.durable import write_whole
from spillway.graph.graph import Graph
from spillway.records.rejoined import Rejoined
from spillway.spark.job_places import JobPlaces
from spillway.spark.looked import Looked
from spillway.spark.offsets import numbers_in
from spillway.state.folders import look_at

_MOVING = "moving.json"
_QUERY = "metadata"  # Spark's, with an id that no other query has
_LOG_MAX = 10_000


class Rejoining:
    """The replicas among the jobs of a graph."""

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        places: JobPlaces,
        *,
        backups: str | None,
        one_machine: bool,
        note: Callable[[Rejoined], None],
    ) -> None:
        self._graphs = graphs
        self._places = places
        self._backups = backups
        self._one_machine = one_machine
        self._note = note
        self.troubles: list[str] = []
        """Why one could not be, just then."""
        for graph in graphs.values():
            if graph.member is not None and graph.member.group.restart != "own" and not one_machine:
                raise GraphError(
                    f"Job {graph.member.job!r} runs as {graph.member.group.describe()}, and on a cluster the memory of "
                    f"a replica is with many hosts: a replica does not go on with that of another there, nor with "
                    f"none. Say restart='own'; what a host had is recovered from backups."
                )

    def begun(self, one: Looked) -> bool:
        """Whether a job is where it is to go on; a replica may have to wait for a peer."""
        member = one.graph.member
        if member is None or not self._one_machine or one.placed:
            return True
        self._restore(one.name)
        peers = {name: self._home(name) for name in member.group.names(member.job) if name != one.name}
        try:
            found = begin(
                member,
                self._home(one.name, one.job.logs),
                peers,
                seat=Seat(self._places.logs, member.job),
                hopeful=any(self._works(peer) for peer in peers.values()),
                clock=SystemClock(),
            )
        except StateError as error:  # the peer was about to lose its memory, or holds it for long
            if str(error) not in self.troubles[-1:]:  # it is tried again some dozens of times a second
                self.troubles = [*self.troubles, str(error)][-_LOG_MAX:]
            return False
        if found.waits:
            return False
        if found.rejoined is not None:
            self._note(found.rejoined)
            one.committed = found.behind
        one.placed = True
        return True

    def _home(self, name: str, logs: JobLogs | None = None) -> Home:
        graph = self._graphs[name].checked()
        return Home(
            name=name,
            graph=graph,
            state=self._places.memory(name, graph.name),
            backups=self._backups,
            logs=logs or JobLogs(graph, place=self._places.logs),
            committed=lambda: self._places.committed(name),
            go_on=lambda peer, behind: self._go_on(name, peer, behind),
        )

    def _works(self, peer: Home) -> bool:
        """Whether a replica seems to be at work and will come further."""
        ended = all(writer.held().ended is not None for writer in peer.logs.writers.values())
        return look_at(self._places.checkpoint(peer.name)).in_use and not ended

    def _go_on(self, name: str, peer: str, behind: int) -> None:
        """Have Spark go on behind a batch that a peer has done."""
        own, other = self._places.checkpoint(name), self._places.checkpoint(peer)
        wanted = [("offsets", behind - 1), ("offsets", behind), ("commits", behind)]
        try:
            notes = {(log, batch): (other / log / str(batch)).read_bytes() for log, batch in wanted if batch >= 0}
        except FileNotFoundError as error:
            raise StateError(
                f"Replica {peer!r} has no notes of batch {behind} any more, so {name!r} cannot start from it just now."
            ) from error
        try:
            (own / FOLDER).mkdir(parents=True, exist_ok=True)
            write_whole(own / FOLDER / _MOVING, json.dumps({"from": self._places.committed(name)}).encode())
            for (log, batch), said in notes.items():
                (own / log).mkdir(exist_ok=True)
                (own / log / f".{batch}.crc").unlink(missing_ok=True)  # of what was there before
                write_whole(own / log / str(batch), said)
            if not (own / _QUERY).exists():  # it has never been started, and Spark refuses notes without a query
                write_whole(own / _QUERY, json.dumps({"id": str(uuid.uuid4())}).encode())
            (own / FOLDER / _MOVING).unlink()
        except OSError as error:
            raise RunError(
                f"Checkpoint {own} cannot be written ({error.strerror or error}), so replica {name!r} cannot start "
                f"from {peer!r}. See to that folder."
            ) from error

    def _restore(self, name: str) -> None:
        """Have a replica that was killed in the middle of that be where it was."""
        own = self._places.checkpoint(name)
        with suppress(FileNotFoundError):
            came = int(json.loads((own / FOLDER / _MOVING).read_text())["from"])
            for log in ("commits", "offsets"):
                for batch in (batch for batch in numbers_in(own / log) if batch > came):
                    _remove(own / log, batch)
            (own / FOLDER / _MOVING).unlink()


def _remove(folder: Path, batch: int) -> None:
    for name in (f".{batch}.crc", str(batch)):
        (folder / name).unlink(missing_ok=True)
