"""A job's checkpoints among those of other jobs: the state machine of ``protocols``, told of batches and mail.

Theory of operation
-------------------
``protocols.checkpointing`` has when a checkpoint is kept, when it becomes permanent and what is told to whom, and why
that loses nothing. Here its events are made and its actions done. Three things are simpler than they could be:

*Positions are batches.* What a job has read of a stream is how many batches of its log, what it has written is how many
batches it has done. So both are known before a batch begins.

*What is kept is durable at once.* Shards save a batch before they commit it, when they are told to before it begins
(see ``rewinding``). So before each batch the machine is asked what it *would* do about its commit; if that is to keep
it, shards are told to save it, and readers are sent the machine's requests before the batch is in any log, so that they
find them with it. Until the batch is committed the machine hears of nothing else, and then does what it said. A kept
checkpoint that is never made permanent has cost its bytes for nothing; in return a driver that dies finds it again.

*To save is to note.* Making a kept checkpoint permanent is to save the parts of stream logs that belong to it, and then
one note (see ``permanent``). Backups of shards from that batch on are kept as long as it counts (``Orders.needed``).

When memory is lost, shards' or that of a log, the job goes back to its permanent checkpoint (see ``rewinding``): a log
that is gone begins anew there with what was saved of it, and one that is not stays as it is: others may have read what
is in it, and what the job writes again is the same. Then a new machine begins, with ``Restarted``.

A batch waits while a log has no room, and while the permanent checkpoint is so old that Spark would soon forget how to
go back to it. In both cases somebody is waited for who has not saved; a machine that is held up hears requests that it
cannot read yet, and may ask for a part of the log instead of a checkpoint (cycles).
"""

import threading
from collections.abc import Iterable, Mapping

from spillway.backup.orders import NONE
from spillway.clock import Clock
from spillway.engine.job_logs import JobLogs, LogObserver, LogStep, unobserved
from spillway.engine.letters import Letters, stream_to
from spillway.engine.permanent import LogToSave, Permanent, PermanentStore
from spillway.errors import BackupError, GraphError, LogLostError
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.graph.protections import JobProtection
from spillway.graph.stream_logs import LogOutput
from spillway.protocols import check_jobs, protocol_named
from spillway.protocols.checkpoint_events import (
    Acknowledge,
    Action,
    Asked,
    AskExtension,
    Checkpoint,
    Committed,
    Forget,
    Keep,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
)
from spillway.protocols.checkpoint_protocol import CheckpointProtocol
from spillway.protocols.checkpointing import PENDING_MAX, CheckpointMachine
from spillway.records.checkpointed import Checkpointed, Messages

_LOG_MAX = 10_000
_UNBOUNDED = 1 << 62  # a log is bounded in bytes, which only the runtime knows: see ``_holds_back``


def batches_kept(protection: JobProtection) -> int:
    """How far behind the batch at hand the permanent checkpoint of a job may be: by all that may wait, and one more."""
    return (PENDING_MAX + 2) * protection.batches_most


def needed_for_job(job: str, protection: JobProtection, backups: str | None) -> str:
    """The folder of backups, which there must be."""
    if backups is None:
        raise GraphError(
            f"Job {job!r} is protected by {protection.describe()}, which needs a durable folder: name one with "
            f"backups=."
        )
    return backups


def check_coordination(graph: Graph) -> None:
    """Refuse jobs whose checkpoints could wait for each other for ever."""
    protocols: dict[str, CheckpointProtocol] = {}
    streams: dict[str, tuple[str, str]] = {}
    for job, part in graph.divided().items():
        if isinstance(part.protect, JobProtection):
            protocols[job] = protocol_named(part.protect.protocol)
        for name, exit in part.checked().exits.items():
            if isinstance(exit.sink, LogOutput):
                streams |= {stream_to(name, reader.job): (job, reader.job) for reader in exit.sink.readers}
    if protocols:
        check_jobs(protocols, streams)


class Coordination:
    """The checkpoints of one job. Whoever runs its batches and whoever looks after it may be two threads."""

    def __init__(
        self,
        graph: CheckedGraph,
        *,
        job: str,
        protection: JobProtection,
        logs: JobLogs,
        backups: str,
        clock: Clock,
        observe: LogObserver = unobserved,
    ) -> None:
        self.job = job
        self.logs = logs
        self._protection = protection
        self._clock = clock
        self._observe = observe
        self._store = PermanentStore(graph.name, backups=backups)
        self._lock = threading.RLock()
        self._letters = Letters(job, logs)
        self._inputs, self._outputs = self._letters.inputs, self._letters.outputs
        self.is_asked = protocol_named(protection.protocol).waits and all(
            source.log is not None for source in graph.sources.values()
        )
        """Whether others ask for its checkpoints: it is saved together with all that it reads from."""
        self._machine = self._new_machine()
        self._at_work: Committed | None = None  # the batch that is, as it will be told of
        self._going_back = True  # until it starts
        self._state_bytes: dict[int, int] = {}  # of batches that were saved
        self._weight = 0  # of the last one
        self._kept_s: dict[int, float] = {}
        self.log: list[Checkpointed] = []
        """The checkpoints that became permanent in this run, the last 10,000."""

    @property
    def messages(self) -> Messages:
        """What this job has told others so far."""
        return self._letters.messages

    @property
    def permanent(self) -> int:
        """The batch that the job goes back to; -1 for the beginning."""
        return self._machine.permanent.batch

    # -- going on, and back -------------------------------------------------------------------------------------------

    def leave(self) -> int:
        """The job is about to go back, and hears and saves nothing until it starts again; returns the batch it goes to.

        Otherwise a checkpoint could become permanent that is on its way out.
        """
        with self._lock:
            self._going_back = True
            found = self._found()  # it may not have started yet
            return NONE if found is None else found.checkpoint.batch

    def start(self, committed: int, *, kept: Iterable[int] = ()) -> None:
        """Go on behind a batch that counts, or behind the permanent checkpoint if the job was sent back to that.

        ``kept`` are batches that all shards have a backup of.
        """
        with self._lock:
            found = self._found()
            self._machine = self._new_machine()
            self._at_work, self._going_back = None, False
            self._letters.begin_anew()
            permanent = self._machine.permanent if found is None else found.checkpoint
            if committed >= 0:
                now = self._at(committed) if committed > permanent.batch else None
                waiting = [self._at(batch) for batch in kept if permanent.batch < batch <= committed]
                self._act(self._machine.handle(Restarted(permanent=permanent, now=now, kept=tuple(waiting))))
            self.hear()

    def restore_logs(self) -> None:
        """Have every log that is gone begin anew where the permanent checkpoint left it; repeatable."""
        found = self._found()
        permanent = self._machine.permanent if found is None else found.checkpoint
        self._observe(LogStep.WENT_BACK, self.job, permanent.batch)
        for name, writer in self.logs.writers.items():
            if writer.has_lost(permanent.batch):
                end, position, saved = permanent.batch + 1, 0, {}
                if found is not None:
                    position, saved = found.positions[name], self._store.log(name, start=found.starts[name], end=end)
                writer.begin_at(end, position=position, kept=saved)

    def _found(self) -> Permanent | None:
        """What is noted of the permanent checkpoint; refused if it is that of a job with other streams."""
        found = self._store.read()
        if found is not None:
            was = {*found.checkpoint.read, *found.checkpoint.written}
            now = {*self._inputs, *self._outputs}
            if was != now:
                raise BackupError(
                    f"Job {self.job!r} has another part in its graph than when its checkpoint in {self._store.place} "
                    f"was taken: streams {', '.join(sorted(was ^ now))} are new or gone. Cut the graph as it was, or "
                    f"begin anew with other folders (checkpoint= and backups=)."
                )
        return found

    # -- batches ------------------------------------------------------------------------------------------------------

    def must_wait(self, batch: int) -> bool:
        """Whether a batch may not begin before the job has a newer permanent checkpoint."""
        return batch - self.permanent > batches_kept(self._protection)

    def names(self, batch: int, *, due: bool) -> bool:
        """A batch is about to begin: whether all shards are to save it."""
        with self._lock:
            self.committed(batch - 1)
            read = self._read(batch)
            requests = self._letters.met(read)
            event = Committed(
                batch=batch,
                read=read,
                written=dict.fromkeys(self._outputs, batch + 1),
                due=due or self._holds_back(read),
                requests=tuple(requests),
                state_bytes=self._weight,
                tuple_bytes={key: self._batch_bytes(name) for key, name in self._inputs.items()},
            )
            actions = self._machine.would(event)
            named = any(isinstance(action, Keep) for action in actions)
            for action in actions:
                if isinstance(action, Send):
                    self._letters.request(action.request)
            if named:
                self._observe(LogStep.NAMED, self.job, batch)
            self._at_work = event
            return named

    def saved(self, batch: int, *, state_bytes: int) -> None:
        """The shards have saved a batch that was named, in so many bytes."""
        self._state_bytes[batch] = self._weight = state_bytes
        self._state_bytes = {of: size for of, size in self._state_bytes.items() if of >= self.permanent}

    def committed(self, batch: int) -> None:
        """All batches up to this one count."""
        with self._lock:
            event = self._at_work
            if self._going_back:
                return
            if event is not None and event.batch <= batch:
                self._at_work = None
                self._letters.told(event.requests)
                self._act(self._machine.handle(event))
            self.hear()

    def hear(self, *, held_up: bool = False) -> bool:
        """Hear what other jobs have to say; whether there was something. ``held_up`` if the next batch has to wait."""
        with self._lock:
            if self._going_back or self._at_work is not None:
                return False  # what the batch at work was said to be is decided
            actions: list[Action] = []
            for event in self._letters.new(extensible=self._machine.protocol.extensible):
                actions += self._machine.handle(event)
            ahead = self._letters.ahead(self._machine.now.read) if held_up else ()
            if ahead:
                actions += self._machine.handle(Asked(requests=ahead, held_up=True))
            self._act(actions)
            return bool(actions)

    # -- what the machine is told -------------------------------------------------------------------------------------

    def _new_machine(self) -> CheckpointMachine:
        return CheckpointMachine(
            self.job,
            protocol=protocol_named(self._protection.protocol),
            inputs=dict.fromkeys(self._inputs, _UNBOUNDED),
            outputs=self._outputs,
        )

    def _at(self, batch: int) -> Checkpoint:
        """The time context after a batch that counts; logs begin where they are acknowledged."""
        return Checkpoint(
            batch=batch,
            read=self._read(batch),
            written=dict.fromkeys(self._outputs, batch + 1),
            log_start={
                key: min(batch + 1, self.logs.writers[name].mail.acknowledged(reader))
                for key, (name, reader) in self._outputs.items()
            },
        )

    def _read(self, batch: int) -> dict[str, int]:
        return {key: self.logs.read_by(name, batch) for key, name in self._inputs.items()}

    def _holds_back(self, read: Mapping[str, int]) -> bool:
        """Whether half of a log's room is taken by what this job has read and could go back for."""
        pending = self._machine.pending
        newest = pending[-1].checkpoint if pending else self._machine.permanent
        return any(
            2 * self.logs.views[name].bytes_between(newest.read[key], read[key]) >= self.logs.bytes_max
            for key, name in self._inputs.items()
        )

    def _batch_bytes(self, name: str) -> int:
        found = self.logs.views[name].held().batches
        return sum(one.bytes for one in found) // len(found) if found else 0

    # -- what it wants done -------------------------------------------------------------------------------------------

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Keep(checkpoint=checkpoint):
                    self._kept_s[checkpoint.batch] = self._clock.monotonic_s()
                case Save():
                    self._save(action)
                    self._act(self._machine.handle(Saved(batch=action.checkpoint.batch)))
                case Send(request=request):
                    self._letters.request(request)
                case Acknowledge(stream=stream, position=position, load=load):
                    self._observe(LogStep.READ, self._inputs[stream], self.permanent)
                    self._letters.acknowledge(stream, position, load)
                    self._observe(LogStep.ACKNOWLEDGED, self._inputs[stream], self.permanent)
                case AskExtension(stream=stream, position=position, checkpoint=waiting):
                    self._letters.ask_extension(stream, position=position, checkpoint=waiting)
                case Trim(stream=stream):
                    self._observe(LogStep.TRIMMING, self._outputs[stream][0], self.permanent)
                    self.logs.writers[self._outputs[stream][0]].trim()
                case Forget():
                    pass  # its backups go with time

    def _save(self, action: Save) -> None:
        checkpoint = action.checkpoint
        self._observe(LogStep.SAVING, self.job, checkpoint.batch)
        starts: dict[str, int] = {}
        for part in action.log:  # of one stream there is a part for each reader, and they end at the same batch
            name, _ = self._outputs[part.stream]
            starts[name] = min(part.start, starts.get(name, part.start))
        end = checkpoint.batch + 1
        logs = {name: self._log_to_save(name, starts.get(name, end), end) for name in self.logs.writers}
        log_bytes = self._store.write(checkpoint, logs)
        self._observe(LogStep.SAVED, self.job, checkpoint.batch)
        now_s = self._clock.monotonic_s()
        self.log.append(
            Checkpointed(
                job=self.job,
                batch=checkpoint.batch,
                state_bytes=self._state_bytes.get(checkpoint.batch, 0),
                log_bytes=log_bytes,
                waited_s=now_s - self._kept_s.get(checkpoint.batch, now_s),
                time_s=self._clock.now_s(),
            )
        )
        del self.log[:-_LOG_MAX]
        self._kept_s = {batch: at_s for batch, at_s in self._kept_s.items() if batch > checkpoint.batch}

    def _log_to_save(self, name: str, start: int, end: int) -> LogToSave:
        writer = self.logs.writers[name]
        start = min(end, max(start, writer.acknowledged()))  # what was acknowledged since may be trimmed
        files = writer.kept(start, end)
        if len(files) < end - start:
            raise LogLostError(stream=writer.stream, batch=end)
        return LogToSave(start=start, position=writer.position_after(end - 1), files=files)
