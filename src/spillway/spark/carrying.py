"""Memory carried between the hosts of a cluster and the driver, which divides it anew: see ``engine.gathering``."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from spillway.engine.gathering import Load, Shard
from spillway.protocols.placement import Move, Owner, Why
from spillway.spark.handing import Handing, HandOver
from spillway.spark.memory_place import MemoryPlace

_PAUSE_S = 0.05


class HostCarrier:
    """The hosts of one Spark; ``look`` tells which are there, and the ids of their memories."""

    def __init__(
        self, spark: SparkSession, *, graph: str, memory: MemoryPlace, look: Callable[[], Mapping[str, str]]
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._memory = memory
        self._look = look

    def memories(self) -> Mapping[str, str]:
        return self._look()

    def pause(self) -> None:
        time.sleep(_PAUSE_S)

    def carry(self, loads: Sequence[Load], noted: Callable[[Collection[Shard]], None]) -> Mapping[Shard, str]:
        handings = [
            Handing(
                move=Move(
                    shard=load.shard,
                    source=load.source,
                    to=Owner(load.target, load.target_epoch),
                    hand_over=True,
                    why=Why.DIVIDED,
                ),
                epoch=load.source_epoch,
                operators=(load.shard[0],),
            )
            for load in loads
        ]
        over = HandOver(self._spark, graph=self._graph, memory=self._memory, handings=handings, served=lambda: None)
        durable: list[Shard] = []
        try:
            found = over.run() if handings else {}
            copied = [shard for shard, handed in found.items() if not handed.trouble]
            noted(copied)
            durable = copied
        finally:
            over.close(durable)
        return {shard: handed.trouble for shard, handed in found.items() if handed.trouble}
