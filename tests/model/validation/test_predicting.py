"""What the model says of runs like those that were made."""

import pytest

from spillway.model.flow import Settling
from spillway.model.validation.predicting import Interval, Parameters, Question, predict
from spillway.model.validation.ways import WAYS
from spillway.papers.dissertation.bargain import bargain

JOBS = {"filter1": ("filter1",), "aggregate": ("filter2", "aggregate"), "join": ("filter3", "filter4", "join")}
PARAMETERS = Parameters(
    recovery_s=2.0,
    failover_s=0.5,
    checkpoint_age_s=0.5,
    settling={"aggregate": Settling(penalty=0.01), "join": Settling(penalty=0.01, staleness=0.2)},
)


def question(way: str, *, crash_rate: float = 0.02, runs: int = 1) -> Question:
    return Question(
        flow=bargain(100),
        way=WAYS[way],
        jobs=JOBS,
        spared=("source", "sink"),
        crash_rate=crash_rate,
        horizon_s=60.0,
        runs=runs,
    )


@pytest.mark.parametrize("way", WAYS)
def test_without_crashes_nothing_is_lost(way: str) -> None:
    found = predict(question(way, crash_rate=0.0), PARAMETERS, samples=20, seed=1)
    assert found["availability"] == Interval(mean=1.0, low=1.0, high=1.0)
    for measure in ("tainted", "lost"):
        assert found[measure] == Interval(mean=0.0, low=0.0, high=0.0)


def test_who_keeps_what_protects_more() -> None:
    found = {way: predict(question(way), PARAMETERS, samples=60, seed=1) for way in WAYS}
    available = {way: each["availability"].mean for way, each in found.items()}
    assert available["checkpoint"] < available["group"] < available["replication"]
    assert found["checkpoint"]["lost"].mean > 0 == found["group"]["lost"].mean


@pytest.mark.parametrize("what", ["settling", "recovery_s"])
def test_what_takes_longer_is_available_less(what: str) -> None:
    def available(factor: float) -> float:
        return predict(question("checkpoint"), PARAMETERS.slower(what, factor), samples=60, seed=1)["availability"].mean

    assert available(4.0) < available(1.0) < available(0.25)


def test_means_of_several_runs_vary_less() -> None:
    def width(runs: int) -> float:
        found = predict(question("checkpoint", runs=runs), PARAMETERS, samples=100, seed=1)["availability"]
        return found.high - found.low

    assert width(4) < width(1)
