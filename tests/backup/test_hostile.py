"""Reading backups never runs code, whoever wrote them."""

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.backup.bench import Bench, listing
from tests.backup.stored import Stored, content_of, moment, new_store

import spillway.backup
from spillway.files.folders import LocalFolder
from spillway.graph.protections import Exact


class Watch:
    """Sees what is unpickled in this process. An audit hook cannot be removed, so there is one for all tests."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.on = False
        sys.addaudithook(self._note)

    @contextmanager
    def __call__(self) -> Iterator[list[str]]:
        self.seen.clear()
        self.on = True
        try:
            yield self.seen
        finally:
            self.on = False

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event == "pickle.find_class":
            self.seen.append(str(arguments))


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


class Bomb:
    """Runs ``print`` when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("ran",)


BOMB = pickle.dumps(Bomb())
HOSTILE = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": BOMB}


def test_the_watch_sees_unpickling(watch: Watch) -> None:
    with watch() as seen:
        pickle.loads(BOMB)
    assert seen


def test_no_module_of_backups_imports_a_pickler() -> None:
    for path in Path(spillway.backup.__file__).parent.glob("*.py"):
        assert "pickle" not in path.read_text(encoding="utf-8")


def test_ordinary_backups_are_read_without_unpickling(tmp_path: Path, watch: Watch) -> None:
    for custom in (False, True):
        bench = Bench(tmp_path / str(custom), Exact(), custom=custom)
        bench.apply(0, {0: 1})
        bench.lose_memory()
        bench.apply(1, {})  # numba unpickles its own cache when a kernel is first called
        bench.lose_memory()
        with watch() as seen:
            bench.apply(2, {})
        assert bench.values == {0: 1} and not seen


def test_a_table_with_a_bomb_in_its_schema_is_only_data(tmp_path: Path, watch: Watch) -> None:
    stored = Stored(LocalFolder(tmp_path))
    schema = pa.schema([pa.field("value", pa.int64(), metadata=HOSTILE)], metadata={"pickle": BOMB})
    table = pa.Table.from_arrays([pa.array([1, 2])], schema=schema)
    stored.store.save_table(table, stored.store.coming(batch=0, after=-1, failures=0), moment(0))
    with watch() as seen:
        restored = new_store(stored.files).load(batch_max=0)
    assert not seen
    assert restored.table is not None and restored.table["value"].to_pylist() == [1, 2]


@pytest.mark.parametrize("content", [BOMB, pickle.dumps({"format": 1}), b"\x80\x05."])
def test_files_that_are_pickles_are_damaged_files(tmp_path: Path, watch: Watch, content: bytes) -> None:
    stored = Stored(LocalFolder(tmp_path))
    for batch in range(2):
        stored.save(batch, {(0, batch): 1})
    segments = sorted(tmp_path.glob("segment-*"))
    segments[-1].write_bytes(content)
    before = listing(tmp_path)
    with watch() as seen:
        restored = new_store(stored.files).load(batch_max=5)
        assert content_of(restored) == {(0, 0): 1} and not restored.complete
        sorted(tmp_path.glob("manifest-*"))[-1].write_bytes(content)
        assert not new_store(stored.files).load(batch_max=5).complete
    assert not seen
    assert len(listing(tmp_path)) == len(before)
