"""The shadow of one shard: the same operator given the same tuples and feedback, in memory that nothing ever breaks.

A shadow is judged against, so it must not lean on what is being tested: it never recovers and never rolls back. To be
without a batch that it has applied it starts over from nothing. Its batches have numbers of their own.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from spillway.clock import Clock
from spillway.engine.feedback import Mailbox, Taken
from spillway.engine.opened import OpenOperator
from spillway.engine.task import Equipment
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage
from spillway.operators.operator import Operator, Out
from spillway.soak.blocks import Unwatched
from spillway.soak.contents import Contents, read
from spillway.soak.recording import Given, RecordedTask


class EndedWindows(Unwatched):
    """A watch on shadows that notes which windows end."""

    def __init__(self) -> None:
        self.labels: list[int] = []

    def window_ended(self, operator: str, window: int) -> None:
        self.labels.append(window)


class Shadow:
    """One operator at one shard, without faults; ``watch`` is the one its operator was made with."""

    def __init__(
        self,
        operator: Operator,
        *,
        watch: EndedWindows,
        graph: CheckedGraph,
        stage: Stage,
        index: int,
        folder: Path,
        backups: str,
        clock: Clock,
    ) -> None:
        self.ended: list[int] = []
        """The windows that ended in the last batch."""
        self._operator = operator
        self._watch = watch
        self._graph = graph
        self._stage = replace(stage, operators=(operator.name,), leaving=())
        self._index = index
        self._folder = folder / f"{operator.name}-{index}"
        self._backups = f"{backups}/{operator.name}-{index}"
        self._clock = clock
        self._applied: list[Given] = []
        self._lives = 0
        self._opened = self._open()

    def close(self) -> None:
        """Let go of its memory."""
        self._opened.close()

    @property
    def operator(self) -> Operator:
        """The operator at work, to look at its state."""
        return self._opened.operator

    def contents(self) -> Contents:
        return read(self._opened.operator)

    def follow(self, given: Sequence[Given]) -> list[Out]:
        """Hold exactly these batches; what it puts out for the last of them."""
        known = len(self._applied)
        if known >= len(given) or any(mine is not theirs for mine, theirs in zip(self._applied, given, strict=False)):
            self._opened.close()
            self._opened = self._open()
            self._applied = []
            known = 0
        outs: list[Out] = []
        for one in given[known:]:
            outs = self._apply(one)
        return outs

    def _apply(self, given: Given) -> list[Out]:
        equipment = Equipment(
            graph=self._graph,
            operators={self._operator.name: self._operator},
            open_shard=lambda operator, index: self._opened,
            open_items=lambda operator, index: None,
            mailbox=_HandedOver(given.fed_back),
        )
        task = RecordedTask(equipment, self._stage, index=self._index, batch=len(self._applied))
        self._watch.labels = []
        for _ in task.run(given.arrived):
            pass
        self._applied.append(given)
        self.ended = self._watch.labels
        return task.given[self._operator.name].put_out

    def _open(self) -> OpenOperator:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lives += 1  # so that what an earlier life kept of its items is not found again
        return OpenOperator(
            self._operator,
            graph=self._graph,
            index=self._index,
            state=self._folder,
            backups=f"{self._backups}-{self._lives}",
            clock=self._clock,
        )


class _HandedOver(Mailbox):
    """Feedback as another took it."""

    def __init__(self, taken: Mapping[Edge, Taken]) -> None:
        self._taken = {(edge.stream, edge.port): batches for edge, batches in taken.items()}

    def put(
        self,
        edge: Edge,
        batches: list[pa.RecordBatch],
        *,
        batch: int,
        shard: int,
        epoch: int = 0,
        checkpoint: bool = False,
    ) -> None:
        """Nobody takes it."""

    def take(self, edge: Edge, *, batch: int) -> Taken:
        return self._taken[edge.stream, edge.port]
