"""What happened to the jobs of a graph that run here, as people ask for it and as records have it; and their logs."""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from spillway.clock import SystemClock
from spillway.engine.log_levels import levels_of, reads_of
from spillway.records.events import Event, EventLog, event
from spillway.records.failed_over import FailedOver
from spillway.records.let_go import LetGo
from spillway.records.log_levels import LevelLog, LogLevel
from spillway.records.notices import log_notice, notice_of
from spillway.records.rejoined import Rejoined
from spillway.records.restarted import Restarted
from spillway.spark.looked import Looked

_KEPT_MAX = 100_000


class Happenings:
    """Restarts, failovers, and replicas that were let go or rejoined."""

    def __init__(self, jobs: Mapping[str, Looked], *, directory: Path | None) -> None:
        self._jobs = jobs
        self._directory = directory
        self._logs: dict[str, EventLog] = {}
        self._levels: dict[str, LevelLog] = {}
        self._clock = SystemClock()
        self._said: dict[str, frozenset[Event]] = {}
        self.restarts: list[Restarted] = []
        self.rejoined: list[Rejoined] = []
        """Of these the last 100,000."""

    def restarted(self, one: Restarted) -> None:
        self.restarts = [*self.restarts, one][-_KEPT_MAX:]

    def has_rejoined(self, one: Rejoined) -> None:
        self.rejoined = [*self.rejoined, one][-_KEPT_MAX:]

    def failovers(self, job: str | None = None) -> list[FailedOver]:
        """Each time that a replica became active, by one job or by all."""
        found = [one.job.replica for name, one in self._jobs.items() if job in (None, name)]
        log = chain.from_iterable(replica.log for replica in found if replica is not None)
        return sorted(log, key=lambda one: (one.job, one.epoch))

    def let_go(self, job: str | None = None) -> list[LetGo]:
        """Each replica that was let go, by one job or by all."""
        found = [one.job.letting_go for name, one in self._jobs.items() if job in (None, name)]
        log = chain.from_iterable(letting_go.log for letting_go in found if letting_go is not None)
        return sorted(log, key=lambda one: one.time_s)

    def events(self, job: str | None = None) -> list[Event]:
        """All of it in order of time, of one job or of all."""
        groups = {name: one.graph.member.job for name, one in self._jobs.items() if one.graph.member is not None}
        found = [event(one, group=groups.get(one.job, "")) for one in self.restarts if job in (None, one.job)]
        found += [event(one) for one in self.rejoined if job in (None, one.replica)]
        found += [event(one) for one in self.failovers(job)]
        found += [event(one) for one in self.let_go(job)]
        return sorted(found, key=lambda one: one.time_s)

    def write(self) -> None:
        """Have in the log, and in the records of each job, what has happened to it."""
        for name, job in self._jobs.items():
            events = self.events(name)
            for one in events:
                if one not in self._said.get(name, ()):
                    log_notice(notice_of(one), graph=job.graph.name)
            self._said[name] = frozenset(events)
            if events and self._directory is not None:
                self._logs.setdefault(name, EventLog(self._directory / name)).write(events)

        self._look_at_logs()

    def close(self) -> None:
        """No more will happen."""
        self.write()
        self._look_at_logs(last=True)
        for events in self._logs.values():
            events.close()
        for levels in self._levels.values():
            levels.close()

    def _look_at_logs(self, *, last: bool = False) -> None:
        """Have in the records of each job, now and then, how full the logs are that it writes."""
        if self._directory is None:
            return
        for name, one in self._jobs.items():
            if name not in self._levels:
                self._levels[name] = LevelLog(self._directory / name, clock=self._clock)
            self._levels[name].look(partial(self._levels_of, one), last=last)

    def _levels_of(self, one: Looked) -> list[LogLevel]:
        reads = reads_of((each.job.logs, each.committed) for each in self._jobs.values())
        return list(levels_of(one.job.logs, reads, time_s=self._clock.now_s()))
