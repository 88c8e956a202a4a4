"""Several graphs on Spark, one batch each in turn (see ``turns``): what the machine does just then hits all alike."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spillway.benches.turns import AtEnds, Turns, wait_for_all
from spillway.clock import SystemClock
from spillway.graph.graph import Graph
from spillway.spark import Run, run
from spillway.spark.timing import Timing


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
            observe = AtEnds(lambda batch, name=name: turns.ended(name, batch))  # type: ignore[misc]
            running[name] = stack.enter_context(
                run(one.graph, spark, backups=one.backups, trigger={"availableNow": True}, observe=observe)
            )
            # Left last to first: before any is stopped, nobody waits for it.
            stack.callback(turns.abandon)
        wait_for_all(running, turns)
    return {name: _timing(turns.batches_s(name), one, skip=skip) for name, one in running.items()}


def _timing(batches_s: Mapping[int, float], ran: Run, *, skip: int) -> Timing:
    return Timing(
        batches_s=[seconds for batch, seconds in sorted(batches_s.items()) if batch >= skip],
        records=[row for row in ran.records() if row.batch >= skip],
        # Of times nothing is told: to Spark, waiting for others is part of a batch.
    )
