"""A job that is saved as a whole and goes back as a whole: when, where to, and in which order (seed 003, 4.1 and 4.2).

Theory of operation
-------------------
The *checkpoint* of a job at batch N is the backups of all its shards at N, with what sinks and Spark's own notes say
of N. Whoever drives the batches names the batches that are checkpoints, before they begin; each shard makes its backup
durable before it commits such a batch, and all have committed before the batch is. So for every batch that counts and
was named, the backups of all shards are there.

When a shard finds its memory gone it changes nothing and says so (``MemoryLostError``). The job is then *rewound* to N,
the newest checkpoint that counts:

    1  a note says that the job was sent back once more, to N, and that this is not finished
    2  what was noted of later batches goes, from all who noted it: how far backups reach, Spark's offsets and commits
    3  the sinks forget what came after N
    4  the note says that it is finished; batch N+1 begins, and the input behind N is read again

Whoever starts next finds an unfinished note first, and does 2 to 4 once more; each may be repeated. Shards need not be
reached for any of this, so a host that is gone or slow holds nothing up. Every task is told how often the job was sent
back and where to (``backup.orders``), a shard keeps the number it agrees with in its header, and goes back when it is
told a higher one. A task of before that wakes later finds a higher number than its own, and changes nothing.

If no checkpoint counts yet, N is -1: everything starts over.

Backups of a batch that was named but never counted may lie in the folder of one shard and not of another; they go when
that shard begins N+1. What a batch after N put out may differ when it is run again, because Spark may divide the input
into other batches: nobody has seen it, since the sinks forgot it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from spillway.backup.orders import NONE, Orders
from spillway.clock import Clock
from spillway.engine.coordinating import Coordination
from spillway.engine.resuming import manifests_that_count
from spillway.errors import BackupError, GraphError, LogLostError, MemoryLostError, RunError
from spillway.files.envelope import seal, unseal
from spillway.files.folders import Folder, open_folder
from spillway.graph.checked import CheckedGraph
from spillway.graph.protections import JobProtection
from spillway.graph.stream_logs import LogOutput
from spillway.records.rewound import Rewound
from spillway.seeds import generator

NAME = "rewound.json"
FORMAT = 1
IN_VAIN_MAX = 5
"""How often a job is sent back without a batch being done in between, before it gives up."""

_LOG_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What is noted of a job that was sent back."""

    rewinds: int = 0
    to: int = NONE
    finished: bool = True


def job_protection(graph: CheckedGraph) -> JobProtection | None:
    """The protection that all operators with state share, if it is one of the job; a mixture is refused."""
    stateful = {name: operator.protect for name, operator in graph.operators.items() if operator.stateful}
    found = next((protect for protect in stateful.values() if protect.of_job), None)
    if found is None and not stateful and isinstance(graph.protect, JobProtection) and _is_among_others(graph):
        return graph.protect  # what it has read and written is all that there is to a checkpoint of it
    if found is None:
        return None
    assert isinstance(found, JobProtection)
    for name, protect in stateful.items():
        if protect != found:
            raise GraphError(
                f"Operator {name!r} is protected by {protect.describe()}, and others of graph {graph.name!r} by "
                f"{found.describe()}, under which the whole job goes back together. Protect all operators with state "
                f"by it (Graph(..., protect=...) does), or none."
            )
    return found


def _is_among_others(graph: CheckedGraph) -> bool:
    logs = [exit for exit in graph.exits.values() if isinstance(exit.sink, LogOutput)]
    return bool(logs) or any(source.log is not None for source in graph.sources.values())


class Rewinding:
    """The checkpoints of one job: which batches are, and how it goes back to one.

    If it is one of several, ``coordination`` has the last word on both, because others may have to have theirs first.
    """

    def __init__(
        self,
        graph: CheckedGraph,
        protection: JobProtection,
        *,
        backups: str,
        next_batch: int,
        clock: Clock,
        coordination: Coordination | None = None,
    ) -> None:
        self._graph = graph
        self._coordination = coordination
        self._protection = protection
        self._backups = backups
        self._folder = open_folder(backups, graph.name)
        self._clock = clock
        self._note = read_note(self._folder)
        self._last = self.newest_checkpoint(next_batch - 1)
        self._tuples = 0  # since then
        self._last_s = clock.monotonic_s()
        self._orders: dict[int, Orders] = {}  # of the batch that is at work
        self._done = 0  # batches since the job was last sent back
        self._in_vain = 0
        self.log: list[Rewound] = []
        """Each time it was sent back by this run."""

    @property
    def rewinds(self) -> int:
        """How often the job was sent back, by all runs together."""
        return self._note.rewinds

    def follows_rewind(self, batch: int) -> bool:
        """Whether a run that begins with this batch begins where the job was sent back to."""
        return self._note.rewinds > 0 and batch == self._note.to + 1

    def orders(self, batch: int) -> Orders:
        """What the tasks of a batch are told; the same for every attempt at it."""
        found = self._orders.get(batch)
        if found is None:
            checkpoint, needed = self._is_due(batch), NONE
            if self._coordination is not None:
                checkpoint = self._coordination.names(batch, due=checkpoint)
                needed = self._coordination.permanent
            found = Orders(checkpoint=checkpoint, rewinds=self._note.rewinds, rewound_to=self._note.to, needed=needed)
            self._orders = {batch: found}
        return found

    def ran(self, batch: int, *, tuples: int, saved_bytes: int) -> None:
        """A batch that read so many tuples is about to be committed, with so many bytes of backups.

        What it read of stream logs is counted here.
        """
        self._done += 1
        if self.orders(batch).checkpoint:
            if self._coordination is not None:
                self._coordination.saved(batch, state_bytes=saved_bytes)
            self._last, self._tuples, self._last_s = batch, 0, self._clock.monotonic_s()
        else:
            self._tuples += tuples
            if self._coordination is not None:
                self._tuples += self._coordination.logs.tuples_read(batch)

    def newest_checkpoint(self, batch_max: int) -> int:
        """The newest batch up to this one that all shards have a backup of; -1 if there is none."""
        return max((batch for batch in self._saved() if batch <= batch_max), default=NONE)

    def _saved(self) -> list[int]:
        stateful = [name for name, operator in self._graph.operators.items() if operator.stateful]
        shards = {name: self._graph.shards_of(name) for name in stateful}
        return checkpoints(self._graph.name, shards, backups=self._backups)

    def rewind(self, committed: int, forget: Callable[[int], None], lost: MemoryLostError) -> int:
        """Send the job back, from the last batch that counted, to its newest checkpoint.

        ``forget`` has all but the shards forget what came after a batch. Returns that batch.
        """
        began_s = self._clock.monotonic_s()
        target = self._target(committed)
        # A log that is lost where its job would go back to anyway is written anew by that: no batch need be done.
        mends = isinstance(lost, LogLostError) and target == committed
        self._in_vain = 0 if self._done else self._in_vain + (not mends)
        if self._in_vain >= IN_VAIN_MAX:
            raise RunError(
                f"Graph {self._graph.name!r} was sent back {self._in_vain} times and lost memory again before a batch "
                f"was done: {lost}. Is there enough shared memory? It goes on from its checkpoint when it is run again."
            )
        self._write(Note(rewinds=self._note.rewinds + 1, to=target, finished=False))
        self.finish(forget)
        self._last, self._tuples, self._last_s, self._done = target, 0, self._clock.monotonic_s(), 0
        self._orders = {}
        self.log.append(
            Rewound(
                committed=committed,
                to=target,
                why=str(lost),
                seconds=self._clock.monotonic_s() - began_s,
                time_s=self._clock.now_s(),
            )
        )
        del self.log[:-_LOG_MAX]
        return target

    def finish(self, forget: Callable[[int], None]) -> None:
        """Have what was begun done."""
        if not self._note.finished:
            forget(self._note.to)
            if self._coordination is not None:
                self._coordination.restore_logs()
            self._write(replace(self._note, finished=True))
            if self._coordination is not None:
                self._coordination.start(self._note.to)

    def begin(self, next_batch: int, forget: Callable[[int], None]) -> bool:
        """Whoever runs the batches is about to: have what was begun done; true if the job goes back now.

        A job among others may have lost a stream log that they need: then it goes back, too.
        """
        if not self._note.finished:
            self.finish(forget)
            return True
        if self._coordination is None:
            return False
        try:
            self._coordination.start(next_batch - 1, kept=self._kept(next_batch - 1))
            self._coordination.logs.check_there(next_batch)
        except LogLostError as lost:
            self.rewind(next_batch - 1, forget, lost)
            return True
        return False

    def _target(self, committed: int) -> int:
        return self.newest_checkpoint(committed) if self._coordination is None else self._coordination.leave()

    def _kept(self, batch_max: int) -> list[int]:
        return [batch for batch in self._saved() if batch <= batch_max]

    def _is_due(self, batch: int) -> bool:
        protection, share = self._protection, self._share()
        if batch - self._last >= min(round(protection.batches_max * share), protection.BATCHES_MAX):
            return True
        if protection.every_tuples:
            return self._tuples >= protection.every_tuples * share
        return bool(protection.every_s) and self._clock.monotonic_s() - self._last_s >= protection.every_s * share

    def _share(self) -> float:
        """How many times the declared interval the one is that began with the last checkpoint."""
        jitter, share = self._protection.jitter, 1.0
        if jitter:
            # The same whenever the job goes on from that checkpoint, and another for every job.
            share = float(generator(0, "jitter", self._graph.name, str(self._last)).uniform(1 - jitter, 1 + jitter))
        return share * 2 if self._coordination is not None and self._coordination.is_asked else share

    def _write(self, note: Note) -> None:
        write_note(self._folder, note)
        self._note = note


def checkpoints(graph: str, shards: Mapping[str, int], *, backups: str) -> list[int]:
    """The batches that all shards of a job, so many of each operator, have a backup of, oldest first."""
    found = [
        frozenset(record.batch for record in manifest.records) if manifest is not None else frozenset()
        for operator, count in shards.items()
        for manifest in manifests_that_count(graph, operator, shards=count, backups=backups)
    ]
    return sorted(frozenset.intersection(*found)) if found else []


def read_note(folder: Folder) -> Note:
    """What is noted in a folder. A damaged note is refused: nobody could tell whether a job goes back."""
    try:
        data = folder.read(NAME)
    except (FileNotFoundError, NotADirectoryError):  # of the latter, whoever writes there will tell
        return Note()
    except OSError as error:
        raise BackupError(
            f"Reading in {folder.place} whether the job was sent back failed: {error.strerror or error}. Mend the "
            f"folder and run again."
        ) from error
    body = unseal(data, format=FORMAT, what=f"The note {NAME} in {folder.place}")
    if body is None:
        raise BackupError(
            f"The note {NAME} in {folder.place} is damaged: it says how often the job was sent back. Put an intact one "
            f"back; if there is none, name new folders with backups= and checkpoint= and begin anew."
        )
    return Note(rewinds=int(body["rewinds"]), to=int(body["to"]), finished=bool(body["finished"]))


def write_note(folder: Folder, note: Note) -> None:
    """Make a note durable."""
    body = {"rewinds": note.rewinds, "to": note.to, "finished": note.finished}
    try:
        folder.write(NAME, seal(body, format=FORMAT))
    except OSError as error:
        raise BackupError(
            f"Noting in {folder.place} that the job goes back failed: {error.strerror or error}. Mend the folder and "
            f"run again."
        ) from error
