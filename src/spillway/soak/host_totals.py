"""What came of histories of hosts: of one, and of all together."""

from collections import Counter
from dataclasses import dataclass, field

from spillway.soak.host_histories import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a history."""

    history: History
    story: str  # empty if every promise was kept
    moves: int
    handed_over: int
    recoveries: int
    struck: int  # faults: one that waits for a step to which nobody comes does not
    seconds: float


@dataclass(slots=True, kw_only=True)
class HostTotals:
    """What came of some histories."""

    histories: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    handed_over: int = 0
    recoveries: int = 0
    broken: dict[int, str] = field(default_factory=dict)  # by seed: the whole story

    def count(self, verdict: Verdict) -> None:
        self.histories += 1
        self.faults.update(str(fault.kind) for fault in verdict.history.faults)
        self.moves += verdict.moves
        self.handed_over += verdict.handed_over
        self.recoveries += verdict.recoveries
        if verdict.story:
            self.broken[verdict.history.seed] = verdict.story
