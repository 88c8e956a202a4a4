"""A local run that notes what each shard was given and what it put out, in the attempt that counted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from spillway.backup.keeper import Observer
from spillway.clock import Clock
from spillway.engine.feedback import Mailbox, Taken
from spillway.engine.numbering import Numbering
from spillway.engine.task import Equipment, Leaving, Task
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage
from spillway.local.run import LocalRun
from spillway.operators.operator import Operator, Out

Sent = dict[tuple[Edge, int, int], list[pa.RecordBatch]]
"""By edge, batch and shard of the sender: what it put down last."""


@dataclass(slots=True)
class Given:
    """What reached one operator at one shard in one attempt of a batch, and what came of it."""

    arrived: list[Leaving] = field(default_factory=list)
    fed_back: dict[Edge, Taken] = field(default_factory=dict)
    put_out: list[Out] = field(default_factory=list)

    def tuples(self) -> list[tuple[str, pa.RecordBatch]]:
        """The tuples by port, without punctuation."""
        return [(edge.port, batch) for edge, batch in self.arrived if not edge.marks]


class RecordedTask(Task):
    """A task that notes what each of its operators is given."""

    def __init__(
        self,
        equipment: Equipment,
        stage: Stage,
        *,
        index: int,
        batch: int,
        reads: Mapping[str, Numbering] | None = None,
    ) -> None:
        super().__init__(equipment, stage, index=index, batch=batch, reads=reads)
        graph = equipment.graph
        self.index = index
        self.given: dict[str, Given] = defaultdict(Given)
        stateful = (name for name in stage.operators if graph.operators[name].stateful)
        self.keepers = [name for name in stateful if self.index < graph.shards_of(name)]
        """The operators that keep state here, in the order in which their shards are opened."""
        self.opened: set[str] = set()
        """Those whose shard is open."""
        self.backed_up: set[str] = set()
        self.committed: set[str] = set()

    def _arrive(self, edge: Edge, batch: pa.RecordBatch) -> Iterator[Leaving]:
        if edge.node in self.keepers:
            self.given[edge.node].arrived.append((edge, batch))
        return super()._arrive(edge, batch)

    def _route(self, operator: Operator, outs: Iterable[Out]) -> Iterator[Leaving]:
        return super()._route(operator, self._noted(operator.name, outs))

    def _noted(self, operator: str, outs: Iterable[Out]) -> Iterator[Out]:
        for out in outs:
            self.given[operator].put_out.append(out)
            yield out


class RecordedMailbox(Mailbox):
    """Feedback, with a note of who sent and who took what."""

    def __init__(self, graph: CheckedGraph, sent: Sent, *, state: Path, backups: str | None) -> None:
        super().__init__(graph, state=state, backups=backups)
        self.task: RecordedTask | None = None
        """The one that is running."""
        self._sent = sent

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
        super().put(edge, batches, batch=batch, shard=shard, epoch=epoch, checkpoint=checkpoint)
        self._sent[edge, batch, shard] = list(batches)

    def take(self, edge: Edge, *, batch: int) -> Taken:
        taken = super().take(edge, batch=batch)
        assert self.task is not None
        self.task.given[edge.node].fed_back[edge] = taken
        return taken


class RecordedRun(LocalRun):
    """A local run whose last attempt at a batch can be looked at, task by task; ``sent`` is for all runs of a graph."""

    def __init__(
        self,
        graph: Graph,
        sent: Sent,
        *,
        state: Path,
        backups: str,
        checkpoint: str,
        batch: int,
        clock: Clock,
        observe: Observer,
    ) -> None:
        super().__init__(
            graph, state=state, backups=backups, checkpoint=checkpoint, batch=batch, clock=clock, observe=observe
        )
        self._mailbox = RecordedMailbox(self._graph, sent, state=state, backups=backups)
        self._equipment = replace(self._equipment, mailbox=self._mailbox)
        self.sent = sent
        self.tasks: dict[tuple[str, int], RecordedTask] = {}
        """By operator and shard: the last task that ran there."""
        self.task: RecordedTask | None = None
        """The task that runs, or ran last."""

    @property
    def graph(self) -> CheckedGraph:
        return self._graph

    @property
    def stages(self) -> list[Stage]:
        return self._stages

    def given(self, operator: str, shard: int) -> Given:
        """What the operator's shard was given in its last attempt."""
        return self.tasks[operator, shard].given[operator]

    def again(self, stage: Stage, index: int, given: dict[str, Given], *, batch: int) -> None:
        """Run one task of an earlier batch once more; what it puts out goes nowhere."""
        arriving = [leaving for one in given.values() for leaving in one.arrived]
        now, self.batch = self.batch, batch
        try:
            self._apply(stage, index, arriving, [])
        finally:
            self.batch = now

    def abandon(self) -> None:
        """Be gone as a killed process is: memory is unmapped, and nothing is written."""
        self._let_go()

    def _make_task(self, stage: Stage, index: int, reads: Mapping[str, Numbering] | None = None) -> Task:
        task = RecordedTask(self._equipment, stage, index=index, batch=self.batch, reads=reads)
        self.task = self._mailbox.task = task
        for name in task.keepers:
            self.tasks[name, index] = task
        return task
