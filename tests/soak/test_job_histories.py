"""No history of jobs breaks a rule of their checkpoints, and every rule broken on purpose is found."""

import re
from dataclasses import replace

import pytest

from spillway.protocols.checkpoint_events import (
    Acknowledge,
    Acknowledged,
    Action,
    Checkpoint,
    Request,
    Restarted,
    Save,
    Trim,
)
from spillway.protocols.checkpoint_rules import RuleBrokenError, Watched, check_stream
from spillway.protocols.checkpointing import CheckpointMachine, Pending
from spillway.soak.job_histories import JobHistories, live_jobs, live_some_jobs

SCHEDULES = 2_000
FOUND_WITHIN = 1_000


def test_no_history_breaks_a_rule() -> None:
    lived = live_some_jobs(range(SCHEDULES))
    assert lived.broken == {} and lived.schedules == SCHEDULES
    # And in them everything has happened.
    assert len(lived.shapes) == 7 and min(lived.shapes.values()) > 100
    assert len(lived.protocols) == 3 and min(lived.protocols.values()) > 1_000
    for often in (lived.checkpoints, lived.failures, lived.held_up, lived.saved_logs):
        assert often > 2 * SCHEDULES, lived
    assert lived.cut_off > SCHEDULES // 4 and lived.extensions > SCHEDULES


def test_a_history_is_the_same_every_time() -> None:
    def lived(seed: int) -> JobHistories:
        return live_jobs(seed)

    assert lived(11) == lived(11) != lived(12)


# -- machines that are broken on purpose ------------------------------------------------------------------------------


class AcknowledgesBeforePermanent(CheckpointMachine):
    """When the write begins."""

    def _save_what_may_be(self, actions: list[Action]) -> None:
        before = len(actions)
        super()._save_what_may_be(actions)
        for action in actions[before:]:
            if isinstance(action, Save):
                read = action.checkpoint.read
                actions += [Acknowledge(stream=stream, position=read[stream]) for stream in self.inputs]


class TrimsWhatWasWritten(CheckpointMachine):
    """As soon as a checkpoint is kept that has it."""

    def _keep(self, waiting: dict[str, int], actions: list[Action]) -> None:
        super()._keep(waiting, actions)
        actions += [Trim(stream=stream, position=self.now.written[stream]) for stream in self.outputs]


class SavesWhatIsNotAcknowledged(CheckpointMachine):
    """Before all have, and without the log, as if they had."""

    def _is_enough(self, pending: Pending) -> bool:
        return True

    def _save_what_may_be(self, actions: list[Action]) -> None:
        before = len(actions)
        super()._save_what_may_be(actions)
        for place in range(before, len(actions)):
            action = actions[place]
            if isinstance(action, Save):
                checkpoint = replace(action.checkpoint, log_start=action.checkpoint.written)
                self.pending[0].checkpoint = checkpoint
                actions[place] = Save(checkpoint=checkpoint)


class WaitsForNobody(CheckpointMachine):
    """Coordinated by name, and with the log in every checkpoint: nothing is lost, but that is what it must not need."""

    def _is_enough(self, pending: Pending) -> bool:
        return True


class WaitsForAnyReader(CheckpointMachine):
    def _is_enough(self, pending: Pending) -> bool:
        return any(self.acknowledged[stream] >= needed for stream, needed in pending.needs.items()) or not pending.needs


class IgnoresIdentifiers(CheckpointMachine):
    def _must_extend(self, request: Request, *, held_up: bool) -> bool:
        return super()._must_extend(replace(request, waiting={}), held_up=held_up)


class ExtendsSinceWhatWaits(CheckpointMachine):
    """As the seed has it, read to the letter: by the log since the pending checkpoint that was recognised."""

    def _ask_extension(self, request: Request, since: Checkpoint, actions: list[Action]) -> None:
        super()._ask_extension(request, self._newest(), actions)


class TellsNobodyWhoWaits(CheckpointMachine):
    def _wait_for(self, pending: Pending, request: Request, actions: list[Action]) -> None:
        pass


class WaitsWhileHeldUp(CheckpointMachine):
    def _must_extend(self, request: Request, *, held_up: bool) -> bool:
        return super()._must_extend(request, held_up=False)


class HoldsBackLogs(CheckpointMachine):
    def _holds_back_too_much(self) -> bool:
        return False


class ForgetsPositions(CheckpointMachine):
    """After a restart it takes all it has written for acknowledged."""

    def _restarted(self, event: Restarted, actions: list[Action]) -> None:
        super()._restarted(event, actions)
        self.acknowledged = dict(self.now.written)


class ForgetsWhereItsLogBegins(CheckpointMachine):
    """After a restart it takes all of its log for there."""

    def _restarted(self, event: Restarted, actions: list[Action]) -> None:
        super()._restarted(event, actions)
        self.acknowledged = dict.fromkeys(self.outputs, 0)


class RestartsSilently(CheckpointMachine):
    """It does not say again what may have been cut off."""

    def _restarted(self, event: Restarted, actions: list[Action]) -> None:
        super()._restarted(event, actions)
        actions[:] = [action for action in actions if not isinstance(action, Acknowledge)]


class BelievesTheLastAcknowledgement(CheckpointMachine):
    """Though they come in any order."""

    def _was_acknowledged(self, event: Acknowledged, actions: list[Action]) -> None:
        super()._was_acknowledged(event, actions)
        self.acknowledged[event.stream] = event.position


@pytest.mark.parametrize(
    ("machine_class", "rule"),
    [
        (AcknowledgesBeforePermanent, "what is acknowledged is in a permanent checkpoint"),
        (TrimsWhatWasWritten, "what is trimmed was acknowledged"),
        (SavesWhatIsNotAcknowledged, "whoever has not acknowledged finds the log saved"),
        (WaitsForNobody, "a coordinated checkpoint has no log"),
        (WaitsForAnyReader, "a coordinated checkpoint has no log"),
        (IgnoresIdentifiers, "in the end (no checkpoint is pending|every round is done)"),
        (ExtendsSinceWhatWaits, "in the end (no checkpoint is pending|every round is done)"),
        (TellsNobodyWhoWaits, "in the end (no checkpoint is pending|every round is done)"),
        (WaitsWhileHeldUp, "in the end (no checkpoint is pending|every round is done)"),
        (HoldsBackLogs, "in the end every round is done"),
        (ForgetsPositions, "whoever has not acknowledged finds the log saved"),
        (ForgetsWhereItsLogBegins, "what is to be saved of a log is there"),
        (RestartsSilently, "in the end every round is done"),
        (BelievesTheLastAcknowledgement, "what is to be saved of a log is there|in the end every round is done"),
    ],
)
def test_what_is_broken_on_purpose_is_found(machine_class: type[CheckpointMachine], rule: str) -> None:
    found = re.compile(rf"^Schedule \d+: Broken: .*({rule})(.|\n)*What happened:\n  ")
    others = set()
    for seed in range(FOUND_WITHIN):
        try:
            live_jobs(seed, machine_class)
        except RuleBrokenError as error:
            if found.match(str(error)):
                return
            others.add(str(error).partition(". ")[0])
    pytest.fail(f"{rule!r} was not found broken; but {others or 'nothing'} was")


@pytest.mark.parametrize(
    ("machine_class", "rule"),
    [
        (AcknowledgesBeforePermanent, "nothing is acknowledged that its reader could need again"),
        (TrimsWhatWasWritten, "what its reader goes back for is in memory while its producer lives"),
        (SavesWhatIsNotAcknowledged, "is in the log that was saved, or is written again"),
        (ForgetsPositions, "is in the log that was saved, or is written again"),
    ],
)
def test_what_loses_tuples_is_found_on_the_streams_alone(
    monkeypatch: pytest.MonkeyPatch, machine_class: type[CheckpointMachine], rule: str
) -> None:
    monkeypatch.setattr(Watched, "handle", lambda self, event: self.machine.handle(event))
    test_what_is_broken_on_purpose_is_found(machine_class, rule)


@pytest.mark.parametrize(
    "machine_class", [AcknowledgesBeforePermanent, TrimsWhatWasWritten, SavesWhatIsNotAcknowledged]
)
def test_what_loses_tuples_is_found_in_what_comes_out(
    monkeypatch: pytest.MonkeyPatch, machine_class: type[CheckpointMachine]
) -> None:
    monkeypatch.setattr(Watched, "handle", lambda self, event: self.machine.handle(event))
    monkeypatch.setattr("spillway.soak.job_world.check_stream", lambda stream, **given: None)
    test_what_is_broken_on_purpose_is_found(machine_class, "no tuple is lost before it is read")


def test_relaxed_consistency() -> None:
    def at(position: int, *, log_start: int | None = None) -> Checkpoint:
        start = position if log_start is None else log_start
        return Checkpoint(batch=0, read={"s": position}, written={"s": position}, log_start={"s": start})

    check_stream("s", producer=at(5), reader=at(5), acknowledged=5, log_start=5)
    check_stream("s", producer=at(9, log_start=4), reader=at(5), acknowledged=3, log_start=None)
    for producer, acknowledged, log_start, broken in [
        (at(6), 5, 5, "in the log that was saved, or is written again"),
        (at(9, log_start=6), 5, 5, "in the log that was saved, or is written again"),
        (at(5), 6, 5, "nothing is acknowledged"),
        (at(5), 5, 6, "in memory while its producer lives"),
        (at(4, log_start=5), 5, 5, "ends where it was written to"),
    ]:
        with pytest.raises(RuleBrokenError, match=broken):
            check_stream("s", producer=producer, reader=at(5), acknowledged=acknowledged, log_start=log_start)
