"""What each setting costs while nothing fails: figures 13, 14, 15, 23 and 24 of seed 003.

Theory. All jobs run in this process in turn (``LocalJobs``), so bytes are the same in every run of a seed. A run gives
three measures:

    network overhead    bytes of checkpoints over bytes of elements sent between operators, as in the seed (5.2). The
                        first are backups of state, those of checkpoints included that were never made permanent, and
                        what of stream logs was saved with them; a part of a log that an earlier checkpoint has is not
                        written again. The second are the files that jobs put into stream logs. Requests and
                        acknowledgements are in neither: they are no checkpoint messages
    CPU                 seconds of this process for an element of a sensor, of all operators together. The seed has the
                        load of a PDA at 30 elements a second, or of a server at 200
    memory              bytes that shards and stream logs hold in shared memory, of all operators together, as a mean
                        over the run. The seed has that of a Java process, which also has the copy of a checkpoint that
                        is being sent, and on the other side takes it from log and state alike when it likes

Bytes and memory are looked at between turns, and not counted as CPU.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from spillway.graph.sinks import Discard
from spillway.local.jobs import LocalJobs
from spillway.papers.ecoc.cutting import Elements, cut
from spillway.papers.ecoc.evaluation import PROCESSES, Setting
from spillway.papers.ecoc.judging import NO_INTERVAL
from spillway.records.reproduction import Row
from spillway.seeds import generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took."""

    process: str
    setting: Setting
    interval: int
    repetition: int
    elements: int  # of each sensor
    batches: int
    checkpoints: int  # of all jobs, that became permanent
    state_bytes: int
    log_bytes: int
    sent_bytes: int
    cpu_s: float
    memory_bytes: float

    @property
    def network_overhead(self) -> float:
        return (self.state_bytes + self.log_bytes) / self.sent_bytes

    @property
    def cpu_s_per_element(self) -> float:
        return self.cpu_s / self.elements

    def as_row(self) -> Row:
        return {
            **asdict(self),
            "network_overhead": self.network_overhead,
            "cpu_s_per_element": self.cpu_s_per_element,
        }


def costs(
    elements: Elements, *, processes: Sequence[str], intervals: Sequence[int], repetitions: int
) -> Iterator[Cost]:
    """Every setting of every process at every interval, in an order drawn anew each time: moods of the machine and of
    the process that measures fall on all alike."""
    runs = [
        (process, setting, interval)
        for process in processes
        for setting in PROCESSES[process].settings
        for interval in ((NO_INTERVAL,) if setting == "unsafe" else intervals)
    ]
    for process in processes:  # kernels are compiled, or loaded, before anything is measured
        cost(Elements(count=1, per_batch=1, seed=elements.seed), process=process, setting="unsafe", interval=1)
    for repetition in range(repetitions):
        for place in generator(elements.seed, "order", repetition).permutation(len(runs)):
            process, setting, interval = runs[place]
            yield cost(elements, process=process, setting=setting, interval=interval, repetition=repetition)


def cost(elements: Elements, *, process: str, setting: Setting, interval: int, repetition: int = 0) -> Cost:
    """One run."""
    graph = cut(PROCESSES[process], elements, Discard(), setting=setting, interval=interval)
    sent_bytes, cpu_s, memory = 0, 0.0, []
    seen: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as backups, LocalJobs(graph, backups=backups) as jobs:
        while True:
            before_s = time.process_time()
            more = jobs.step()
            cpu_s += time.process_time() - before_s
            if not more:
                break
            for stream, batch, size in _in_logs(jobs):
                if batch >= seen.get(stream, 0):  # the newest of each is never trimmed, so none is missed
                    seen[stream] = batch + 1
                    sent_bytes += size
            memory.append(_held_bytes(jobs.state))
        return Cost(
            process=process,
            setting=setting,
            interval=interval,
            repetition=repetition,
            elements=elements.count,
            batches=elements.batches,
            checkpoints=len(jobs.checkpoints()),
            state_bytes=sum(row.backup_bytes for row in jobs.records()),
            log_bytes=sum(one.log_bytes for one in jobs.checkpoints()),
            sent_bytes=sent_bytes,
            cpu_s=cpu_s,
            memory_bytes=fmean(memory),
        )


def _in_logs(jobs: LocalJobs) -> Iterator[tuple[str, int, int]]:
    for job in jobs.jobs:
        for stream, writer in jobs.logs(job).writers.items():
            for one in writer.held().batches:
                yield stream, one.batch, one.bytes


def _held_bytes(state: Path) -> int:
    """What is in memory below a folder, in whole pages as it is taken."""
    return sum(file.stat().st_blocks * 512 for file in state.rglob("*") if file.is_file())
