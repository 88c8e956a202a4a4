"""How a run is, in a word that can be read across a room, and in a sentence that says why.

failed        it ended with an error, or its process is gone without a word
ended         it read all there was, or was stopped
memory lost   memory was found gone, and no batch has been done since; or batches are done once more because of that
recovered     memory was lost in the last minutes, and batches are done again
behind        batches take longer than the time between them, or grow; or one waits for a host
running       none of that
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from spillway.records.figures import count, duration, times
from spillway.records.notices import Kind
from spillway.records.reading import Life
from spillway.records.run_records import RunRecords

RECOVERED_S = 300.0
"""How long after a recovery a run is called recovered."""

_JUDGED = 20  # batches
_RECENT = 5  # of these
_GROWN = 1.5
_BUSY = 0.9
_UNITS_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_INTERVAL = re.compile(r"\s*([0-9.]+)\s*(\w+?)s?\s*")


class State(StrEnum):
    """How a run is."""

    RUNNING = "running"
    BEHIND = "behind"
    MEMORY_LOST = "memory lost"
    RECOVERED = "recovered"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def tone(self) -> str:
        """How it is coloured."""
        return _TONES[self]


_TONES = {
    State.RUNNING: "good",
    State.BEHIND: "warn",
    State.MEMORY_LOST: "bad",
    State.RECOVERED: "warn",
    State.ENDED: "quiet",
    State.FAILED: "bad",
}


@dataclass(frozen=True, slots=True)
class Told:
    """A state, and why."""

    state: State
    why: str


def state_of(records: RunRecords, *, now_s: float) -> Told:
    """How a run is by now."""
    manifest = records.manifest
    match records.life:
        case Life.ENDED if manifest.get("ended") == "failed":
            return Told(State.FAILED, str(manifest.get("error", "")) or "It ended with an error.")
        case Life.ENDED:
            return Told(State.ENDED, _ENDINGS.get(manifest["ended"], f"It ended: {manifest['ended']}."))
        case Life.GONE:
            return Told(
                State.FAILED,
                "Its process is gone without a word. The same run given the same checkpoint goes on from there.",
            )
    told = _lost(records) or _recovered(records, now_s=now_s) or _waiting(records) or _behind(records)
    if told is None and records.last_batch < 0:
        told = Told(State.RUNNING, "No batch is done yet.")
    if records.life is Life.UNKNOWN:
        why = "It was running when these records were written; whether it still does cannot be seen from here."
        return Told(told.state if told is not None else State.RUNNING, why)
    return told or Told(State.RUNNING, "Batches are done as they come, and nothing was lost of late.")


_ENDINGS = {"finished": "It has read all there was.", "stopped": "It was stopped."}


def _last_done_s(records: RunRecords) -> float:
    return float(records.batches["time_s"].max(initial=0.0))


def _lost(records: RunRecords) -> Told | None:
    done_s = _last_done_s(records)
    found = [one for one in records.notices if one.kind == Kind.MEMORY_LOST and one.time_s > done_s]
    if found:
        return Told(State.MEMORY_LOST, found[-1].told)
    if records.rewinds:
        last = records.rewinds[-1]
        again = records.batches["time_s"] > last.time_s
        if not np.any(again & (records.batches["batch"] >= last.committed)):
            return Told(State.MEMORY_LOST, last.sentence())
    return None


def _recovered(records: RunRecords, *, now_s: float) -> Told | None:
    progress = records.progress
    when = dict(zip(records.batches["batch"].tolist(), records.batches["time_s"].tolist(), strict=True))
    batches = progress.of("batch")[progress.of("recovered").astype(bool)]
    found = [(when.get(float(batch), 0.0), f"in batch {batch:,}") for batch in np.unique(batches).tolist()]
    found += [
        (one.time_s, f"after batch {one.committed:,}, and all of it was done once more") for one in records.rewinds
    ]
    if not found:
        return None
    last_s, where = max(found)
    if now_s - last_s > RECOVERED_S:
        return None
    return Told(
        State.RECOVERED,
        f"Memory was lost {times(len(found))} so far, {duration(max(now_s - last_s, 0.0))} ago the last time, {where}. "
        f"Batches are done again.",
    )


def _waiting(records: RunRecords) -> Told | None:
    done_s = _last_done_s(records)
    late = [one for one in records.notices if one.kind == Kind.HOST_LATE and one.time_s > done_s]
    return Told(State.BEHIND, late[-1].told) if late else None


def _behind(records: RunRecords) -> Told | None:
    interval_s = interval_between(records.manifest.get("trigger", {}))
    total_s = records.times["total_s"]
    if interval_s is None or len(total_s) < _RECENT:
        return None
    taken_s = float(np.median(total_s[-_RECENT:]))
    if interval_s > 0:
        if taken_s <= interval_s:
            return None
        return Told(State.BEHIND, f"A batch takes {duration(taken_s)}, and one is due every {duration(interval_s)}.")
    # One batch follows the other at once: what comes meanwhile is the next one's, so whoever is too slow gets more
    # and more to do.
    if len(total_s) < _JUDGED or len(records.batches["batch"]) < _JUDGED:
        return None
    done_s, tuples = records.batches["time_s"][-_JUDGED:], records.batches["tuples"][-_JUDGED:]
    busy = total_s[-_JUDGED + 1 :].sum() / max(done_s[-1] - done_s[0], 1e-9)
    before, now = float(np.median(tuples[:_RECENT])), float(np.median(tuples[-_RECENT:]))
    if busy < _BUSY or now < _GROWN * before or before == 0:
        return None
    return Told(
        State.BEHIND,
        f"Each batch has more to read than the one before: {count(now)} tuples by now, {count(before)} tuples "
        f"{_JUDGED} batches ago.",
    )


def interval_between(trigger: Mapping[str, Any]) -> float | None:
    """How often a batch is due, by its trigger; zero if as soon as the last is done, None if nothing is due.

    >>> interval_between({"processingTime": "5 seconds"}), interval_between({"processingTime": "0 seconds"})
    (5.0, 0.0)
    >>> interval_between({"processingTime": "2 minutes"}), interval_between({"availableNow": True})
    (120.0, None)
    """
    match = _INTERVAL.fullmatch(str(trigger.get("processingTime", "")))
    if match is None or match[2] not in _UNITS_S:
        return None
    try:
        return float(match[1]) * _UNITS_S[match[2]]
    except ValueError:
        return None
