"""How full a job's stream logs are, and how far their readers have come, as whoever looks after all jobs sees it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from spillway.engine.job_logs import JobLogs
from spillway.errors import SpillwayError
from spillway.records.log_levels import UNKNOWN, LogLevel

Reads = Mapping[tuple[str, str], int]
"""How many batches of a stream no batch of a reader that is to come reads, by stream and reader."""


def reads_of(jobs: Iterable[tuple[JobLogs, int]]) -> Reads:
    """What jobs have read, each with the last batch that counts."""
    found = dict[tuple[str, str], int]()
    for logs, committed in jobs:
        for name, view in logs.views.items():
            read = logs.read_by(name, committed) if committed >= 0 else 0
            found[view.input.stream, view.input.reader] = read
    return found


def levels_of(logs: JobLogs, reads: Reads, *, time_s: float) -> Iterator[LogLevel]:
    """One for each reader of each log that a job writes; none of a log that cannot be looked at just now."""
    for writer in logs.writers.values():
        with suppress(SpillwayError, OSError):  # its job finds that out, and says so
            held, waiting_bytes = writer.held(), writer.waiting_bytes()
            for reader in writer.readers:
                batches = reads.get((writer.stream, reader))
                yield LogLevel(
                    time_s=time_s,
                    stream=writer.stream,
                    reader=reader,
                    written=held.position,
                    read=UNKNOWN if batches is None else writer.position_after(batches - 1),
                    acknowledged=writer.position_after(writer.mail.acknowledged(reader) - 1),
                    waiting_bytes=waiting_bytes,
                    bytes_max=logs.bytes_max,
                    full=waiting_bytes >= logs.bytes_max,
                    ended=held.ended is not None,
                )
