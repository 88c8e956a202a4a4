"""Several graphs on Spark, one batch each in turn (see ``turns``): what the machine does just then hits all alike."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillway.backup import Observer, Step
from spillway.backup.keeper import ignore
from spillway.benches.turns import Turns
from spillway.clock import SystemClock
from spillway.graph.graph import Graph
from spillway.spark import Run, run
from spillway.spark.timing import Timing

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A graph, and where its backups go."""

    graph: Graph
    backups: str | Path


def side_by_side(contenders: Mapping[str, Contender], spark: Any, *, batches: int, skip: int) -> dict[str, Timing]:
    """Run graphs of so many batches each to their end; the first ``skip`` batches, one at least, are not counted."""
    assert skip > 0, "all run their first batch at once"
    turns = Turns(list(contenders), batches=batches, clock=SystemClock())
    running: dict[str, Run] = {}
    with ExitStack() as stack:
        for name, one in contenders.items():
            observe = _AtEnds(lambda batch, name=name: turns.ended(name, batch))  # type: ignore[misc]
            running[name] = stack.enter_context(
                run(one.graph, spark, backups=one.backups, trigger={"availableNow": True}, observe=observe)
            )
            # Left last to first: before any is stopped, nobody waits for it.
            stack.callback(turns.abandon)
        _wait(running, turns)
    return {name: _timing(turns.batches_s(name), one, skip=skip) for name, one in running.items()}


def _wait(running: Mapping[str, Run], turns: Turns) -> None:
    """Until all have ended; raises what stopped one of them."""
    left = dict(running)
    while left:
        for name, one in list(left.items()):
            if one.wait(_LOOK_S):
                turns.leave(name)
                del left[name]


def _timing(batches_s: Mapping[int, float], ran: Run, *, skip: int) -> Timing:
    return Timing(
        batches_s=[seconds for batch, seconds in sorted(batches_s.items()) if batch >= skip],
        records=[row for row in ran.records() if row.batch >= skip],
        times=[row for row in ran.times() if row.batch >= skip],
    )


class _AtEnds:
    """An observer that calls a function of the driver's after every batch."""

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended

    def __call__(self, step: Step, operator: str, shard: int, batch: int) -> None:
        if step is Step.WRITTEN:
            self._ended(batch)

    def __reduce__(self) -> tuple[Callable[[], Observer], tuple[()]]:
        # Tasks are given a copy, and have nothing to tell it.
        return _nobody, ()


def _nobody() -> Observer:
    return ignore
