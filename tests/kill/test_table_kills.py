"""Drivers whose sinks are tables, killed at every point of a batch: rows are there exactly once, by other readers."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.conftest import in_order
from tests.kill import driver
from tests.kill.table_process import (
    APPENDED,
    BATCHES,
    DELTA,
    KEYED,
    LARGE,
    make,
    make_large,
)
from tests.kill.test_kills import finish, start
from tests.tables import delta
from tests.tables.postgres import Server

import spillway as sw
from spillway.backup.keeper import Step
from spillway.engine.author import Author

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[2]


class Lives:
    """A run of many lives."""

    def __init__(self, folder: Path, server: Server, url: str, schema: str) -> None:
        self._folder, self._server, self._schema = folder, server, schema
        command = [sys.executable, "-m", "tests.kill.table_process", str(folder), url]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def one(self, step: str, sink: str, batch: int) -> int:
        """How a life ended."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{step} {sink} {batch}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline() or "1")

    def newest(self, sink: str) -> int:
        """The newest batch that the table of a sink has."""
        writer = f"{Author.beside(str(self._folder / 'checkpoint')).name}/{sink}"
        if sink == DELTA:
            return delta.read(self._folder / DELTA).newest.get(writer, -1)
        found = self._server.rows(f"SELECT batch FROM {self._schema}.spillway_batches WHERE writer = '{writer}'")
        return int(found[0]["batch"])


@pytest.fixture
def url(postgres: Server, schema: str) -> str:
    """Of a schema."""
    return f"{postgres.url()}?options=-csearch_path%3D{schema}"


@pytest.fixture
def lives(postgres: Server, schema: str, url: str, tmp_path: Path) -> Iterator[Lives]:
    found = Lives(tmp_path, postgres, url, schema)
    yield found
    found.process.stdin.close()  # type: ignore[union-attr]
    assert found.process.wait(timeout=60) == 0


def test_killed_before_within_and_after_every_write_rows_are_there_once(
    lives: Lives, postgres: Server, schema: str, tmp_path: Path
) -> None:
    strays = 0
    for (
        batch
    ) in LARGE:  # whether the kill comes before the commit is up to the machine: nearly always, and once will do
        before = delta.read(tmp_path / DELTA).strays if batch > LARGE[0] else 0
        assert lives.one("files", DELTA, batch) == -signal.SIGKILL
        assert lives.newest(DELTA) in (batch - 1, batch)
        strays += delta.read(tmp_path / DELTA).strays > before
    assert strays, "never killed while files were written"
    points = [
        (Step.WRITING, DELTA, False),
        (Step.GIVEN, DELTA, True),
        (Step.WRITING, APPENDED, False),
        (Step.STAGED, APPENDED, False),
        (Step.GIVEN, APPENDED, True),
        (Step.STAGED, KEYED, False),
        (Step.GIVEN, KEYED, True),
        ("noted", KEYED, True),
    ]
    for number, (step, sink, has_it) in enumerate(points):
        batch = LARGE[-1] + 1 + number // 2
        assert lives.one(step, sink, batch) == -signal.SIGKILL, f"never came to {step} of {sink}"
        assert lives.newest(sink) == (batch if has_it else batch - 1), (step, sink)
    assert lives.one("end", "none", BATCHES) == 0

    table = delta.read(tmp_path / DELTA).rows.sort_by("seq").combine_chunks()
    assert (
        table
        == pa.Table.from_batches([make_large(piece) for piece in range(BATCHES)]).cast(table.schema).combine_chunks()
    )
    wanted = pa.Table.from_batches([make(piece) for piece in range(BATCHES)]).to_pylist()
    assert postgres.rows(f"SELECT seq, word FROM {schema}.{APPENDED} ORDER BY seq") == wanted
    keyed = {row["word"]: row["seq"] for row in postgres.rows(f"SELECT seq, word FROM {schema}.{KEYED}")}
    assert keyed == {row["word"]: row["seq"] for row in wanted}


@pytest.mark.spark
def test_on_spark_a_driver_killed_before_and_after_the_end_of_a_transaction_writes_once(
    postgres: Server, schema: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(driver.URL, url)
    finish(start(tmp_path, driver.TABLES, Step.STAGED, 2, "driver"), killed=True)
    finish(start(tmp_path, driver.TABLES, Step.GIVEN, 5, "driver"), killed=True)
    finish(start(tmp_path, driver.TABLES), killed=False)
    graph = driver.build(tmp_path, "exact")
    with sw.LocalRun(graph, backups=str(tmp_path / "ideal")) as run:
        run.run()
    columns = ["seq", "word", "count"]
    ideal = pyarrow.dataset.dataset(tmp_path / "out" / "exact", partitioning=None).to_table(columns)
    wanted = in_order(ideal).to_pylist()
    assert wanted
    assert in_order(delta.read(tmp_path / "out" / "delta").rows.select(columns)).to_pylist() == wanted
    assert postgres.rows(f"SELECT seq, word, count FROM {schema}.tables ORDER BY seq, word, count") == wanted
