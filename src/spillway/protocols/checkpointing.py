"""When a job keeps, saves and acknowledges checkpoints: one machine, told by its protocol what to wait for.

Theory of operation
-------------------
A job (seed 003's operator) works in numbered batches, reads input streams and writes output streams by position. Its
*checkpoint* is all of its state at the end of a batch, with the positions read and written by then. Whatever happens,
a job that loses its memory goes back to its last *permanent* checkpoint and reads on from there; what it had written
since, it writes again, to the same positions. Readers drop positions they have seen.

    committed, due or requested   keep a copy in memory (*pending*); request checkpoints of those readers that have not
                                  acknowledged what was written before it
    acknowledged                  trim the log; a pending checkpoint whose outputs are all acknowledged far enough is
                                  saved, and those before it are forgotten
    saved                         it is *permanent*: acknowledge every input as far as it had read
    restarted                     acknowledge again, request again: whatever was cut off between two actions

``checkpoint_states`` has the table of a checkpoint's states. How far is far enough, and how a request may be answered
by less than a checkpoint, is the protocol's: ``uncoordinated``, ``coordinated``, ``extended``.

Why relaxed consistency holds
-----------------------------
Let y.r be what the reader's permanent checkpoint has read of a stream x -> y, x.w what the producer's has written of
it and x.l where the log saved with it begins (x.l = x.w if there is none). Whoever goes back, y needs the stream from
y.r on, or from where it is if it lives, which is no less. At every moment

    every acknowledgement <= y.r      it is sent when the write is finished, and y.r never falls: checkpoints are saved
                                      in the order of their batches
    x's log in memory begins <= y.r   it is trimmed by acknowledgements alone, and begins at x.l after x went back
    x.l <= y.r                        a checkpoint is saved with the log from the position acknowledged so far, or from
                                      x.w if that is acknowledged

so what y needs is in x's memory if x lives, and otherwise in the log saved with x's checkpoint up to x.w, and written
again from there on. At the beginning all are 0. None of this asks what the protocol waits for, nor for the shape of
the graph: *a protocol can cost log or time, never tuples*. What it decides is how much log a checkpoint has: none if
it waited until x.w is acknowledged.

Why nobody waits for ever
-------------------------
A pending checkpoint waits for readers' checkpoints. Each request says which checkpoints wait for it, through whomever
(``waiting``: the seed's identifiers, one for each job on the way and not only of the first, so that a join that is
asked twice is not taken for a cycle). A pending one that comes to be waited for by more tells those it waits for.
Hence if checkpoints wait around a cycle, one finds itself among those that wait for it, and ``extended`` breaks the
cycle there. Requests stay in the log until they are acknowledged, so a reader that goes back meets them again;
acknowledgements are told again to a producer that does. When too many are pending the *newest* gives way to a newer
one, never the oldest: that one is becoming permanent.

A log is bounded, its producer waits, and only a permanent checkpoint of the reader frees it. So a reader makes one,
due or not, before it holds back half of a log. In a cycle, logs can also be full of what nobody has read: then no
protocol helps, and one stream of every cycle must be one whose producer is not made to wait.

Where the seed is silent: it saves every pending checkpoint that is acknowledged, here only the newest is; its average
load is one number, which would count a diamond twice and grow around a cycle for ever, here it is kept by job.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

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
    LogPart,
    Request,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
    nothing_yet,
)
from spillway.protocols.checkpoint_protocol import CheckpointProtocol
from spillway.protocols.checkpoint_states import TRANSITIONS, Cause, Pending, State

PENDING_MAX = 4
"""How many copies of its state a job keeps in memory, unless told."""

_STORY_MAX = 100  # events and actions
_WEIGHT = 4  # of all checkpoints before, against the last one, in the mean size


class RefusedError(AssertionError):
    """An event that cannot be, which changed nothing; the message has the story that led there."""


class CheckpointMachine:
    """One job's checkpoints, from its start to its end or failure."""

    def __init__(
        self,
        job: str,
        *,
        protocol: CheckpointProtocol,
        inputs: Mapping[str, int],
        outputs: Iterable[str],
        pending_max: int = PENDING_MAX,
    ) -> None:
        """``inputs`` has, by stream, the positions its log may hold before the producer waits."""
        assert pending_max >= 2, "the oldest is becoming permanent while the newest gives way: at least 2"
        assert all(log_max >= 1 for log_max in inputs.values()), inputs
        self.job = job
        self.protocol = protocol
        self.inputs = dict(inputs)
        self.outputs = frozenset(outputs)
        assert not self.outputs & {*inputs}, f"{job}: what it writes for itself is inside the job"
        self.pending_max = pending_max
        self.permanent = nothing_yet(inputs=self.inputs, outputs=self.outputs)
        self.now = self.permanent  # after the last batch; its log begins where it is trimmed
        self.pending: list[Pending] = []  # oldest first; only the oldest may be being saved
        self.acknowledged = dict.fromkeys(self.outputs, 0)
        self._loads: dict[str, int] = {}  # of the jobs downstream
        self._checkpoint_bytes = 0
        self._state_bytes = 0
        self._tuple_bytes: Mapping[str, int] = {}
        self._begun = False
        self._story: deque[Event | Action] = deque(maxlen=_STORY_MAX)

    @property
    def story(self) -> list[str]:
        """The last events, and what was to be done about each."""
        return [f"  {told}" if isinstance(told, Action) else str(told) for told in self._story]

    def handle(self, event: Event) -> list[Action]:
        """What to do about an event, in this order; an event that cannot be raises and changes nothing."""
        problem = self._problem(event)
        if problem:
            story = "\n".join(f"  {line}" for line in self.story)
            raise RefusedError(f"Job {self.job!r} refuses {event}: {problem}. What happened:\n{story}")
        self._begun = True
        actions: list[Action] = []
        handler: Callable[[Any, list[Action]], None] = getattr(self, _HANDLERS[type(event)])
        handler(event, actions)
        self._story.append(event)
        self._story.extend(actions)
        return actions

    def would(self, event: Event) -> list[Action]:
        """What ``handle`` would answer; nothing is changed.

        For a runtime that must know before a batch begins whether it will be kept.
        """
        other = copy.copy(self)
        other.pending = [replace(one, needs=dict(one.needs), waiting=dict(one.waiting)) for one in self.pending]
        other.acknowledged, other._loads = dict(self.acknowledged), dict(self._loads)
        other._story = deque(self._story, maxlen=_STORY_MAX)
        return other.handle(event)

    # -- what cannot be -----------------------------------------------------------------------------------------------

    def _problem(self, event: Event) -> str:
        match event:
            case Committed():
                return self._problem_of_batch(event)
            case Asked(requests=requests) if not {request.stream for request in requests} <= self.inputs.keys():
                return "it does not read that stream"
            case Acknowledged(stream=stream) | ExtensionAsked(stream=stream) if stream not in self.outputs:
                return "it does not write that stream"
            case ExtensionAsked() if not self.protocol.extensible:
                return f"no checkpoint of a job that is {self.protocol.name} is extended"
            case Saved(batch=batch) if not any(
                one.checkpoint.batch == batch and (one.state, Cause.SAVED) in TRANSITIONS for one in self.pending
            ):
                return "that checkpoint is not being saved"
            case Restarted() if self._begun:
                return "it has begun; who restarts gets a new machine"
            case Restarted(permanent=permanent, now=now, kept=kept):
                if any(self._is_of_others(one) for one in (permanent, now or permanent, *kept)):
                    return "its positions are of other streams"
        return ""

    def _is_of_others(self, event: Committed | Checkpoint) -> bool:
        return event.read.keys() != self.inputs.keys() or event.written.keys() != self.outputs

    def _problem_of_batch(self, event: Committed) -> str:
        now = self.now
        if event.batch <= now.batch:
            return f"batch {now.batch} is committed already"
        if self._is_of_others(event):
            return "its positions are of other streams"
        if any(event.read[stream] < now.read[stream] for stream in now.read):
            return "it has read more before"
        if any(event.written[stream] < now.written[stream] for stream in now.written):
            return "it has written more before"
        for request in event.requests:
            if request.stream not in self.inputs or request.position > event.read[request.stream]:
                return f"{request} is not in what was read"
        return ""

    # -- events -------------------------------------------------------------------------------------------------------

    def _committed(self, event: Committed, actions: list[Action]) -> None:
        read, written = dict(event.read), dict(event.written)  # a runtime may go on with its own
        self.now = Checkpoint(batch=event.batch, read=read, written=written, log_start=self.now.log_start)
        self._state_bytes = event.state_bytes
        self._tuple_bytes = event.tuple_bytes or self._tuple_bytes
        self._obey(event.requests, actions, due=event.due or self._holds_back_too_much(), held_up=False)

    def _asked(self, event: Asked, actions: list[Action]) -> None:
        self._obey(event.requests, actions, due=False, held_up=event.held_up)

    def _was_acknowledged(self, event: Acknowledged, actions: list[Action]) -> None:
        self._loads.update(event.load)
        self._loads.pop(self.job, None)  # around a cycle
        if event.position > self.acknowledged[event.stream]:
            self.acknowledged[event.stream] = event.position
            actions.append(Trim(stream=event.stream, position=event.position))
            self._save_what_may_be(actions)

    def _extension_asked(self, event: ExtensionAsked, actions: list[Action]) -> None:
        for one in self.pending:  # none of that name: it was replaced, or is permanent
            if one.checkpoint.batch == event.checkpoint and one.state is State.PENDING:
                one.needs[event.stream] = min(one.needs[event.stream], event.position)
        self._save_what_may_be(actions)

    def _saved(self, event: Saved, actions: list[Action]) -> None:
        saved = self.pending.pop(0)
        self._move(saved, Cause.SAVED)
        self.permanent = saved.checkpoint
        actions.append(Forget(batch=event.batch))
        for stream in self.inputs:
            self._acknowledge(stream, actions)
        self._save_what_may_be(actions)

    def _restarted(self, event: Restarted, actions: list[Action]) -> None:
        self.permanent = event.permanent
        self.now = event.now or event.permanent
        self.acknowledged = dict(self.now.log_start)
        for stream in self.inputs:
            self._acknowledge(stream, actions)
        for checkpoint in sorted(event.kept, key=lambda one: one.batch):
            if checkpoint.batch <= self.permanent.batch or len(self.pending) == self.pending_max:
                actions.append(Forget(batch=checkpoint.batch))
            else:
                self._wait_with(checkpoint, {}, actions)
        if self._holds_back_too_much():  # the driver may have died before this was kept, and no batch may come
            self._keep({}, actions)
        self._save_what_may_be(actions)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _obey(self, requests: Iterable[Request], actions: list[Action], *, due: bool, held_up: bool) -> None:
        """Answer every request: again, by a part of the log, by what is pending, or by one new checkpoint for all."""
        waiting: dict[str, int] = {}
        extensions: list[Request] = []
        for request in requests:
            stream, position = request.stream, request.position
            if position <= self.permanent.read[stream]:
                self._acknowledge(stream, actions)  # which the producer may have lost
            elif request.extensible and self._must_extend(request, held_up=held_up):
                self._ask_extension(request, self.permanent, actions)
            elif covering := self._covering(stream, position):
                self._wait_for(covering, request, actions)
            elif position > self.now.read[stream]:
                continue  # it is met again when it has been read
            elif request.extensible and self._rather_extends(request):
                extensions.append(request)
            else:
                due = True
                _merge(waiting, request.waiting)
        if due and self.now.batch > self._newest().batch:
            for request in extensions:
                _merge(waiting, request.waiting)  # the new one covers it
            self._keep(waiting, actions)
        else:
            for request in extensions:
                self._ask_extension(request, self._newest(), actions)
                if self.pending:
                    self._wait_for(self.pending[-1], request, actions)

    def _must_extend(self, request: Request, *, held_up: bool) -> bool:
        """Whether the sender would wait for itself, or for what cannot be read before it is let on."""
        is_waiting = request.waiting.get(self.job, -1) > self.permanent.batch
        return is_waiting or (held_up and request.position > self.now.read[request.stream])

    def _rather_extends(self, request: Request) -> bool:
        stream = request.stream
        return self.protocol.rather_extends(
            log_bytes=(request.position - self._newest().read[stream]) * self._tuple_bytes.get(stream, 0),
            checkpoint_bytes=(self._checkpoint_bytes or self._state_bytes) + sum(self._loads.values()),
        )

    def _ask_extension(self, request: Request, since: Checkpoint, actions: list[Action]) -> None:
        stream = request.stream
        actions.append(AskExtension(stream=stream, position=since.read[stream], checkpoint=request.checkpoint))

    def _covering(self, stream: str, position: int) -> Pending | None:
        return next((one for one in self.pending if one.checkpoint.read[stream] >= position), None)

    def _wait_for(self, pending: Pending, request: Request, actions: list[Action]) -> None:
        """Others wait for this one; those it waits for itself are told, if that is new."""
        if self.protocol.extensible and _merge(pending.waiting, request.waiting):
            self._request(pending, actions)

    def _holds_back_too_much(self) -> bool:
        read = self._newest().read
        return any(2 * (self.now.read[stream] - read[stream]) >= log_max for stream, log_max in self.inputs.items())

    def _newest(self) -> Checkpoint:
        return self.pending[-1].checkpoint if self.pending else self.permanent

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _keep(self, waiting: dict[str, int], actions: list[Action]) -> None:
        if len(self.pending) == self.pending_max:
            newest = self.pending.pop()
            self._move(newest, Cause.REPLACED)
            _merge(waiting, newest.waiting)  # who waited for it waits for what takes its place
            actions.append(Forget(batch=newest.checkpoint.batch))
        if self._state_bytes:
            before = self._checkpoint_bytes or self._state_bytes
            self._checkpoint_bytes = (before * _WEIGHT + self._state_bytes) // (_WEIGHT + 1)
        actions.append(Keep(checkpoint=self.now))
        self._wait_with(self.now, waiting, actions)
        self._save_what_may_be(actions)

    def _wait_with(self, checkpoint: Checkpoint, waiting: dict[str, int], actions: list[Action]) -> None:
        needs = dict(checkpoint.written) if self.protocol.waits else dict.fromkeys(self.outputs, 0)
        pending = Pending(checkpoint, State.COMMITTED, needs, waiting)
        self._move(pending, Cause.KEPT)
        self.pending.append(pending)
        self._request(pending, actions)

    def _request(self, pending: Pending, actions: list[Action]) -> None:
        """Ask those readers for checkpoints whom this one waits for."""
        batch = pending.checkpoint.batch
        waiting = {**pending.waiting, self.job: batch} if self.protocol.extensible else {}
        for stream in sorted(self.outputs):
            position = pending.needs[stream]
            if pending.state is State.PENDING and self.acknowledged[stream] < position:
                request = Request(
                    stream=stream,
                    position=position,
                    checkpoint=batch,
                    waiting=waiting,
                    extensible=self.protocol.extensible,
                )
                actions.append(Send(request=request))

    def _save_what_may_be(self, actions: list[Action]) -> None:
        """Save the newest checkpoint that need not wait any more, one at a time."""
        if self.pending and self.pending[0].state is State.SAVING:
            return
        for place in range(len(self.pending) - 1, -1, -1):
            if self._is_enough(self.pending[place]):
                break
        else:
            return
        saving = self.pending[place]
        self._move(saving, Cause.ENOUGH)
        for passed in self.pending[:place]:
            self._move(passed, Cause.PASSED)
            actions.append(Forget(batch=passed.checkpoint.batch))
        del self.pending[:place]
        written = saving.checkpoint.written
        log_start = {stream: min(self.acknowledged[stream], written[stream]) for stream in self.outputs}
        saving.checkpoint = replace(saving.checkpoint, log_start=log_start)
        parts = (
            LogPart(stream=stream, start=log_start[stream], end=written[stream])
            for stream in sorted(self.outputs)
            if log_start[stream] < written[stream]
        )
        actions.append(Save(checkpoint=saving.checkpoint, log=tuple(parts)))

    def _is_enough(self, pending: Pending) -> bool:
        return all(self.acknowledged[stream] >= position for stream, position in pending.needs.items())

    def _acknowledge(self, stream: str, actions: list[Action]) -> None:
        load = {**self._loads, self.job: self._checkpoint_bytes or self._state_bytes}
        actions.append(Acknowledge(stream=stream, position=self.permanent.read[stream], load=load))

    @staticmethod
    def _move(pending: Pending, cause: Cause) -> None:
        pending.state = TRANSITIONS[pending.state, cause]


def _merge(into: dict[str, int], more: Mapping[str, int]) -> bool:
    """Whether anything was new."""
    new = {job: batch for job, batch in more.items() if batch > into.get(job, -1)}
    into.update(new)
    return bool(new)


_HANDLERS: dict[type, str] = {
    Committed: "_committed",
    Asked: "_asked",
    Acknowledged: "_was_acknowledged",
    ExtensionAsked: "_extension_asked",
    Saved: "_saved",
    Restarted: "_restarted",
}
