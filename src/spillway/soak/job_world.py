"""Jobs at work in memory: logs, copies, durable checkpoints and mailboxes, a few lines of pretence around real
machines.

Everything a machine says is done here, action by action, and may be cut off before any of them. After every change the
rules of the streams concerned are checked, and every tuple written is compared with what an undisturbed run writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from spillway.protocols.checkpoint_events import (
    Acknowledge,
    Acknowledged,
    Action,
    Asked,
    AskExtension,
    Checkpoint,
    Committed,
    Event,
    ExtensionAsked,
    Forget,
    Keep,
    Request,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
    nothing_yet,
)
from spillway.protocols.checkpoint_rules import Watched, check_stream, rule
from spillway.protocols.checkpointing import CheckpointMachine
from spillway.soak.job_graphs import Job, JobGraph, Stream, Work, can_work, new_work, undisturbed, work_round

ROUNDS_PER_BATCH_MAX = 4


class Log:
    """A stream's tuples in its producer's memory from ``start`` on, and the requests that stand among them."""

    __slots__ = ("requests", "start", "tuples")

    def __init__(self, start: int, tuples: list[int]) -> None:
        self.start = start
        self.tuples = tuples
        self.requests: list[tuple[int, Request]] = []  # each with a number of its own

    @property
    def end(self) -> int:
        return self.start + len(self.tuples)

    def trim(self, position: int) -> None:
        del self.tuples[: max(0, position - self.start)]
        self.start = max(self.start, position)
        self.requests = [one for one in self.requests if one[1].position > position]


@dataclass(frozen=True, slots=True)
class Copy:
    """A checkpoint with the state it is of, and the log saved with it."""

    checkpoint: Checkpoint
    work: Work
    log: dict[str, list[int]] = field(default_factory=dict)


class Running:
    """One job: what is in its memory, and what of it is durable."""

    def __init__(self, job: Job, machine: CheckpointMachine) -> None:
        self.job = job
        self.watched = Watched(machine)
        nothing = nothing_yet(inputs=machine.inputs, outputs=machine.outputs)
        self.durable = Copy(nothing, new_work(job))
        self.work = new_work(job)
        self.batch = -1
        self.read = dict(nothing.read)
        self.written = dict(nothing.written)
        self.kept: dict[int, Copy] = {}
        self.saving: Copy | None = None
        self.down = False
        self.memory_lost = False
        self.told: set[int] = set()  # numbers of requests
        self.told_ahead: set[int] = set()


class World:
    """All jobs of a graph. ``cut`` is asked before every action whether the job fails there."""

    def __init__(self, graph: JobGraph, machine_class: type[CheckpointMachine], cut: Callable[[Running], bool]) -> None:
        self.graph = graph
        self.right = undisturbed(graph)
        self.mail: list[Acknowledged | ExtensionAsked] = []
        self.story: list[tuple[str, object]] = []
        self.checkpoints = self.extensions = self.saved_log = self.restarts = 0
        self._machine_class = machine_class
        self._cut = cut
        self._requests = 0
        self._streams = {stream.name: stream for stream in graph.streams}
        self.jobs = {job.name: Running(job, self._machine(job)) for job in graph.jobs}
        self.logs: dict[str, Log | None] = {stream.name: Log(0, []) for stream in graph.streams}
        self._acknowledged = {stream.name: Acknowledged(stream=stream.name, position=0) for stream in graph.streams}
        self._outside: dict[str, list[int]] = {job.name: [] for job in graph.jobs}

    def _machine(self, job: Job) -> CheckpointMachine:
        return self._machine_class(
            job.name,
            protocol=job.protocol,
            inputs={stream.name: stream.log_max for stream in job.inputs},
            outputs=[stream.name for stream in job.outputs],
            pending_max=job.pending_max,
        )

    # -- batches ------------------------------------------------------------------------------------------------------

    def is_held_up(self, running: Running) -> bool:
        """Whether a log is full; feedback makes nobody wait, or a cycle could be full of what nobody has read."""
        for stream in running.job.outputs:
            log = self.logs[stream.name]
            if not stream.feedback and log is not None and len(log.tuples) >= stream.log_max:
                return True
        return False

    def can_work(self, running: Running) -> bool:
        """Whether the job has read all that its next round takes in, and there is one."""
        return running.work.rounds < self.graph.rounds and can_work(running.job, running.work)

    def readable(self, running: Running, stream: Stream) -> int:
        """How many tuples the reader has not seen."""
        log = self.logs[stream.name]
        if log is None:
            return 0
        rule(log.start <= running.read[stream.name], f"{stream.name}: no tuple is lost before it is read")
        return max(0, log.end - running.read[stream.name])

    def work(self, running: Running, reads: dict[str, int], rounds: int, *, torn: bool = False) -> None:
        """A batch: read so many tuples of each input, do up to so many rounds; torn, it is written, not committed."""
        job, work = running.job, running.work.copy()
        read, written = dict(running.read), dict(running.written)
        for stream, count in reads.items():
            log = self.logs[stream]
            if count and log is not None:
                at = read[stream] - log.start
                work.ahead[stream] += log.tuples[at : at + count]
                read[stream] += count
        while rounds and work.rounds < self.graph.rounds and can_work(job, work):
            rounds -= 1
            for output, tuples in zip(job.outputs, work_round(job, work), strict=True):
                self._write(output.name, written[output.name], tuples)
                written[output.name] += len(tuples)
            self._put_out(job.name, work)
        if not torn:
            running.work, running.read, running.written = work, read, written
            running.batch += 1

    def _write(self, stream: str, position: int, tuples: list[int]) -> None:
        log = self.logs[stream]
        assert log is not None, stream
        right = self.right.streams[stream][position : position + len(tuples)]
        rule(right == tuples, f"{stream}: at position {position} is written what an undisturbed run writes there")
        rule(position <= log.end, f"{stream}: it is written without gaps")
        log.tuples += tuples[log.end - position :]  # what stands there already was written before
        limit = self._streams[stream].log_max + ROUNDS_PER_BATCH_MAX * 3
        rule(self._streams[stream].feedback or len(log.tuples) <= limit, f"{stream}: its log stays within its bound")

    def _put_out(self, job: str, work: Work) -> None:
        """To the outside, which drops what it has seen."""
        outside, place = self._outside[job], work.rounds - 1
        rule(place <= len(outside), f"{job}: nothing is missing from what is put out")
        if place == len(outside):
            outside.append(work.checksum)
        rule(outside[place] == work.checksum == self.right.checksums[job][place], f"{job}: what is put out is right")

    def requests(self, running: Running, *, ahead: bool) -> tuple[Request, ...]:
        """Those the job was not told of: up to where it has read, or also ahead of that."""
        found = []
        for stream in running.job.inputs:
            log = self.logs[stream.name]
            for number, request in log.requests if log else ():
                if number in running.told:
                    continue
                if request.position <= running.read[stream.name]:
                    running.told.add(number)
                    found.append(request)
                elif ahead and number not in running.told_ahead:
                    running.told_ahead.add(number)
                    found.append(request)
        return tuple(found)

    # -- events and actions -------------------------------------------------------------------------------------------

    def tell(self, running: Running, event: Event) -> None:
        """Tell a job's machine, and do what it says, or what of it comes before the job fails."""
        self.story.append((running.job.name, event))
        for action in running.watched.handle(event):
            if self._cut(running):
                return
            self.story.append((running.job.name, action))
            if isinstance(action, Trim):
                log = self.logs[action.stream]
                assert log is not None
                log.trim(min(log.end, (log.start + action.position) // 2))  # a job may fail in the middle of it, too
                if self._cut(running):
                    return
            self._act(running, action)

    def _act(self, running: Running, action: Action) -> None:
        match action:
            case Keep(checkpoint=checkpoint):
                self.checkpoints += 1
                running.kept[checkpoint.batch] = Copy(checkpoint, running.work.copy())
            case Save(checkpoint=checkpoint, log=parts):
                saved: dict[str, list[int]] = {}
                for part in parts:
                    log = self.logs[part.stream]
                    assert log is not None
                    rule(log.start <= part.start, f"{part.stream}: what is to be saved of a log is there")
                    saved[part.stream] = log.tuples[part.start - log.start : part.end - log.start]
                    self.saved_log += 1
                running.saving = Copy(checkpoint, running.kept[checkpoint.batch].work, saved)
            case Forget(batch=batch):
                del running.kept[batch]
            case Send(request=request):
                log = self.logs[request.stream]
                assert log is not None
                self._requests += 1
                log.requests.append((self._requests, request))
            case Acknowledge(stream=stream, position=position, load=load):
                sent = Acknowledged(stream=stream, position=position, load=load)
                if position >= self._acknowledged[stream].position:
                    self._acknowledged[stream] = sent
                self.mail.append(sent)
                self.check(self._streams[stream])
            case AskExtension(stream=stream, position=position, checkpoint=batch):
                self.extensions += 1
                self.mail.append(ExtensionAsked(stream=stream, position=position, checkpoint=batch))
            case Trim(stream=stream, position=position):
                log = self.logs[stream]
                assert log is not None
                log.trim(position)
                self.check(self._streams[stream])

    def check(self, stream: Stream) -> None:
        log = self.logs[stream.name]
        check_stream(
            stream.name,
            producer=self.jobs[stream.producer].durable.checkpoint,
            reader=self.jobs[stream.reader].durable.checkpoint,
            acknowledged=self._acknowledged[stream.name].position,
            log_start=None if log is None else log.start,
        )

    def committed(self, running: Running, *, due: bool, state_bytes: int, tuple_bytes: int) -> None:
        event = Committed(
            batch=running.batch,
            read=running.read,
            written=running.written,
            due=due,
            requests=self.requests(running, ahead=False),
            state_bytes=state_bytes,
            tuple_bytes=dict.fromkeys(running.read, tuple_bytes),
        )
        self.tell(running, event)

    def asked(self, running: Running) -> bool:
        """Tell a job between two batches of requests; whether there were any."""
        held_up = self.is_held_up(running)
        found = self.requests(running, ahead=held_up)
        if found:
            self.tell(running, Asked(requests=found, held_up=held_up))
        return bool(found)

    def delivered(self, place: int, *, again: bool) -> bool:
        """Hand a letter over, to come again or not; whether its reader was there."""
        letter = self.mail[place]
        running = self.jobs[self._streams[letter.stream].producer]
        if running.down:
            return False
        if not again:
            self.mail[place] = self.mail[-1]
            self.mail.pop()
        self.tell(running, letter)
        return True

    def written_durably(self, running: Running) -> Checkpoint:
        """The write that is under way is finished; nobody has been told."""
        assert running.saving is not None
        running.durable, running.saving = running.saving, None
        for stream in (*running.job.inputs, *running.job.outputs):
            self.check(stream)
        return running.durable.checkpoint

    def saved(self, running: Running) -> None:
        self.tell(running, Saved(batch=self.written_durably(running).batch))

    # -- failures -----------------------------------------------------------------------------------------------------

    def fail(self, running: Running, *, memory_lost: bool, written: bool) -> None:
        """A job is gone; a write under way was finished or not. Its memory, with its logs, may be there still."""
        self.story.append((running.job.name, f"fails, {'memory lost' if memory_lost else 'its driver only'}"))
        running.down, running.memory_lost = True, memory_lost or (running.down and running.memory_lost)
        if running.saving is not None and written:
            self.story.append((running.job.name, f"had saved {self.written_durably(running).batch}"))
        running.saving = None
        if memory_lost:
            running.kept.clear()
            for stream in running.job.outputs:
                self.logs[stream.name] = None

    def restart(self, running: Running) -> None:
        """From its memory, or from what is durable; its mailbox has the highest acknowledgements again."""
        self.restarts += 1
        running.watched = Watched(self._machine(running.job))
        running.down = False
        running.told.clear()
        running.told_ahead.clear()
        permanent = running.durable.checkpoint
        if running.memory_lost:
            event = Restarted(permanent=permanent)
            running.work, running.batch = running.durable.work.copy(), permanent.batch
            running.read, running.written = dict(permanent.read), dict(permanent.written)
            for stream in running.job.outputs:
                log = list(running.durable.log.get(stream.name, ()))
                self.logs[stream.name] = Log(permanent.written[stream.name] - len(log), log)
        else:
            logs = {stream.name: self.logs[stream.name] for stream in running.job.outputs}
            now = Checkpoint(
                batch=running.batch,
                read=running.read,
                written=running.written,
                log_start={name: log.start for name, log in logs.items() if log is not None},
            )
            kept = tuple(copy.checkpoint for copy in running.kept.values())
            event = Restarted(permanent=permanent, now=now, kept=kept)
        running.memory_lost = False
        for stream in running.job.outputs:
            self.mail.append(self._acknowledged[stream.name])
            self.check(stream)
        self.tell(running, event)
