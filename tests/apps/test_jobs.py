"""Applications whose operators are jobs of their own: what leaves is the same."""

from typing import Any

import pytest
from tests.conftest import in_order
from tests.operators.running import running

from spillway.apps import APPS
from spillway.graph import Coordinated
from spillway.local.jobs import LocalJobs

CUT = {
    "ecg": ("ECGSensor", "DSPFilter", "QRSDetector"),
    "vitals": ("TestSensor1", "TestSensor2", "TestJoin", "TestAvg"),
}


def test_those_that_can_be_cut_are_tested() -> None:
    assert {name for name, app in APPS.items() if any(option.name == "jobs" for option in app.options)} == {*CUT}


@pytest.mark.parametrize(
    ("name", "options"),
    [("ecg", {}), ("vitals", {}), ("vitals", {"feedback": 1}), ("vitals", {"feedback": 2, "threshold": 17_000.0})],
    ids=str,
)
def test_jobs_put_out_what_the_whole_does(name: str, options: dict[str, Any]) -> None:
    feed = APPS[name].generator(seed=5, tuples=8_000, tuples_per_batch=1_000)
    with running(APPS[name].build(feed, **options)) as one:
        one.run()
        whole = in_order(one.result("out"))
    with LocalJobs(APPS[name].build(feed, jobs=1, **options), backups=f"memory://{name}-{options}") as jobs:
        assert jobs.jobs == CUT[name]
        jobs.run()
        assert in_order(jobs.result("out")) == whole
    assert whole.num_rows


@pytest.mark.parametrize("name", ["ecg", "vitals"])
def test_jobs_of_an_application_are_protected_as_a_whole_if_that_was_said(name: str) -> None:
    app = APPS[name]
    feed = app.generator(seed=1, tuples=2_000, tuples_per_batch=500)
    graph = app.build(feed, protect=Coordinated(batches=2), jobs=1)
    assert {part.protect for part in graph.divided().values()} == {Coordinated(batches=2)}
