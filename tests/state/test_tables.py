"""HashTable and KeySet against a dictionary and a set, whatever keys come and however they come."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from tests.state.shards import Opened, content_of, open_shard

from spillway.errors import InputError
from spillway.state import HashTable, KeySet, keys

INTEGERS = st.one_of(st.integers(-3, 30), st.integers(-(2**63), 2**63 - 1))
# Arrow holds UTF-8, so lone surrogates cannot come.
STRINGS = st.one_of(st.sampled_from(["", "a", "é", "\0", "a\0", "日本", "🦔"]), st.text(st.characters(codec="utf-8")))


def integer_columns(numbers: list[int]) -> list[Any]:
    """The same keys in every form in which a table takes them."""
    part = pa.array([7, *numbers, 7], pa.int64())[1:-1]
    return [np.array(numbers, np.int64), pa.array(numbers, pa.int64()), part, pa.chunked_array([part[:1], part[1:]])]


def string_columns(strings: list[str]) -> list[Any]:
    part = pa.array(["before", *strings, "after"], pa.string())[1:-1]
    large = pa.array(["before", *strings, "after"], pa.large_string())[1:-1]
    return [pa.array(strings, pa.string()), part, large, pa.chunked_array([part[:1], part[1:]])]


COLUMNS = {"int64": (INTEGERS, integer_columns), "string": (STRINGS, string_columns)}


class TableAgainstDictionary(RuleBasedStateMachine):
    """Batches of additions, committed, rolled back or torn, on a table, a set and their models."""

    key: str
    folders: Any

    @initialize()
    def open(self) -> None:
        self.folder = next(self.folders)
        self.opened = self.reopened()
        self.table: dict[Any, int] = {}
        self.members: set[Any] = set()
        self.before: tuple[Any, Any] | None = None

    def reopened(self) -> Opened:
        return open_shard(self.folder, table=HashTable(key=self.key), members=KeySet(key=self.key))

    @property
    def applying(self) -> bool:
        return self.opened.shard.torn

    @precondition(lambda self: not self.applying)
    @rule()
    def begin(self) -> None:
        self.opened.begin()
        self.before = dict(self.table), set(self.members)

    @precondition(lambda self: self.applying)
    @rule(data=st.data(), act=st.sampled_from(["add", "set"]))
    def change(self, data: st.DataObject, act: str) -> None:
        element, columns = COLUMNS[self.key]
        wanted = data.draw(st.lists(element, max_size=8))
        numbers = data.draw(st.lists(st.integers(-50, 50), min_size=len(wanted), max_size=len(wanted)))
        column = columns(wanted)[data.draw(st.integers(0, 3))]
        getattr(self.opened["table"], act)(column, numbers)
        for key, number in zip(wanted, numbers, strict=True):
            self.table[key] = number + (self.table.get(key, 0) if act == "add" else 0)
        new = self.opened["members"].add(column)
        assert new.tolist() == [key not in self.members for key in wanted]
        self.members |= set(wanted)

    @precondition(lambda self: self.applying)
    @rule(count=st.sampled_from([1, 700, 1600]))
    def enter_many(self, count: int) -> None:
        """So many new keys that the index doubles, once or more."""
        numbers = range(10**6 + len(self.table), 10**6 + len(self.table) + count)
        wanted = list(numbers) if self.key == "int64" else [f"many {number}" for number in numbers]
        column = COLUMNS[self.key][1](wanted)[0]
        self.opened["table"].add(column, 3)
        self.opened["members"].add(column)
        for key in wanted:
            self.table[key] = self.table.get(key, 0) + 3
        self.members |= set(wanted)

    @precondition(lambda self: self.applying)
    @rule()
    def commit(self) -> None:
        self.opened.shard.settle(seq=0, tuples=0)
        self.opened.shard.commit()

    @precondition(lambda self: self.opened.shard.can_roll_back)
    @rule(torn=st.booleans())
    def roll_back(self, torn: bool) -> None:
        if torn:
            self.opened = self.reopened()
        self.opened.shard.rollback()
        assert self.before is not None
        self.table, self.members = self.before

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        element, columns = COLUMNS[self.key]
        known = st.sampled_from(list(self.table)) if self.table else element
        wanted = data.draw(st.lists(st.one_of(element, known), max_size=8))
        column = columns(wanted)[data.draw(st.integers(0, 3))]
        assert self.opened["table"].get(column).tolist() == [self.table.get(key, 0) for key in wanted]
        assert self.opened["members"].contains(column).tolist() == [key in self.members for key in wanted]

    @rule()
    def read_all(self) -> None:
        assert content_of(self.opened["table"]) == self.table
        assert list(content_of(self.opened["table"])) == list(self.table), "not oldest first"
        assert content_of(self.opened["members"]) == self.members
        assert len(self.opened["table"]) == len(self.table)


@pytest.mark.parametrize("key", COLUMNS)
def test_tables_and_sets_follow_their_models(key: str, tmp_path: Path) -> None:
    machine = type("Machine", (TableAgainstDictionary,), {"key": key, "folders": numbered(tmp_path)})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


def test_unequal_strings_of_one_hash_are_different_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hash_lengths(data: Any, offsets: Any, seed: Any, out: Any) -> None:
        out[:] = np.diff(offsets) % 2

    monkeypatch.setattr(keys, "hash_strings", hash_lengths)
    machine = type("Machine", (TableAgainstDictionary,), {"key": "string", "folders": numbered(tmp_path)})
    # Thousands of equal hashes make every probe a walk through all of them: fewer and shorter lives are enough.
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=20, deadline=None))


def numbered(folder: Path) -> Any:
    return (folder / str(number) for number in itertools.count())


@pytest.mark.parametrize("key", COLUMNS)
def test_growth_keeps_every_position(key: str, tmp_path: Path) -> None:
    """One key at a time across three doublings of the index: at the boundary and on both sides of it."""
    opened = open_shard(tmp_path, table=HashTable(key=key))
    table, as_column = opened["table"], COLUMNS[key][1]
    keys_ = list(range(3100)) if key == "int64" else [f"k{i}" for i in range(3100)]
    with opened.batch():
        for boundary in (768, 1536, 3072):
            table.add(as_column(keys_[: boundary - 2])[0], 0)
            for edge in range(boundary - 2, boundary + 3):
                table.add(as_column(keys_[edge : edge + 1])[0], edge)
                assert table.get(as_column(keys_[: edge + 1])[0])[edge] == edge
                assert len(table) == edge + 1
    assert list(content_of(table)) == keys_[: len(table)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_integers_of_any_width_are_keys(kind: pa.DataType, tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable())
    column = pa.array([3, 100, 3], kind)
    with opened.batch():
        opened["table"].add(column, [1, 2, 4])
        opened["table"].add(np.asarray(column), 10)
    assert content_of(opened["table"]) == {3: 25, 100: 12}


@given(strings=st.lists(STRINGS, max_size=20), first=st.integers(0, 5), last=st.integers(0, 5))
@settings(max_examples=30)
def test_a_slice_has_the_keys_of_its_part(
    strings: list[str], first: int, last: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    part = pa.array(strings, pa.string())[first : max(first, len(strings) - last)]
    opened = open_shard(tmp_path_factory.mktemp("slice"), table=HashTable(key="string"))
    with opened.batch():
        opened["table"].add(part, 1)
    assert content_of(opened["table"]) == dict(Counter(part.to_pylist()))


def test_empty_columns_change_nothing(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable(key="string"), members=KeySet())
    with opened.batch():
        opened["table"].add(pa.array([], pa.string()), 1)
        assert opened["members"].add(np.array([], np.int64)).tolist() == []
        assert opened["table"].get(pa.array([], pa.string())).tolist() == []
    assert opened.contents() == {"table": {}, "members": set()}


def test_updates_are_the_keys_this_batch_touched(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable())
    table = opened["table"]
    with opened.batch():
        table.add(np.arange(100), 1)
        assert table.updates()[0].to_pylist() == list(range(100))
    with opened.batch():
        assert len(table.updates()[0]) == 0
        table.add(np.array([250, 40, 3, 40]), 1)
        touched, numbers = table.updates()
        assert dict(zip(touched.to_pylist(), numbers.tolist(), strict=True)) == {3: 2, 40: 3, 250: 1}
        assert touched.to_pylist() == [3, 40, 250], "not oldest first"


@pytest.mark.parametrize(
    ("key", "column", "said"),
    [
        ("int64", pa.array(["a"]), "must be an integer here; a column of string came"),
        ("int64", pa.array([1.5]), "a column of double came"),
        ("int64", np.array([1.5]), "an array of float64 and shape"),
        ("int64", np.array([[1, 2]]), "in one dimension"),
        ("int64", pa.array([1, None, None]), "must not be null; 2 of 3 tuples"),
        ("int64", [1, 2], "an Arrow array; a list came"),
        ("int64", 5, "an Arrow array; a int came"),
        ("string", pa.array([1]), "must be a string here; a column of int64 came"),
        ("string", np.array([1]), "a numpy array of int64 came"),
        ("string", pa.array(["a", None]), "must not be null; 1 of 2 tuples"),
        ("string", "word", "an Arrow array; a str came"),
        ("string", pa.array([b"a"]), "a column of binary came"),
    ],
)
@pytest.mark.parametrize("act", ["add", "set", "get", "contains"])
def test_other_keys_are_refused_and_change_nothing(key: str, column: Any, said: str, act: str, tmp_path: Path) -> None:
    opened = open_shard(tmp_path, table=HashTable(key=key))
    with opened.batch(), pytest.raises(InputError, match=said):
        getattr(opened["table"], act)(column, *([1] if act in ("add", "set") else []))
    assert opened.contents() == {"table": {}}
