"""Stream processes cut into jobs: one for each operator, protected as the seed's settings say, the same output."""

from pathlib import Path

import pytest
from tests.conftest import in_order

import spillway as sw
from spillway.local import LocalJobs
from spillway.papers.ecoc.cutting import Elements, cut, protection, sensors_of, whole
from spillway.papers.ecoc.evaluation import PROCESSES, Setting

ELEMENTS = Elements(count=240, per_batch=20, seed=3)
CURVES = [(name, setting) for name, process in PROCESSES.items() for setting in process.settings]


@pytest.mark.parametrize(("name", "setting"), CURVES)
def test_a_process_in_jobs_puts_out_what_it_does_in_one_piece(name: str, setting: Setting, tmp_path: Path) -> None:
    process = PROCESSES[name]
    with sw.LocalRun(whole(process, ELEMENTS, sw.Memory())) as run:
        run.run()
        ideal = in_order(run.result("out"))
    graph = cut(process, ELEMENTS, sw.Memory(), setting=setting, interval=80)
    assert {job.name for job in graph.jobs} == {*process.operators}
    with LocalJobs(graph, backups=str(tmp_path)) as jobs:
        jobs.run()
        assert in_order(jobs.result("out")) == ideal
        saved = {one.job for one in jobs.checkpoints()}
    assert saved == (set() if setting == "unsafe" else {*process.operators})


def test_every_sensor_reads_a_source_of_its_own() -> None:
    for process in PROCESSES.values():
        jobs = cut(process, ELEMENTS, sw.Memory(), setting="unsafe", interval=0).divided()
        sensors = sensors_of(process)
        reading = [job for job, part in jobs.items() if any(s.log is None for s in part.checked().sources.values())]
        assert sorted(reading) == sorted(sensors)
        assert all(len(jobs[sensor].checked().sources) == 1 + sensor_feedback(process, sensor) for sensor in sensors)


def sensor_feedback(process: object, sensor: str) -> int:
    """Whether the average comes back to a sensor."""
    feedback = getattr(process, "options", {}).get("feedback", 0)
    return int(sensor in ("TestSensor1", "TestSensor2")[:feedback])


def test_intervals_are_batches_and_only_sensors_drift() -> None:
    sensor = protection("coordinated", interval=1000, per_batch=50, joined=())
    behind_join = protection("coordinated", interval=1000, per_batch=50, joined=("a", "b"))
    assert sensor == sw.Coordinated(batches=20, jitter=0.1)
    assert behind_join == sw.Coordinated(batches=20)
    assert protection("extended", interval=500, per_batch=100, joined=()) == sw.Coordinated(
        batches=5, jitter=0.2, extended=True
    )
    # By itself it counts the elements of both sensors; a batch is the least there is.
    alone = protection("uncoordinated", interval=1000, per_batch=50, joined=("a", "b"))
    assert alone == sw.Uncoordinated(batches=10, jitter=0.5)
    assert protection("uncoordinated", interval=10, per_batch=50, joined=()) == sw.Uncoordinated(batches=1, jitter=0.5)
    assert protection("unsafe", interval=1000, per_batch=50, joined=()) is None
