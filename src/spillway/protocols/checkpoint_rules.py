"""What must hold of checkpoints between jobs whatever happens; checked at every change in tests and soaks.

The rules know nothing of how the machine decides. ``Watched`` holds what one job may do given what it was told;
``check_stream`` holds relaxed consistency (seed 003, 3.3) on one stream given what is durable and what is in memory.
"""

from spillway.protocols.checkpoint_events import (
    Acknowledge,
    Acknowledged,
    Action,
    Checkpoint,
    Event,
    Forget,
    Keep,
    Restarted,
    Save,
    Saved,
    Send,
    Trim,
)
from spillway.protocols.checkpointing import CheckpointMachine
from spillway.protocols.placement_rules import RuleBrokenError


def rule(holds: bool, broken: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise RuleBrokenError(f"Broken: {broken}.")


def check_stream(
    stream: str,
    *,
    producer: Checkpoint,
    reader: Checkpoint,
    acknowledged: int,
    log_start: int | None,
) -> None:
    """Relaxed consistency, were the producer, the reader or both to go back to these, their permanent checkpoints.

    ``acknowledged`` is the highest position sent, ``log_start`` where the log in the producer's memory begins, if it
    lives.
    """
    needed = reader.read[stream]
    rule(acknowledged <= needed, f"{stream}: nothing is acknowledged that its reader could need again")
    rule(producer.log_start[stream] <= producer.written[stream], f"{stream}: a saved log ends where it was written to")
    rule(
        producer.log_start[stream] <= needed,
        f"{stream}: what its reader goes back for is in the log that was saved, or is written again",
    )
    if log_start is not None:
        rule(log_start <= needed, f"{stream}: what its reader goes back for is in memory while its producer lives")


class Watched:
    """A checkpoint machine, looked at after every event."""

    def __init__(self, machine: CheckpointMachine) -> None:
        self.machine = machine
        self._permanent = machine.permanent
        self._acknowledged = dict(machine.permanent.log_start)
        self._kept: set[int] = set()
        self._saving: Checkpoint | None = None

    def handle(self, event: Event) -> list[Action]:
        """What the machine says; raises if it must not."""
        actions = self.machine.handle(event)
        self._note(event)
        for action in actions:
            self._check(action)
        rule(len(self._kept) <= self.machine.pending_max, "no more copies are kept than may be")
        return actions

    def _note(self, event: Event) -> None:
        match event:
            case Acknowledged():
                self._acknowledged[event.stream] = max(self._acknowledged[event.stream], event.position)
            case Saved():
                assert self._saving is not None
                self._permanent, self._saving = self._saving, None
            case Restarted():
                self._permanent = event.permanent
                self._kept = {one.batch for one in event.kept}
                self._acknowledged = dict((event.now or event.permanent).log_start)

    def _check(self, action: Action) -> None:
        now = self.machine.now
        match action:
            case Keep(checkpoint=checkpoint):
                rule(checkpoint.batch == now.batch and checkpoint.batch not in self._kept, "a batch is kept at its end")
                self._kept.add(checkpoint.batch)
            case Forget(batch=batch):
                rule(batch in self._kept, "what is forgotten was kept")
                rule(self._saving is None or self._saving.batch != batch, "what is being saved is not forgotten")
                self._kept.remove(batch)
            case Save():
                self._check_save(action)
            case Send(request=request):
                rule(request.position <= now.written[request.stream], "a request is for what was written")
            case Acknowledge(stream=stream, position=position):
                rule(position <= self._permanent.read[stream], "what is acknowledged is in a permanent checkpoint")
            case Trim(stream=stream, position=position):
                rule(position <= self._acknowledged[stream], "what is trimmed was acknowledged")

    def _check_save(self, action: Save) -> None:
        checkpoint, protocol = action.checkpoint, self.machine.protocol
        rule(checkpoint.batch in self._kept, "what is saved was kept")
        rule(self._saving is None, "one checkpoint is saved at a time")
        rule(checkpoint.batch > self._permanent.batch, "a permanent checkpoint gives way only to a newer one")
        parts = {part.stream: (part.start, part.end) for part in action.log}
        for stream, written in checkpoint.written.items():
            start = min(written, self._acknowledged[stream])
            rule(checkpoint.log_start[stream] <= start, "whoever has not acknowledged finds the log saved")
            if checkpoint.log_start[stream] < written:
                rule(parts.get(stream) == (checkpoint.log_start[stream], written), "a checkpoint says what log it has")
                rule(not protocol.waits or protocol.extensible, "a coordinated checkpoint has no log")
        self._saving = checkpoint
