"""What a run directory shows just now, made anew when there is something new, and no more often than it can be.

Making it takes time that grows with the run. So it is made at most every ``EVERY_S``, and rests ``REST`` times as long
as the last making took: however often somebody asks, at most a sixth of one core is spent.
"""

import hashlib
import threading
from dataclasses import dataclass
from html import escape
from pathlib import Path

from spillway.clock import Clock
from spillway.errors import SpillwayError
from spillway.records.reading import Life
from spillway.records.run_records import RunReader, RunRecords
from spillway.report.jobs_page import jobs_content, runs_in, state_of_all
from spillway.report.run_page import run_content
from spillway.report.run_state import Told, state_of

EVERY_S = 1.0
REST = 5.0
_OLD_S = 5.0  # of a run that goes on: words such as "a minute ago" are to stay true


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there was to see at one look."""

    html: str
    records: tuple[RunRecords, ...]
    told: Told | None  # None if nothing is there yet
    tag: str  # another one if the HTML is


class Looking:
    """Looks at one directory, for whoever asks, from whichever thread."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._readers: dict[Path, RunReader] = {}
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._stamp: object = None
        self._again_s = 0.0
        self._made_s = 0.0

    def look(self) -> Seen:
        """The newest there is."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            if self._seen is None or (now_s >= self._again_s and self._is_old(now_s)):
                self._seen = self._make()
                self._made_s = self._clock.monotonic_s()
                self._again_s = self._made_s + max(EVERY_S, REST * (self._made_s - now_s))
            return self._seen

    def _is_old(self, now_s: float) -> bool:
        assert self._seen is not None
        goes_on = not self._seen.records or any(one.life is not Life.ENDED for one in self._seen.records)
        return self._stamp != self._stamps() or (goes_on and now_s >= self._made_s + _OLD_S)

    def _stamps(self) -> object:
        return tuple(self._reader(path).changed() for path in runs_in(self.path))

    def _reader(self, path: Path) -> RunReader:
        return self._readers.setdefault(path, RunReader(path))

    def _make(self) -> Seen:
        self._stamp = self._stamps()
        now_s = self._clock.now_s()
        try:
            records = tuple(self._reader(path).read() for path in runs_in(self.path))
        except SpillwayError as error:
            return _seen(_apart("cannot be read", str(error)), (), None)
        if not records:
            return _seen(_apart("no records yet", f"Nothing has been recorded in {self.path}."), (), None)
        if records[0].path != self.path:
            return _seen(jobs_content(self.path, records, now_s=now_s), records, state_of_all(records, now_s=now_s))
        return _seen(run_content(records[0], now_s=now_s), records, state_of(records[0], now_s=now_s))


def _seen(html: str, records: tuple[RunRecords, ...], told: Told | None) -> Seen:
    tag = hashlib.blake2b(html.encode(), digest_size=12).hexdigest()
    return Seen(html=html, records=records, told=told, tag=tag)


def _apart(word: str, why: str) -> str:
    return (
        f'<main><div class="headline"><p class="state quiet" role="status">{escape(word)}</p><p>{escape(why)}</p>'
        f"</div></main>"
    )
