"""Costs while nothing fails: counted by definition, and the same each time but for CPU."""

from dataclasses import replace
from pathlib import Path

import spillway as sw
from spillway.local import LocalJobs
from spillway.papers.ecoc.cutting import Elements, cut
from spillway.papers.ecoc.evaluation import PROCESSES
from spillway.papers.ecoc.failure_free import cost, costs
from spillway.papers.ecoc.judging import NO_INTERVAL

ELEMENTS = Elements(count=240, per_batch=20, seed=3)


def test_unsafe_writes_nothing_and_all_that_is_sent_is_counted(tmp_path: Path) -> None:
    found = cost(ELEMENTS, process="SP1", setting="unsafe", interval=NO_INTERVAL)
    assert (found.state_bytes, found.log_bytes, found.checkpoints, found.network_overhead) == (0, 0, 0, 0.0)
    assert found.batches == 12
    # A log that nobody reads from keeps everything: what it holds in the end is what was ever put into it.
    graph = cut(PROCESSES["SP1"], ELEMENTS, sw.Discard(), setting="uncoordinated", interval=10_000)
    with LocalJobs(graph, backups=str(tmp_path)) as jobs:
        jobs.run()
        writers = [writer for job in jobs.jobs for writer in jobs.logs(job).writers.values()]
        assert found.sent_bytes == sum(one.bytes for writer in writers for one in writer.held().batches)


def test_bytes_and_memory_are_the_same_each_time_and_cpu_is_not_zero() -> None:
    first, second = (cost(ELEMENTS, process="SP2", setting="extended", interval=80) for _ in range(2))
    assert replace(first, cpu_s=0.0) == replace(second, cpu_s=0.0)
    assert first.cpu_s > 0
    assert first.state_bytes > 0


def test_coordinated_saves_no_log_and_uncoordinated_does() -> None:
    coordinated = cost(ELEMENTS, process="SP1", setting="coordinated", interval=80)
    uncoordinated = cost(ELEMENTS, process="SP1", setting="uncoordinated", interval=80)
    assert coordinated.log_bytes == 0 < uncoordinated.log_bytes
    assert 0 < coordinated.network_overhead < uncoordinated.network_overhead


def test_every_setting_is_run_at_every_interval_in_an_order_of_its_own() -> None:
    small = Elements(count=40, per_batch=20, seed=3)
    found = list(costs(small, processes=["SP1"], intervals=[20, 40], repetitions=2))
    each = [("unsafe", NO_INTERVAL)] + [(s, c) for s in ("uncoordinated", "coordinated") for c in (20, 40)]
    for repetition in range(2):
        assert sorted((one.setting, one.interval) for one in found if one.repetition == repetition) == sorted(each)
    orders = [[(one.setting, one.interval) for one in found if one.repetition == r] for r in range(2)]
    assert orders[0] != orders[1]
