"""What the driver tells the tasks of a batch: who owns each shard, what is noted of its backups, and its orders.

It goes along with every task as a local property of Spark's, so that no task needs a folder that only the driver has,
and a task that was given up and wakes later still knows no more than it was told.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from pyspark import TaskContext

from spillway.backup.orders import NO_ORDERS, Orders
from spillway.backup.reach import NOT_NOTED, Reached

PROPERTY = "spillway.shards"
ORDERS = "spillway.orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a task knows of one shard."""

    host: str = ""  # the owner
    memory: str = ""  # the id of the owner's memory; empty if there is one machine, and any will do
    epoch: int = 0
    reached: Reached = NOT_NOTED


Shards = Mapping[str, Sequence[Told]]
"""By operator, for each of its shards."""


def written(shards: Shards) -> str:
    """As text, short: it goes along with every task.

    >>> told = {"count": [Told(host="a", memory="m", epoch=2, reached=Reached(failures=1, backups=(3, 5), noted=True))]}
    >>> read(written(told)) == told
    True
    """
    owners: dict[tuple[str, str], int] = {}
    rows = {
        operator: [
            [
                owners.setdefault((one.host, one.memory), len(owners)),
                one.epoch,
                *([one.reached.failures, *one.reached.backups] if one.reached.noted else []),
            ]
            for one in told
        ]
        for operator, told in shards.items()
    }
    place = next((one.reached.place for told in shards.values() for one in told if one.reached.place), "")
    return json.dumps({"place": place, "owners": list(owners), "shards": rows}, separators=(",", ":"))


@lru_cache(maxsize=4)
def read(text: str) -> Shards:
    """What was written."""
    found = json.loads(text)
    return {operator: [_told(found, *row) for row in rows] for operator, rows in found["shards"].items()}


def told_here(operator: str, shard: int) -> Told:
    """What this task was told of a shard."""
    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(PROPERTY)
    assert text is not None, "a batch tells its tasks"
    return read(text)[operator][shard]


def written_orders(orders: Orders) -> str:
    """As text."""
    return json.dumps(asdict(orders))


def orders_here() -> Orders:
    """What this task was told of its batch."""
    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(ORDERS)
    return NO_ORDERS if text is None else Orders(**json.loads(text))


def _told(found: dict[str, Any], owner: int, epoch: int, *noted: int) -> Told:
    host, memory = found["owners"][owner]
    known = Reached(failures=noted[0], backups=noted[1:], noted=True) if noted else NOT_NOTED
    return Told(host=host, memory=memory, epoch=epoch, reached=replace(known, place=found["place"]))
