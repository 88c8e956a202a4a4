"""Tables under ``Coordinated``: through losses, kills and rewinds they hold what a quiet run would have given them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_losses import COUNT, counted, looped, undisturbed
from tests.local.test_rewinding import Life
from tests.tables import delta
from tests.tables.postgres import Server

import spillway as sw
from spillway.backup.keeper import Step
from spillway.graph.graph import Graph

OF = "of batch"
TABLE_STEPS = (Step.WRITING, Step.STAGED, Step.GIVEN)


def to_tables(graph: Graph, path: Path, server: Server, schema: str, *, key: str | None) -> Graph:
    """The same graph, its output in tables: a Delta table, and one of PostgreSQL if there is a key."""
    other = sw.Graph(graph.name, shards=graph.shards, protect=graph.protect)
    other._nodes = {name: node for name, node in graph.nodes.items() if name != "out"}
    other._edges = [edge for edge in graph.edges if edge.node != "out"]
    (out,) = [edge for edge in graph.edges if edge.node == "out"]
    lossless = sw.Contract(lossless=True)
    other.sink("delta", out.stream, sw.Delta(str(path), batch=OF), contract=lossless)
    if key is not None:
        other.sink("postgres", out.stream, sw.Postgres(server.url(), f"{schema}.out", key=key), contract=lossless)
    return other


def batch_of(label: str) -> int:
    found = re.fullmatch(r"[0-9a-f]{32}/delta/(\d{12})", label)
    assert found, label
    return int(found[1])


def rows_in_order(table: pa.Table) -> list[dict[str, Any]]:
    """As values alone: a table of Delta's allows nulls everywhere."""
    names = sorted({*table.column_names} - {OF})
    return sorted(table.select(names).to_pylist(), key=repr)


def newest_of_each(rows: list[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in rows}


def postgres_rows(server: Server, schema: str, key: str) -> dict[Any, dict[str, Any]]:
    return newest_of_each(server.rows(f"SELECT * FROM {schema}.out"), key)


@pytest.mark.parametrize(
    ("drawn", "window", "key", "seed"),
    [(counted, None, "key", 0), (counted, sw.Hopping(count=COUNT), "key", 1), (looped, None, None, 2)],
    ids=["counted", "hopping", "looped"],
)
def test_whatever_happens_tables_have_what_an_undisturbed_run_gives(
    postgres: Server, schema: str, tmp_path: Path, drawn: Callable[..., Graph], window: Any, key: str | None, seed: int
) -> None:
    protect = sw.Coordinated(batches=2 + seed % 3)
    quiet = pa.table(undisturbed(drawn, sw.Exact(), window))

    class Living(Life):
        """Cut short at its tables too, and looked at after every batch: nothing is ahead of it, nothing missing."""

        def _point(self) -> tuple[Step, str, int]:
            if self._random.random() < 0.5:
                return super()._point()
            sinks = ["delta"] if key is None else ["delta", "postgres"]
            return self._random.choice(TABLE_STEPS), self._random.choice(sinks), -1

        def _be_disturbed(self) -> None:
            found = delta.read(tmp_path / "out").rows
            newest = max(map(batch_of, found[OF].to_pylist())) if found.num_rows else -1
            assert newest <= self.run.batch
            if newest < self.run.batch:  # otherwise it was cut short in mid-batch
                done = quiet.slice(0, found.num_rows)
                assert rows_in_order(found) == rows_in_order(done), f"seed {seed}"
                if key is not None:
                    assert postgres_rows(postgres, schema, key) == newest_of_each(done.to_pylist(), key), f"seed {seed}"
            super()._be_disturbed()

    def graph() -> Graph:
        plain = drawn(protect, window) if window else drawn(protect)
        return to_tables(plain, tmp_path / "out", postgres, schema, key=key)

    life = Living(graph, tmp_path, seed)
    life.live()
    assert life.rewinds and life.losses
    assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)
    if key is not None:
        assert postgres_rows(postgres, schema, key) == newest_of_each(quiet.to_pylist(), key)
