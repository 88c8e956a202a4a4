"""Memory that a host still has and does not own: removed when the host comes back, and all of it when a run leaves.

A host that was late, and was left, finds its shards with others when it returns. What it has of them is of an older
epoch: nobody reads it, but it takes room.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pyspark.sql import SparkSession

from spillway.engine.epochs import memory_named
from spillway.spark.asking import ask_hosts
from spillway.spark.memory_place import MemoryPlace

_LEAVE_S_MAX = 10.0

Owned = Mapping[str, Mapping[int, tuple[int, str]]]
"""By operator and shard: the epoch it is in, and the id of its owner's memory."""


def sweeping(*, memory: MemoryPlace, graph: str, owned: Owned) -> Callable[[], None]:
    """What a host does to remove memory of the run that is not its own."""
    return partial(_sweep, memory=memory, graph=graph, owned={name: dict(shards) for name, shards in owned.items()})


def leave(spark: SparkSession, hosts: Iterable[str], *, memory: MemoryPlace) -> None:
    """Have hosts remove all memory of the run."""
    ask_hosts(spark, hosts, partial(_leave, memory=memory), seconds_max=_LEAVE_S_MAX)


def _sweep(*, memory: MemoryPlace, graph: str, owned: Owned) -> None:
    own = memory.memory_id()
    for operator, shards in owned.items():
        folder = memory.folder / graph / operator
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            named = memory_named(path.name)
            if named is not None and shards.get(named.shard) != (named.epoch, own):
                shutil.rmtree(path, ignore_errors=True)


def _leave(host: str, *, memory: MemoryPlace) -> None:
    shutil.rmtree(memory.folder, ignore_errors=True)
