"""How full logs are and how far their readers have come: as whoever looks sees it, as records have it, on the page."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from tests.local.test_jobs import line
from tests.records.progressed import progress

from spillway.clock import ManualClock
from spillway.engine.job_logs import JobLogs
from spillway.engine.log_files import LogPlace
from spillway.engine.log_levels import levels_of, reads_of
from spillway.graph.graph import Graph
from spillway.records.log_levels import EVERY_S, UNKNOWN, LevelLog, LogLevel
from spillway.records.run_records import RunReader
from spillway.records.rundir import RunDirectory
from spillway.report.jobs_page import jobs_page

TUPLES = 5


def logs_of(graph: Graph, name: str, place: LogPlace, *, bytes_max: int = 1 << 20) -> JobLogs:
    logs = JobLogs(graph.divided()[name].checked(), place=place, bytes_max=bytes_max)
    logs.open()
    return logs


def put_out(logs: JobLogs, schema: pa.Schema, batch: int) -> None:
    (name,) = logs.writers
    numbers = pa.array(range(TUPLES * batch, TUPLES * (batch + 1)))
    logs.append(name, batch, pa.table([numbers.cast(field.type) for field in schema], schema=schema))


def test_levels_follow_who_writes_and_who_reads(tmp_path: Path) -> None:
    graph, place = line(), LogPlace(root=tmp_path, run="1")
    first, middle = logs_of(graph, "line", place), logs_of(graph, "middle", place)
    assert next(levels_of(middle, {}, time_s=0.0)).written == 0
    for batch in range(3):
        put_out(first, next(iter(middle.views.values())).input.schema, batch)
    middle.committed(0)
    (level,) = levels_of(first, reads_of([(first, 2), (middle, 1)]), time_s=7.0)
    assert (level.stream, level.reader, level.time_s) == ("counts.out", "middle", 7.0)
    assert (level.written, level.read, level.acknowledged) == (3 * TUPLES, 2 * TUPLES, TUPLES)
    assert 0 < level.fill < 1 and not level.full and not level.ended
    (alone,) = levels_of(first, {}, time_s=7.0)
    assert alone.read == UNKNOWN, "another driver runs the reader"
    first.bytes_max = 1
    assert next(levels_of(first, {}, time_s=0.0)).full
    middle.committed(2)
    first.end(3)
    (level,) = levels_of(first, reads_of([(middle, 2)]), time_s=8.0)
    assert level.written == level.read == level.acknowledged and level.ended and level.waiting_bytes == 0


def test_levels_are_recorded_now_and_then_and_if_they_have_changed(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "all" / "first", graph="first", drawing="", backups="").close("finished")
    clock, asked = ManualClock(), list[float]()
    level = LogLevel(
        time_s=0.0,
        stream="counts.out",
        reader="middle",
        written=0,
        read=0,
        acknowledged=0,
        waiting_bytes=0,
        bytes_max=1000,
        full=False,
        ended=False,
    )
    log = LevelLog(tmp_path / "all" / "first", clock=clock)

    def look(written: int, *, last: bool = False) -> None:
        def levels() -> list[LogLevel]:
            asked.append(clock.monotonic_s())
            waiting = 90 * written
            return [replace(level, time_s=clock.now_s(), written=written, waiting_bytes=waiting, full=waiting >= 1000)]

        log.look(levels, last=last)

    for written in (0, 5, 5, 12):
        look(written)
        clock.advance(0.4 * EVERY_S)
        look(written)  # too early
        clock.advance(0.6 * EVERY_S)
    look(13)
    look(13, last=True)
    log.close()
    assert asked == [0.0, EVERY_S, 2 * EVERY_S, 3 * EVERY_S, 4 * EVERY_S, 4 * EVERY_S]
    found = RunReader(tmp_path / "all" / "first").read().levels
    assert [(one.written, one.full) for one in found] == [(0, False), (5, False), (12, True), (13, True)]
    page = jobs_page(tmp_path / "all", clock=clock)
    assert "Logs between jobs" in page and "full: the writer waits" in page and "117.0%" in page


def test_jobs_without_logs_have_no_such_part(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "all" / "only", graph="only", drawing="", backups="")
    directory.add([progress(batch=0)])
    directory.close("finished")
    assert "Logs between jobs" not in jobs_page(tmp_path / "all", clock=ManualClock())
