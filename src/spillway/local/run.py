"""A graph in one process: deterministic, batch by batch, for trials and tests and as the reference for Spark."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from spillway.backup.behind import Writing, at_once
from spillway.backup.keeper import Observer, ignore
from spillway.backup.orders import NO_ORDERS
from spillway.backup.reach import Reach
from spillway.clock import Clock, SystemClock
from spillway.engine.author import Author
from spillway.engine.coordinating import Coordination
from spillway.engine.epochs import shard_folder
from spillway.engine.exchange import exchange
from spillway.engine.feedback import Mailbox
from spillway.engine.job_logs import JobLogs
from spillway.engine.kernels import kernels
from spillway.engine.looking import asked_for, check_memory
from spillway.engine.numbering import Numbering, check_numbers
from spillway.engine.opened import OpenOperator, open_items
from spillway.engine.outlets import Outlets
from spillway.engine.rescaling import Places, finish
from spillway.engine.rescaling import rescale as divide_anew
from spillway.engine.resuming import check_resumable
from spillway.engine.rewinding import Rewinding, job_protection
from spillway.engine.stopwatch import Stopwatch, saving_s
from spillway.engine.task import Arriving, Equipment, Leaving, Task
from spillway.errors import GraphError, MemoryLostError
from spillway.graph.activation import check_activated
from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import Feed, open_piece
from spillway.graph.graph import Graph
from spillway.graph.stages import Stage, stages
from spillway.local.sinks import LocalOutput
from spillway.operators.operator import Operator
from spillway.records.progress import ShardProgress
from spillway.records.ranges import Passed, SourceRange
from spillway.records.rewound import Rewound
from spillway.records.summary import OperatorSummaries, ShownRun, summarise
from spillway.records.times import BatchTimes, Work, in_one_process
from spillway.state.folders import claim, make_temporary, wipe


class LocalRun(ShownRun):
    """A graph being run in this process.

    ``state`` is a folder for shard memory (by default a temporary one, removed by ``close``) and ``backups`` a durable
    folder or URL. A run made with the same ``state`` and ``backups`` and the right ``batch`` goes on where an earlier
    one stopped, as Spark does from its checkpoint. In the folder ``checkpoint``, if there is one, it is noted how far
    backups must reach, so that a later run is not misled by an older copy of them. With ``rescale`` the graph may have
    other numbers of shards than the earlier run, and state is divided anew.

    Backups that may be written while further batches run (under ``Checkpoint``) are written at once, so that a run
    repeats itself exactly; with ``writing=in_thread`` by a thread, as on Spark (see ``backup.behind``).

    A graph that is protected as a whole (``Coordinated``) goes back to its last checkpoint by itself when memory is
    lost: ``batch`` is then a smaller number again, and ``rewinds`` tells of it.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        state: Path | None = None,
        backups: str | None = None,
        checkpoint: str | None = None,
        batch: int = 0,
        clock: Clock | None = None,
        observe: Observer = ignore,
        rescale: bool = False,
        logs: JobLogs | None = None,
        outlets: Outlets | None = None,
        coordination: Coordination | None = None,
        writing: Writing = at_once,
    ) -> None:
        self.name = graph.name
        self._graph: CheckedGraph = graph.checked()
        self._stages: list[Stage] = stages(self._graph)
        check_activated(self._graph, self._stages)
        self._operators = kernels(self._graph, backups=backups)
        self._logs = logs
        self._coordination = coordination
        author = Author(backups, graph.name) if checkpoint is None else Author.beside(checkpoint)
        self._outlets = outlets or Outlets(self._graph, logs, author=author)
        self._feeds: dict[str, Feed] = dict(logs.feeds()) if logs is not None else {}
        for name, source in self._graph.sources.items():
            if logs is not None and source.log is not None:
                continue
            feed = source.now()
            if feed is None:
                raise GraphError(
                    f"Source {name!r} is a Spark DataFrame, which only Spark can read. Give it a trace, a generator or "
                    f"files."
                )
            self._feeds[name] = feed
        self._clock = clock or SystemClock()
        protection = job_protection(self._graph)
        self._rewinding = (
            None
            if protection is None
            else Rewinding(
                self._graph,
                protection,
                backups=backups or "",
                next_batch=batch,
                clock=self._clock,
                coordination=coordination,
            )
        )
        check_resumable(
            self._graph,
            state=state,
            backups=backups,
            batch=batch,
            rescale=rescale,
            rewound=self._rewinding is not None and self._rewinding.follows_rewind(batch),
        )
        self._temporary = state is None
        if state is None:
            state = make_temporary("local-", graph=self._graph.name)
        else:
            claim(state, graph=self._graph.name)
        self.state = state
        self.batch = batch
        """The batch that comes next."""
        self.passed_over: dict[str, Passed] = {}
        """What sources passed over since this run was made, by their names, where that was declared."""
        self._records: list[ShardProgress] = []
        self._times: list[BatchTimes] = []
        self._backups = backups
        self._reach = Reach() if checkpoint is None else Reach.beside(checkpoint)
        self._observe = observe
        self._writing = writing
        if self._rewinding is not None:
            self._rewinding.begin(batch, self._forget_after)
        went_back = self._rewinding is not None and self._rewinding.follows_rewind(self.batch)
        self._outlets.begin(self.batch, went_back=went_back, observe=observe)
        places = Places(state=state, backups=backups, reach=self._reach, clock=self._clock)
        self.rescaled = divide_anew(self._graph, places, batch=batch) if rescale else finish(self._graph, places)
        """The operators whose state was divided anew, by this run or one that was killed while it did so."""
        self._open: dict[tuple[str, int], OpenOperator] = {}
        self._equipment = Equipment(
            graph=self._graph,
            operators=self._operators,
            open_shard=self._open_shard,
            open_items=partial(open_items, graph=self._graph, backups=backups),
            mailbox=Mailbox(self._graph, state=state, backups=backups),
        )

    def __enter__(self) -> "LocalRun":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def batches(self) -> int:
        """How many batches there are in all."""
        return max((-(-feed.pieces // feed.pieces_per_batch) for feed in self._feeds.values()), default=0)

    def run(self) -> None:
        """All batches that are left."""
        while self.step():
            pass

    def step(self) -> bool:
        """The next batch; false if there is none. One that raises is the next again.

        If memory was lost and the graph is protected as a whole, it goes back instead, and that is all.
        """
        if self.batch >= self.batches:
            return False
        self._goes_back(self._step)
        return True

    def look_at_logs(self) -> bool:
        """Go back if a stream log that this job has written is gone; whether it did."""
        return self._logs is not None and self._goes_back(partial(self._logs.check_there, self.batch))

    def hear(self, *, held_up: bool) -> bool:
        """Hear what other jobs have to say of checkpoints; whether there was something."""
        heard = False

        def listen() -> None:
            nonlocal heard
            heard = self._coordination is not None and self._coordination.hear(held_up=held_up)

        return self._goes_back(listen) or heard

    def _goes_back(self, work: Callable[[], None]) -> bool:
        """Do something, and go back if it finds that memory is lost; whether it did."""
        try:
            work()
        except MemoryLostError as error:
            if self._rewinding is None:
                raise
            self._rewinding.rewind(self.batch - 1, self._forget_after, error)
            return True
        return False

    def _step(self) -> None:
        watch = Stopwatch(Work.APPLYING, self._clock)
        if self._logs is not None:
            self._logs.begin(self.batch, self._equipment.mailbox)
        progress: list[ShardProgress] = []
        leaving, ranges = self._first_stage(watch)
        for stage in self._stages[1:]:
            with watch.on(Work.DIVIDING):
                arriving = exchange(self._graph, stage, leaving)
            leaving = []
            for index, tuples in enumerate(arriving):
                leaving += self._apply(stage, index, tuples, progress)
        with watch.on(Work.WRITING):
            self._outlets.write(
                {
                    name: LocalOutput(
                        pa.Table.from_batches([out for edge, out in leaving if edge.node == name], schema)
                    )
                    for name, schema in self._outlets.schemas.items()
                },
                batch=self.batch,
            )
        if self._rewinding is not None:
            saved_bytes = sum(row.backup_bytes for row in progress)
            self._rewinding.ran(self.batch, tuples=sum(part.tuples for part in ranges), saved_bytes=saved_bytes)
        self._reach.note(progress, ranges)
        self._records += progress
        self._times.append(in_one_process(self.batch, watch.stopped(saving_s=saving_s(progress))))
        self.batch += 1
        if self._coordination is not None:
            self._coordination.committed(self.batch - 1)

    def _forget_after(self, batch: int) -> None:
        """Have all but the shards be as they were after ``batch``."""
        self._reach.rewound(batch)
        self._outlets.forget_after(batch)
        self.batch = batch + 1

    def rewinds(self) -> list[Rewound]:
        """Each time this run was sent back to its last checkpoint, because memory was lost."""
        return [] if self._rewinding is None else list(self._rewinding.log)

    def wipe(self, operator: str | None = None) -> None:
        """Lose all shard memory, or that of one operator, as when the process it runs in is killed."""
        if operator is None:
            self._let_go()
            wipe(self.state)
            return
        asked_for(self._graph, self._operators, operator, 0)
        for index in range(self._graph.shards_of(operator)):
            opened = self._open.pop((operator, index), None)
            if opened is not None:
                opened.close()
        wipe(shard_folder(self.state, self._graph.name, operator, 0).parent)

    def records(self) -> list[ShardProgress]:
        """What every shard did in every batch so far."""
        return list(self._records)

    def progress(self) -> OperatorSummaries:
        """Backups, divergence, failures, per operator."""
        return summarise(self._records)

    def times(self) -> list[BatchTimes]:
        """Where the time of every batch so far went."""
        return list(self._times)

    def result(self, sink: str) -> pa.Table:
        """What a Memory sink was given."""
        return self._outlets.result(sink)

    def shard(self, operator: str, index: int) -> Operator:
        """The operator at work on one shard, to look at its state between batches."""
        kernel = asked_for(self._graph, self._operators, operator, index)
        if self.batch:  # before the first batch every shard is empty, and that is what there is to see
            check_memory(self._graph, operator, index, state=self.state)
        return self._open_shard(kernel, index).operator

    def close(self) -> None:
        """Let go of all shard memory, and remove it if its folder is a temporary one."""
        self._reach.write()
        self._let_go()
        if self._temporary:
            shutil.rmtree(self.state, ignore_errors=True)

    def _let_go(self) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()

    def _first_stage(self, watch: Stopwatch) -> tuple[list[Leaving], list[SourceRange]]:
        leaving: list[Leaving] = []
        ranges: list[SourceRange] = []
        partition = 0  # numbered within the batch over all sources, as Spark does
        for name, feed in self._feeds.items():
            source, of_source = self._graph.sources[name], list[SourceRange]()
            first = self.batch * feed.pieces_per_batch
            for number in range(first, min(first + feed.pieces_per_batch, feed.pieces)):
                piece = open_piece(feed, number)
                numbers = Numbering(source, batch=self.batch, part=partition, name=piece.name, ordered=True)
                # What comes from a log left operators, and is numbered as they like, as between stages.
                reads = {name: numbers} if source.log is None else {}
                task = self._make_task(self._stages[0], partition, reads=reads)
                arriving = ((source.name, source.columns_of(batch)) for batch in piece.batches)
                leaving += task.run(watch.over(Work.READING, arriving))
                of_source += task.ranges
                if piece.passed:
                    self.passed_over.setdefault(name, Passed()).add(piece.passed)
                partition += 1
            check_numbers(source, of_source, before=self._reach.last_seq(name, batch=self.batch))
            ranges += of_source
        return leaving, ranges

    def _apply(
        self, stage: Stage, index: int, arriving: Iterable[Arriving], progress: list[ShardProgress]
    ) -> list[Leaving]:
        task = self._make_task(stage, index)
        leaving = list(task.run(arriving))
        progress += task.progress
        return leaving

    def _make_task(self, stage: Stage, index: int, reads: Mapping[str, Numbering] | None = None) -> Task:
        orders = NO_ORDERS if self._rewinding is None else self._rewinding.orders(self.batch)
        return Task(self._equipment, stage, index=index, batch=self.batch, reads=reads, orders=orders)

    def _open_shard(self, operator: Operator, index: int) -> OpenOperator:
        opened = self._open.get((operator.name, index))
        if opened is not None and not opened.shard.current():
            opened.close()
            opened = None
        if opened is None:
            opened = OpenOperator(
                operator,
                graph=self._graph,
                index=index,
                state=self.state,
                backups=self._backups,
                clock=self._clock,
                observe=self._observe,
                reached=self._reach.of,
                writing=self._writing,
            )
            self._open[operator.name, index] = opened
        return opened
