"""What happened to a run, in order of time: everything that its records tell of, one line each."""

import logging
from collections.abc import Sequence
from itertools import groupby

from spillway.records.figures import moment
from spillway.records.notices import LINES, Kind, Notice, notice_of, notices_of_batch
from spillway.records.run_records import RunRecords
from spillway.report.page import Cell, Section, Value, table

_TOLD_MAX = 200
_RECOVERED_MAX = 2_000  # rows of progress looked at


def happenings(records: RunRecords) -> list[Notice]:
    """The newest, newest first."""
    found = [*records.notices, *map(notice_of, records.moves[-_TOLD_MAX:]), *map(notice_of, records.waits[-_TOLD_MAX:])]
    found += [*map(notice_of, records.rewinds[-_TOLD_MAX:]), *map(notice_of, records.events[-_TOLD_MAX:])]
    found += _of_batches(records)
    return sorted(found, key=lambda one: one.time_s, reverse=True)[:_TOLD_MAX]


def happened(found: Sequence[Notice]) -> list[Section]:
    """A section of a run's page; none if nothing happened."""
    if not found:
        return []
    cells: list[list[Value]] = [
        [
            Cell(moment(one.time_s), sort=one.time_s, words=True),
            Cell(one.kind, tone=_tone(one)),
            Cell(f"{one.batch:,}" if one.batch >= 0 else "–", sort=one.batch if one.batch >= 0 else ""),
            one.told,
        ]
        for one in found
    ]
    more = f" The last {_TOLD_MAX} are told." if len(found) == _TOLD_MAX else ""
    text = f"Newest first; times are UTC.{more}"
    return [Section("What happened", text=text, table=table(["When", "What", "Batch", "In words"], cells))]


def _of_batches(records: RunRecords) -> list[Notice]:
    """Recoveries, and backups that were not as they should be."""
    progress = records.progress
    told = progress.of("recovered").astype(bool) | (progress.of("damage") != "")
    rows = progress.rows(told.nonzero()[0][-_RECOVERED_MAX:])
    when = dict(zip(records.batches["batch"].tolist(), records.batches["time_s"].tolist(), strict=True))
    return [
        notice
        for batch, of_batch in groupby(rows, key=lambda row: row.batch)
        for notice in notices_of_batch(of_batch, time_s=when.get(batch, 0.0))
    ]


def _tone(notice: Notice) -> str:
    level = LINES[Kind(notice.kind)].level
    return "bad" if level >= logging.ERROR else "warn" if level >= logging.WARNING else ""
