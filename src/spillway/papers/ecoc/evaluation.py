"""The evaluation of seed 003 (5.1 to 5.6) as data: stream processes, settings, intervals, rates and durations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from spillway.apps import APPS
from spillway.apps.app import App, Value

Setting = Literal["unsafe", "uncoordinated", "coordinated", "extended"]
Environment = Literal["mobile", "server"]

INTERVALS = (500, 1000, 1500, 2000, 2500, 3000)
"""Elements between two checkpoints (5.4). Unsafe has none; uncoordinated ones come after c/2 to 3c/2 of them (5.1)."""

REPETITIONS = 5
FAILURE_FREE_S = 400.0
FAILURE_AFTER_S = (150.0, 200.0)  # 150 s, and then at random within 50 more
ELEMENTS_PER_S: Mapping[Environment, float] = MappingProxyType({"mobile": 30.0, "server": 200.0})
"""Of each sensor (5 and 5.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A stream process of figure 12 or 22, as one of our applications."""

    app: App
    operators: tuple[str, ...]  # each on a host of its own (5.4)
    settings: tuple[Setting, ...]
    failing: str  # the operator whose failure is triggered; the seed tells it of SP1 and SP2
    options: Mapping[str, Value] = field(default_factory=dict)


_JOINED = ("TestSensor1", "TestSensor2", "TestJoin", "TestAvg")

# Of coordination without extensions nothing makes a checkpoint of a cycle end (4.4.2), so SP3 and SP4 do without it.
PROCESSES: Mapping[str, Process] = MappingProxyType(
    {
        "SP1": Process(
            app=APPS["ecg"],
            operators=("ECGSensor", "DSPFilter", "QRSDetector"),
            settings=("unsafe", "uncoordinated", "coordinated"),
            failing="QRSDetector",
        ),
        "SP2": Process(
            app=APPS["vitals"],
            operators=_JOINED,
            settings=("unsafe", "uncoordinated", "coordinated", "extended"),
            failing="TestAvg",
        ),
        "SP3": Process(
            app=APPS["vitals"],
            operators=_JOINED,
            settings=("unsafe", "uncoordinated", "extended"),
            failing="TestAvg",
            options={"feedback": 1},
        ),
        "SP4": Process(
            app=APPS["vitals"],
            operators=_JOINED,
            settings=("unsafe", "uncoordinated", "extended"),
            failing="TestAvg",
            options={"feedback": 2},
        ),
    }
)
"""The stream processes by the seed's names."""
