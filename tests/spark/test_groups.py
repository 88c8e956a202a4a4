"""Which operators move together, and the durable table of owners in their terms."""

from pathlib import Path

import pytest
from tests.graph.declared import Step, chain

from spillway.engine.owner_table import NAME, OwnerTable, Row, read_table, write_table
from spillway.errors import BackupError
from spillway.files.folders import LocalFolder
from spillway.protocols.placement import Owner
from spillway.spark.groups import Group, as_table, from_table, groups_of

PAIR = Group(name="a", stage=1, operators={"a": 2, "b": 1}, shards=2, delay_max_s=0.0)
OWNERS = {("a", 0): Owner("h0", 3), ("a", 1): Owner("h1", 0)}


def test_operators_of_one_stage_are_a_group_called_after_the_first_with_state() -> None:
    graph = chain(
        Step(name="first", key=("k",), stateful=True, shards=3),
        Step(name="light"),
        Step(name="second", key=("k",), stateful=True, shards=2),
    ).checked()
    found = groups_of(graph)
    assert {name: (group.stage, dict(group.operators)) for name, group in found.items()} == {
        "first": (1, {"first": 3}),
        "second": (2, {"second": 2}),
    }
    assert PAIR.at(0) == ["a", "b"] and PAIR.at(1) == ["a"]


def test_a_table_gives_back_what_was_noted(tmp_path: Path) -> None:
    table = as_table([PAIR], owners=OWNERS, given={("a", 1): 4}, memories={"h0": "m"})
    write_table(LocalFolder(tmp_path), table)
    read = read_table(LocalFolder(tmp_path))
    assert read == table
    assert read is not None and from_table(read, [PAIR]) == (OWNERS, {("a", 1): 4})
    assert read_table(LocalFolder(tmp_path / "elsewhere")) is None


def test_a_damaged_table_is_refused_since_epochs_must_not_go_back(tmp_path: Path) -> None:
    write_table(LocalFolder(tmp_path), as_table([PAIR], owners=OWNERS, given={}, memories={}))
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes().replace(b"h0", b"h9"))
    with pytest.raises(BackupError, match=f"The table {NAME} in .* is damaged"):
        read_table(LocalFolder(tmp_path))


def test_operators_that_have_come_together_begin_an_epoch_that_neither_had() -> None:
    apart = OwnerTable(
        rows={
            "a": (Row(host="h0", epoch=1, given=-1), Row(host="h1", epoch=0, given=-1)),
            "b": (Row(host="h1", epoch=5, given=6),),
        }
    )
    owners, given = from_table(apart, [PAIR])
    assert owners == {("a", 0): Owner("h0", 7), ("a", 1): Owner("h1", 0)}
    assert given == {("a", 0): 6}


def test_a_table_that_lacks_shards_gives_no_owners_and_epochs_still_do_not_go_back() -> None:
    fewer = OwnerTable(rows={"a": (Row(host="h0", epoch=2, given=-1),), "b": (Row(host="h0", epoch=2, given=-1),)})
    assert from_table(fewer, [PAIR]) == ({}, {("a", 0): 2})
