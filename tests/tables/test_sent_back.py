"""Tables under ``Coordinated``: through losses, kills and rewinds they hold what a quiet run would have given them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_losses import COUNT, counted, feed, looped, undisturbed
from tests.local.test_rewinding import Life
from tests.tables import delta
from tests.tables.postgres import Server

import spillway as sw
from spillway.backup.keeper import Step
from spillway.engine.rewinding import Note, write_note
from spillway.files.folders import open_folder
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


def in_jobs(protect: sw.Protection, path: Path, server: Server, schema: str) -> Graph:
    """The same counts, written by two jobs, of which the second keeps no state."""
    graph = sw.Graph("counted", shards=2, protect=protect)
    count, known = sw.operators.Count("count", key="key"), sw.operators.Where("known", sw.field("count") > 0)
    counts = graph.add(count, graph.source("in", feed()))
    graph.sink("delta", counts, sw.Delta(str(path), batch=OF))
    graph.sink("postgres", graph.add(known, counts), sw.Postgres(server.url(), f"{schema}.out", key="key"))
    graph.job("counting", [count])
    graph.job("writing", [known])
    return graph


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


def test_jobs_go_back_and_start_again_each_with_its_table(postgres: Server, schema: str, tmp_path: Path) -> None:
    protect, quiet = sw.Coordinated(batches=3), pa.table(undisturbed(counted, sw.Exact()))
    graph = in_jobs(protect, tmp_path / "out", postgres, schema)
    with sw.LocalJobs(graph, state=tmp_path / "state", backups=str(tmp_path / "b")) as run:
        went_back = set()
        for step in range(1_000):
            if not run.step():
                break
            went_back |= {job for job in run.jobs if run.job(job).rewinds()}
            if step in (3, 9):
                run.wipe("writing" if step == 9 else "counting")
            if step in (5, 11):
                run.restart("counting" if step == 11 else "writing")
        assert went_back, "nothing is shown"
        batches = {job: run.job(job).batch for job in run.jobs}
    assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)
    assert postgres_rows(postgres, schema, "key") == newest_of_each(quiet.to_pylist(), "key")
    with sw.LocalJobs(graph, state=tmp_path / "state", backups=str(tmp_path / "b"), batches=batches) as again:
        again.run()
    assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)


def test_what_was_sent_back_by_hand_is_taken_back_when_the_run_is_resumed(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    """By hand nobody tells the tables: they find out when the run begins behind what they have, or just at it."""
    graph = to_tables(counted(sw.Coordinated(batches=3)), tmp_path / "out", postgres, schema, key="key")
    places = {"backups": str(tmp_path / "b"), "checkpoint": str(tmp_path / "c"), "state": tmp_path / "state"}
    with sw.LocalRun(graph, **places) as run:
        while run.batch < 7:
            run.step()
    write_note(open_folder(str(tmp_path / "b"), "counted"), Note(rewinds=1, to=5, finished=True))
    with sw.LocalRun(graph, **places, batch=6) as run:
        found = delta.read(tmp_path / "out").rows
        assert max(map(batch_of, found[OF].to_pylist())) == 5
        quiet = pa.table(undisturbed(counted, sw.Exact()))
        done = quiet.slice(0, found.num_rows)
        assert postgres_rows(postgres, schema, "key") == newest_of_each(done.to_pylist(), "key")
        run.run()
    assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)


def test_a_table_goes_on_with_more_shards(postgres: Server, schema: str, tmp_path: Path) -> None:
    def graph(shards: int) -> Graph:
        drawn = sw.Graph("counted", shards=shards, protect=sw.Exact())
        counts = drawn.add(sw.operators.Count("count", key="key"), drawn.source("in", feed()))
        drawn.sink("delta", counts, sw.Delta(str(tmp_path / "out")))
        drawn.sink("postgres", counts, sw.Postgres(postgres.url(), f"{schema}.out", key="key"))
        return drawn

    with sw.LocalRun(graph(2), state=tmp_path / "state", backups=str(tmp_path / "b")) as run:
        while run.batch < 5:
            run.step()
    with sw.LocalRun(graph(3), state=tmp_path / "state", backups=str(tmp_path / "b"), batch=5, rescale=True) as run:
        run.run()
    # What number a count is given is a matter of its shard.
    quiet = pa.table(undisturbed(counted, sw.Exact())).select(["key", "count"])
    assert rows_in_order(delta.read(tmp_path / "out").rows.select(["key", "count"])) == rows_in_order(quiet)
    found = {key: row["count"] for key, row in postgres_rows(postgres, schema, "key").items()}
    assert found == {key: row["count"] for key, row in newest_of_each(quiet.to_pylist(), "key").items()}
