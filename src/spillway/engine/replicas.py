"""A replica's part in its group, as whoever runs it acts it out: hearts, looks at the seat, claims.

Replicas of a job read the same batches of the same streams, by their numbers, and put out the same (what they put out
follows from state and tuples alone, or they are refused). So taking over is nothing but being followed: readers open
the log of another replica where they stand, and acknowledge to all of them. A replica is *ready* if its logs have all
that some reader has not acknowledged, so a reader that follows it lacks nothing.

A group that runs freely sends only what comes from now on. Who takes over notes what its logs hold already as dropped
for readers that have not acknowledged it, before it claims, and what it has done and its logs have not, because they
went with memory; so they find these batches empty, whenever they read them.
If the claim fails, the note stays, in a log that nobody follows; when it is claimed again, more is dropped than would
be, and all of it is counted.
"""

from spillway.clock import Clock
from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace
from spillway.engine.seat import Seat
from spillway.engine.stream_log import Unsent
from spillway.graph.replicas import Member
from spillway.protocols.failover import Claimed, Failover, Looked, Rule, State
from spillway.protocols.seating import NOBODY
from spillway.records.failed_over import FailedOver

_BEATS_PER_DETECTION = 5
_LOOKS_PER_DETECTION = 10
_LOG_MAX = 10_000


class Replica:
    """One replica at work."""

    def __init__(self, member: Member, logs: JobLogs, *, place: LogPlace, clock: Clock) -> None:
        self.member = member
        self._logs = logs
        self._clock = clock
        self._seat = Seat(place, member.job)
        detection_s = member.group.detection.total_seconds()
        self._rule = Rule(detection_s=detection_s, patience=1.0 if member.group.free_running else None)
        self._failover = Failover(member.name, self._rule)
        self._beats = 0
        self._committed = -1
        self._beat_s = self._looked_s = float("-inf")
        self.log: list[FailedOver] = []
        """Each time that it became active, the last 10,000."""
        self.let_go = False
        """Whether nobody keeps for it what it has not read: it has to be started again, from a peer."""

    @property
    def active(self) -> bool:
        return self._failover.state is State.ACTIVE

    def begin_anew(self) -> None:
        """It is started again, and whatever it was before it is not now."""
        self._failover = Failover(self.member.name, self._rule)
        self._looked_s = float("-inf")
        self.let_go = False

    def look(self, *, committed: int, working: bool) -> None:
        """Beat if it is active and at work, or has done something; see who is active; take over if it has to."""
        now_s = self._clock.monotonic_s()
        if self.member.group.either:  # readers take what they need from whoever has it
            if working and now_s - self._looked_s >= self._rule.detection_s / _LOOKS_PER_DETECTION:
                self._looked_s = now_s
                self._logs.be_there()
                self.let_go = self.member.name in self._seat.newest().missing
            return
        if self.active and (committed > self._committed or (working and self._is_due(now_s, self._beat_s))):
            self._beats = max(self._beats, self._seat.beats(self.member.name)) + 1  # which may be its forerunner's
            self._seat.beat(self.member.name, self._beats)
            self._beat_s = now_s
        self._committed = committed
        if now_s - self._looked_s < self._rule.detection_s / _LOOKS_PER_DETECTION or not working:
            return
        self._looked_s = now_s
        self._logs.be_there()
        seated = self._seat.newest()
        self.let_go = self.member.name in seated.missing
        beats = self._seat.beats(seated.replica) if seated.epoch != NOBODY else 0
        claim = self._failover.handle(
            Looked(
                epoch=seated.epoch,
                active=seated.replica,
                beats=beats,
                ready=self.ready(),
                now_s=now_s,
                let_go=self.let_go,
            )
        )
        if claim is None:
            if self.active and self.member.group.free_running and not self.ready():
                self._tell_gone()  # its logs were lost while it was at work
            return
        unsent = self._drop_unsent() if self.member.group.free_running and seated.epoch != NOBODY else Unsent()
        taken = seated.claimed(self.member.name)
        assert taken.epoch == claim.epoch, (taken, claim)
        won = self._seat.add(taken)
        self._failover.handle(Claimed(epoch=claim.epoch, won=won))
        if won:
            self._note(claim.epoch, before=seated.replica, silent_s=self._failover.silent_s, unsent=unsent)

    def ready(self) -> bool:
        """Whether readers would lack nothing that this one has put out, or will."""
        return all(writer.has_since_acknowledged(self._committed) for writer in self._logs.writers.values())

    def _is_due(self, now_s: float, last_s: float) -> bool:
        return now_s - last_s >= self._rule.detection_s / _BEATS_PER_DETECTION

    def _drop_unsent(self) -> Unsent:
        """Note what was put out and not read as dropped."""
        return sum((writer.drop_unread(self._committed) for writer in self._logs.writers.values()), Unsent())

    def _tell_gone(self) -> None:
        for writer in self._logs.writers.values():
            gone = writer.drop_gone(self._committed)
            if gone:
                self._logs.tell(f"Up to {gone:,} batches of stream {writer.stream} are gone with memory, and not sent.")

    def _note(self, epoch: int, *, before: str, silent_s: float, unsent: Unsent) -> None:
        self.log.append(
            FailedOver(
                job=self.member.job,
                replica=self.member.name,
                epoch=epoch,
                before=before,
                silent_s=silent_s,
                lost_tuples=unsent.tuples,
                gone_batches=unsent.gone_batches,
                time_s=self._clock.now_s(),
            )
        )
        del self.log[:-_LOG_MAX]
