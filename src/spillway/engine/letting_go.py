"""Whoever writes what a group reads: which replicas are there, and letting go of one that stays away.

``protocols.seating`` has the theory, and decides. A replica is there if it has said so beside a log and its process
lives (see ``log_mail``), and the active one if its heart is heard, too; for how long one has not been there is counted
from when that was first seen from here.
"""

from collections.abc import Iterable

from spillway.clock import Clock
from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace
from spillway.engine.seat import Seat
from spillway.engine.stream_log import LogWriter
from spillway.graph.replicas import Group
from spillway.protocols.seating import AwayRule, Seated, who_goes
from spillway.records.let_go import LetGo

_LOOKS_PER_DETECTION = 10
_LOG_MAX = 10_000


class LettingGo:
    """The groups that read from one job."""

    def __init__(self, job: str, logs: JobLogs, *, place: LogPlace, clock: Clock) -> None:
        self._job = job
        self._writers = list(logs.writers.values())
        self._clock = clock
        self._groups = {one.job: one.group for writer in self._writers for one in writer.members}
        self._seats = {name: Seat(place, name) for name in self._groups}
        self._absent_since_s: dict[str, float] = {}
        self._heard: dict[str, tuple[int, float]] = {}  # by replica: its beats, and when there was a new one
        self._looked_s = float("-inf")
        detections_s = [group.detection.total_seconds() for group in self._groups.values()]
        self._look_s = min(detections_s, default=float("inf")) / _LOOKS_PER_DETECTION
        self.log: list[LetGo] = []
        """Each replica that this job has let go of, the last 10,000."""

    def look(self) -> bool:
        """See who is there, and let go of one if it has to be; whether it was."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < self._look_s:
            return False
        self._looked_s = now_s
        return any([self._look_at(name, group, now_s) for name, group in self._groups.items()])  # noqa: C419, at all

    def _look_at(self, name: str, group: Group, now_s: float) -> bool:
        members = group.names(name)
        writers = [writer for writer in self._writers if any(one.job == name for one in writer.members)]
        seat = self._seats[name]
        seated = seat.newest()
        for replica in members:
            heard = replica != seated.replica or self._hears(seat, seated, now_s, group.detection.total_seconds())
            if heard and all(writer.mail.is_up(replica) for writer in writers):
                self._absent_since_s.pop(replica, None)
            else:
                self._absent_since_s.setdefault(replica, now_s)
        absent_s = {one: now_s - self._absent_since_s[one] for one in members if one in self._absent_since_s}
        if not absent_s:
            return False
        detection_s = group.detection.total_seconds()
        rule = AwayRule(away_s=group.away_max.total_seconds(), full_s=detection_s, either=group.either)
        full = _full(writers)
        replica = who_goes(seated, members, absent_s=absent_s, full=full, rule=rule)
        entry = seated.let_go(replica) if replica else None
        if entry is None or not seat.add(entry):
            return False
        noted = LetGo(
            job=name,
            replica=replica,
            by=self._job,
            absent_s=absent_s[replica],
            full=full,
            epoch=entry.epoch,
            time_s=self._clock.now_s(),
        )
        self.log = [*self.log, noted][-_LOG_MAX:]
        return True

    def _hears(self, seat: Seat, seated: Seated, now_s: float, detection_s: float) -> bool:
        """Whether the heart of the active replica has beaten within the detection time, as far as was seen here."""
        beats = seat.beats(seated.replica)
        before = self._heard.get(seated.replica)
        if before is None or before[0] != beats:
            # The first look tells nothing: a heart that has stopped has beaten so often, too.
            self._heard[seated.replica] = (beats, float("-inf") if before is None else now_s)
        return now_s - self._heard[seated.replica][1] < detection_s


def _full(writers: Iterable[LogWriter]) -> bool:
    return any(not writer.room() for writer in writers)
