"""A source keeps its copy of a shard until it is durable that another host owns it."""

import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spillway.backup.keeper import ignore
from spillway.clock import ManualClock
from spillway.errors import BackupError
from spillway.files.folders import LocalFolder
from spillway.protocols.placement import Owner, Placement, Shard, Wish
from spillway.spark import owning
from spillway.spark.groups import Group
from spillway.spark.handing import Handed
from spillway.spark.move_log import MoveLog
from spillway.spark.owning import Owners

SHARD: Shard = ("count", 0)


class Fetched:
    """A hand-over that goes well; it keeps what it was told to let go of."""

    let_go: Sequence[Shard] | None = None

    def __init__(self, spark: Any, **options: Any) -> None:
        pass

    def run(self) -> dict[Shard, Handed]:
        return {SHARD: Handed()}

    def close(self, done: Sequence[Shard] = ()) -> None:
        Fetched.let_go = list(done)


def handed_over(monkeypatch: pytest.MonkeyPatch, write_table: Any) -> Owners:
    """Owners of one shard, which is being handed over from a to b."""
    placement = Placement({"count": Wish(shards=1)}, owners={SHARD: Owner("a", 0)})
    placement.seen(["a", "b"], now_s=0.0)
    placement.ask(SHARD, "b")
    group = Group(name="count", stage=1, operators={"count": 1}, shards=1, delay_max_s=0.0)
    owners = object.__new__(Owners)  # without Spark
    owners._spark = owners._memory = None  # type: ignore[assignment]
    owners._table = LocalFolder(Path())  # which nobody writes into: see write_table
    owners._graph = SimpleNamespace(name="words")  # type: ignore[assignment]
    owners._groups, owners._placement, owners._lock = {"count": group}, placement, threading.Lock()
    owners._lookout = SimpleNamespace(memories={})  # type: ignore[assignment]
    owners._observe = ignore
    owners.log = MoveLog(owners._groups, ManualClock(), lambda notice: None)
    monkeypatch.setattr(owning, "HandOver", Fetched)
    monkeypatch.setattr(owning, "write_table", write_table)
    owners._hand_over(placement.decide(now_s=0.0), 3)
    return owners


def test_what_was_handed_over_goes_at_the_source_once_its_new_owner_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = handed_over(monkeypatch, lambda folder, table: None)
    assert owners._placement.owners[SHARD] == Owner("b", 1)
    assert Fetched.let_go == [SHARD]


def test_it_stays_at_the_source_if_the_table_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Any, table: Any) -> None:
        raise BackupError("the disk is full")

    with pytest.raises(BackupError):
        handed_over(monkeypatch, refuse)
    assert Fetched.let_go == []
