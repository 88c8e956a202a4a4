"""A bench is declared with its settings, refuses those that make no sense, and is recorded whole."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from spillway.benches.bench import Bench, Notes, Tell, option, run_bench
from spillway.clock import ManualClock
from spillway.errors import GraphError
from spillway.records.bench import BenchRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Bench):
    """Takes a second for every step."""

    NAME: ClassVar[str] = "steps"
    MEANING: ClassVar[str] = "steps"

    clock: ManualClock
    steps: int = option(2, "how many")
    pace: float = option(1.5, "steps a second")
    seed: int = option(1, "of nothing", least=0)
    kinds: tuple[str, ...] = option(("long",), "which", among=("long", "short"))

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        tell("Walking.")
        notes.add("walker", "warm_s", 9, counted=False)
        for step in range(self.steps):
            self.clock.advance(1.0)
            notes.add("walker", "step_s", 1.0, number=step)
        return {"shoes": ("left", "right")}

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        return {"steps": len(records.values("walker", "step_s"))}


def test_what_a_bench_was_given_and_took_is_recorded() -> None:
    clock, told = ManualClock(), list[str]()
    found = run_bench(Steps(clock=clock, steps=3), clock=clock, tell=told.append)
    assert found.settings == {"steps": 3, "pace": 1.5, "seed": 1, "kinds": ["long"]}  # and not the clock
    assert (found.bench, found.seconds, found.about) == ("steps", 3.0, {"shoes": ["left", "right"]})
    assert [(s.measure, s.number, s.counted) for s in found.samples] == [
        ("warm_s", 0, False),
        ("step_s", 0, True),
        ("step_s", 1, True),
        ("step_s", 2, True),
    ]
    assert found.machine["packages"]["pyarrow"]
    assert Steps.summary(found) == {"steps": 3}
    assert told == ["Walking."]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 0}, "bench steps: steps must be a whole number, 1 or more; got 0"),
        ({"seed": -1}, "bench steps: seed must be a whole number, 0 or more; got -1"),
        ({"pace": 0.0}, "bench steps: pace must be a number above zero; got 0.0"),
        ({"pace": float("nan")}, "bench steps: pace must be a number above zero; got nan"),
        ({"kinds": ("long", "wide")}, "bench steps: kinds is one of long, short; got 'wide'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        Steps(clock=ManualClock(), **given)
