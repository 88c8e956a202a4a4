"""Who owns the shards of a run on a cluster: looked at before every batch, told to its tasks, made durable.

``protocols.placement`` decides; here is what happens around it. Before a batch

    look       which hosts show an executor; those that were not there at the last look are asked which memory is theirs
               and whether they see the backups (see ``probing``). One that has another memory than before has lost it
    decide     and make durable who owns what from now on (``engine.owner_table``)
    hand over  memory that moves between hosts that live (see ``handing``), wait for those that are late, or go on
    tell       the tasks of the batch who owns their shard (see ``telling``); stages are pinned to the owners' hosts

A task that finds itself elsewhere changes nothing and says so. Then, and whenever Spark has lost executors, the batch
is tried again from the look on, in the same micro-batch: its input is read again, as Spark itself would.

On one machine there is one memory, every task may run anywhere, and nothing of this is done, unless the run was on a
cluster before: then its table is there, and says which epochs shards are in.
"""

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from spillway.backup.keeper import Observer, Step, ignore
from spillway.backup.reach import Reach
from spillway.clock import Clock, SystemClock
from spillway.engine import rescaling
from spillway.engine.gathering import Gathering
from spillway.engine.owner_table import OwnerTable, read_table, write_table
from spillway.errors import GraphError, NotOwnerError, RunError
from spillway.files.folders import Folder
from spillway.graph.checked import CheckedGraph
from spillway.protocols.placement import Decision, Placement, Shard, Wish
from spillway.records.notices import Notice
from spillway.records.progress import ShardProgress
from spillway.records.rescaled import Rescaled
from spillway.spark.carrying import HostCarrier
from spillway.spark.groups import Group, as_table, from_table, groups_of
from spillway.spark.handing import Handed, Handing, HandOver
from spillway.spark.hosts import hosts_seen
from spillway.spark.lookout import Look, Lookout
from spillway.spark.memory_place import MemoryPlace
from spillway.spark.move_log import MoveLog
from spillway.spark.neighbours import Neighbour
from spillway.spark.places import Places
from spillway.spark.raised import as_ours
from spillway.spark.settings import WAIT_FOR_HOST_S, refuse_speculation, wait_for_hosts
from spillway.spark.sweeping import leave, sweeping
from spillway.spark.telling import PROPERTY, Told, written

ATTEMPTS_MAX = 12
"""How often a batch is tried in which hosts are lost, before its error is raised."""

_HOST_LOST = re.compile(
    r"ExecutorLostFailure|FetchFailed|has failed the maximum allowable number of times|"
    r"Executor heartbeat timed out|Python worker exited unexpectedly"
)


class Owners:
    """The owners of one run's shards."""

    def __init__(
        self,
        graph: CheckedGraph,
        spark: SparkSession,
        *,
        memory: MemoryPlace,
        backups: str | None,
        table: Folder | None,
        batch: int,
        reach: Reach,
        rebalance: bool = False,
        neighbour: Neighbour | None = None,
        shared: Iterable[str] = (),
        stopping: Callable[[], bool] = lambda: False,
        observe: Observer = ignore,
        notice: Callable[[Notice], None] = lambda notice: None,
        clock: Clock | None = None,
    ) -> None:
        self._graph = graph
        self._spark = spark
        self._memory = memory
        self._table = table
        self._reach = reach
        self._stopping = stopping
        self._neighbour = neighbour or Neighbour()
        self._observe = observe
        self._clock = clock or SystemClock()
        self._groups = groups_of(graph)
        self._by_stage = {group.stage: group for group in self._groups.values()}
        self._lock = threading.Lock()  # around the placement: people ask from other threads
        self._tried: tuple[int, int] = (-1, 0)  # a batch, and how often it failed
        self.log = MoveLog(self._groups, self._clock, notice)
        """What became of the shards."""
        self._lookout = Lookout(
            spark,
            memory=memory,
            backups=backups,
            shared=shared,
            owns=lambda host: bool(self._placement.shards_at(host)),
            sweeping=self._sweeping,
            trouble=self.log.trouble,
            stopping=stopping,
            clock=self._clock,
        )
        self._batch, self._rebalance = batch, rebalance
        noted = None if table is None else read_table(table)
        context: Any = spark.sparkContext
        self.several = bool(self._groups) and (noted is not None or not context._jsc.sc().isLocal())
        """Whether owners matter."""
        self._placement = self._begun(noted or OwnerTable())
        if self.several and table is None:
            raise RunError(
                "Who owns a shard is noted beside the backups or, without any, beside Spark's checkpoint, which is in "
                "a folder that only Spark can open. Name a folder that all hosts can reach with backups=."
            )
        if self.several:
            refuse_speculation(spark)
            least_s = min(group.delay_max_s for group in self._groups.values())
            wait_for_hosts(spark, seconds=min(max(least_s, 1.0), WAIT_FOR_HOST_S))

    def _begun(self, noted: OwnerTable) -> Placement:
        """Go on from what is noted; a run that begins anew has owners of its own, and epochs above those."""
        owners, given = from_table(noted, self._groups.values())
        if self._batch == 0:
            given = {shard: max(owner.epoch, given.get(shard, -1)) for shard, owner in owners.items()} | given
            owners = {}
        if owners:
            self._lookout.memories = dict(noted.memories)
        wishes = {
            group.name: Wish(shards=group.shards, delay_max_s=group.delay_max_s) for group in self._groups.values()
        }
        return Placement(wishes, owners=owners, given=given, rebalance=self._rebalance)

    # -- before a batch -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse to begin where a host does not see what all must see; nothing has run yet."""
        if self.several:
            self._saw(self._lookout.first())

    def divided(self, kept: rescaling.Places, places: Places, *, batch: int, rescale: bool) -> tuple[Rescaled, ...]:
        """What was divided anew before a run begins with ``batch``, by it or one that was killed while it did so."""
        if not self.several:
            return rescaling.rescale(self._graph, kept, batch=batch) if rescale else rescaling.finish(self._graph, kept)
        if batch == 0:
            return ()
        places.keep()  # memory comes here from hosts, which then let go of it
        return self._divide(kept, rescale=rescale)

    def _divide(self, places: rescaling.Places, *, rescale: bool) -> tuple[Rescaled, ...]:
        """Have the numbers of shards that the graph wants, if that is asked for, and finish what was begun."""
        assert self._table is not None
        carrier = HostCarrier(self._spark, graph=self._graph.name, memory=self._memory, look=self._lookout.there)
        gathering = Gathering(
            self._graph,
            table=self._table,
            together=[[*group.operators] for group in self._groups.values()],
            places=places,
            memory=self._memory.memory_id(),
            carrier=carrier,
            clock=self._clock,
            delay_max_s=max(group.delay_max_s for group in self._groups.values()),
            batch=self._batch,
        )
        done = gathering.run(rescale=rescale)
        self._placement = self._begun(read_table(self._table) or OwnerTable())
        self._lookout.forget()
        return done

    def prepare(self, batch: int) -> None:
        """Have an owner for every shard, who lives, and tell the tasks of the batch that is about to run."""
        if self.several:
            self._decide(batch)
            self._observe(Step.PLACED, "", -1, batch)
        self._spark.sparkContext.setLocalProperty(PROPERTY, written(self._told()))

    def places(self, stage: int) -> list[str | None] | None:
        """The host on which each task of a stage is wanted: the owner of its shard; None if any will do."""
        if not self.several or len(self._placement.living) < 2:
            return None
        group, owners = self._by_stage[stage], self._placement.owners
        return [owners[group.name, index].host for index in range(group.shards)]

    def try_again(self, batch: int, error: Exception) -> None:
        """A batch failed. Returns if it may go better after another look; raises the error otherwise."""
        if not self.several or self._stopping():
            raise error
        lost = _HOST_LOST.search(str(error)) or isinstance(as_ours(error, "Spark stopped the run"), NotOwnerError)
        self._tried = (batch, self._tried[1] + 1 if self._tried[0] == batch else 1)
        if not lost or self._tried[1] >= ATTEMPTS_MAX:
            raise error
        self._lookout.forget()

    def _decide(self, batch: int) -> None:
        while True:
            self._saw(self._lookout.look())
            with self._lock:
                decision = self._neighbour.decide(self._placement, now_s=self._clock.monotonic_s())
                changed = decision.settled or decision.moves or decision.hand_overs
                if changed:
                    self._write_table()
            self.log.left(decision.moves)
            crowded = self._neighbour.told(crowded=decision.crowded)
            if crowded:
                self.log.trouble(crowded)
            if decision.give_up:
                raise RunError(f"The run gives up: {decision.give_up}. Start workers, and resume from its checkpoint.")
            if decision.hand_overs:
                self._hand_over(decision, batch)
                continue
            late = self._placement.late if decision.wait_until_s is not None else ()
            self.log.late(late, batch=batch, living=self._placement.living)
            if decision.go:
                return
            assert decision.wait_until_s is not None
            self._lookout.wait(decision.wait_until_s)

    def _saw(self, look: Look) -> None:
        with self._lock:
            for host in look.lost:
                self._placement.lost(host)
                self.log.lost(host)
            self._placement.seen(look.hosts, now_s=self._clock.monotonic_s())

    def _sweeping(self) -> Callable[[], None]:
        """What hosts that have come back do: they let go of what is others' by now."""
        owners = self._placement.owners
        owned = {
            operator: {
                index: (owners[group.name, index].epoch, self._lookout.memories.get(owners[group.name, index].host, ""))
                for index in range(shards)
            }
            for group in self._groups.values()
            for operator, shards in group.operators.items()
            if owners
        }
        return sweeping(memory=self._memory, graph=self._graph.name, owned=owned)

    def leave(self) -> None:
        """Have all hosts remove the run's memory, which was temporary."""
        if self.several:
            leave(self._spark, hosts_seen(self._spark.sparkContext), memory=self._memory)

    def _write_table(self) -> None:
        placement = self._placement
        owning = {owner.host for owner in placement.owners.values()}
        memories = {
            host: memory for host, memory in self._lookout.memories.items() if host in owning | placement.living
        }
        table = as_table(self._groups.values(), owners=placement.owners, given=placement.given, memories=memories)
        assert self._table is not None
        write_table(self._table, table)

    def _told(self) -> dict[str, list[Told]]:
        return {
            operator: [self._told_of(group, operator, index) for index in range(shards)]
            for group in self._groups.values()
            for operator, shards in group.operators.items()
        }

    def _told_of(self, group: Group, operator: str, index: int) -> Told:
        reached = self._reach.of(operator, index)
        if not self.several:
            return Told(reached=reached)
        owner = self._placement.owners[group.name, index]
        return Told(host=owner.host, memory=self._lookout.memories[owner.host], epoch=owner.epoch, reached=reached)

    # -- moves --------------------------------------------------------------------------------------------------------

    def _hand_over(self, decision: Decision, batch: int) -> None:
        owners = self._placement.owners
        handings = [
            Handing(
                move=move,
                epoch=owners[move.shard].epoch,
                operators=tuple(self._groups[move.shard[0]].at(move.shard[1])),
            )
            for move in decision.hand_overs
        ]
        handing = HandOver(
            self._spark,
            graph=self._graph.name,
            memory=self._memory,
            handings=handings,
            served=lambda: self._observe(Step.SERVED, "", -1, batch),
        )
        done: list[Shard] = []
        durable: list[Shard] = []
        try:
            # Before the first batch there is nothing to hand over.
            found = handing.run() if batch else {move.shard: Handed() for move in decision.hand_overs}
            self._observe(Step.FETCHED, "", -1, batch)
            with self._lock:
                for move in decision.hand_overs:
                    handed = found[move.shard]
                    if handed.trouble:
                        self._placement.not_handed_over(move)
                        self.log.trouble(handed.trouble)
                    else:
                        self._placement.handed_over(move)
                        done.append(move.shard)
                        self.log.handed_over(move, handed, batch=batch)
                self._write_table()
            durable = done
            self._observe(Step.HANDED_OVER, "", -1, batch)
        finally:
            # As long as the table says that the source is the owner, its copy is the one that counts.
            handing.close(durable)

    def note(self, rows: Sequence[ShardProgress]) -> None:
        """A batch is about to be committed, in which shards did this."""
        for group, seconds in self.log.told(rows).items():
            with self._lock:
                self._placement.recovered(group, seconds=seconds)

    # -- for people ---------------------------------------------------------------------------------------------------

    def owner_of(self, operator: str, shard: int) -> str:
        """The host that owns a shard; empty where there is one machine, or no batch has begun."""
        if not self.several:
            return ""
        owner = self._placement.owners.get((self._group_of(operator, shard).name, shard))
        return owner.host if owner is not None else ""

    def epoch_of(self, operator: str, shard: int) -> int:
        """The epoch that a shard is in."""
        owner = self._placement.owners.get((self._group_of(operator, shard).name, shard)) if self.several else None
        return owner.epoch if owner is not None else 0

    def check_here(self, operator: str, shard: int) -> None:
        """Refuse to look at a shard whose memory is on another machine."""
        host = self.owner_of(operator, shard)
        if host and self._lookout.memories.get(host) != self._memory.memory_id():
            raise RunError(
                f"Operator {operator!r}, shard {shard}: its memory is on host {host}, and only what is on the driver's "
                f"own machine can be looked at."
            )

    def ask(self, operator: str, shard: int, host: str) -> None:
        """Have a shard moved before the next batch."""
        self._check_several()
        group = self._group_of(operator, shard)
        with self._lock:
            if not self._placement.owners:
                raise RunError("No batch has begun yet, so no shard has an owner that it could be moved from.")
            self._check_living(host)
            self._placement.ask((group.name, shard), host)

    def drain(self, host: str) -> None:
        """Have all shards of a host moved, and give it no others."""
        self._check_several()
        with self._lock:
            self._check_living(host)
            if not self._placement.living - self._placement.draining - {host}:
                raise RunError(f"Host {host!r} cannot be drained: no other host is there that could have its shards.")
            self._placement.drain(host)

    def _group_of(self, operator: str, shard: int) -> Group:
        for group in self._groups.values():
            if shard in range(group.operators.get(operator, 0)):
                return group
        raise GraphError(f"Graph {self._graph.name!r} has no shard {shard!r} of an operator {operator!r} with state.")

    def _check_several(self) -> None:
        if not self.several:
            raise RunError("This run is on one machine: there is no other host to move shards to.")

    def _check_living(self, host: str) -> None:
        if host not in self._placement.living:
            there = ", ".join(sorted(self._placement.living)) or "none"
            raise RunError(f"There is no host {host!r} that shows an executor; there are {there}.")
