"""Tables as sinks on Spark: what the local runtime shows, where Spark commits, goes back and runs jobs."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_losses import counted, undisturbed
from tests.spark.test_rewinding import ALL, EVERY_THREE, Lose
from tests.tables import delta
from tests.tables.postgres import Server
from tests.tables.test_sent_back import in_jobs, newest_of_each, postgres_rows, rows_in_order, to_tables

import spillway as sw
from spillway.cli.main import main
from spillway.errors import RunError
from spillway.graph.graph import Graph

pytestmark = pytest.mark.spark


def start(graph: Graph, spark: Any, folder: Path, after: dict[int, str]) -> sw.Run:
    named = {name: folder / name for name in ("backups", "checkpoint", "state")}
    lose = Lose(state=named["state"], after=after, marks=folder)
    return sw.run(graph, spark, **named, directory=folder / "run", observe=lose)


def test_a_graph_that_goes_back_by_itself_and_by_hand_leaves_its_tables_as_an_undisturbed_one(
    spark: Any, postgres: Server, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = to_tables(counted(EVERY_THREE), tmp_path / "out", postgres, schema, key="key")
    quiet = pa.table(undisturbed(counted, sw.Exact()))

    def check() -> None:
        assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)
        assert postgres_rows(postgres, schema, "key") == newest_of_each(quiet.to_pylist(), "key")

    with start(graph, spark, tmp_path, {4: ALL, 6: "*/*/0000"}) as run:
        run.wait()
        assert [(one.committed, one.to) for one in run.rewinds()] == [(4, 2), (6, 5)]
    check()
    assert postgres.password not in "".join(
        path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()
    ), "neither records nor notes have it"

    assert main(["rewind", str(tmp_path / "run"), "--to", "8", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"from": 11, "to": 8, "sinks_left_alone": [], "tables_taken_back_later": ["delta", "postgres"]}
    # What comes after is done once more, by another operator for one: what it gave before must not stay.
    postgres.run(
        f"UPDATE {schema}.out SET count = -1 "
        f"WHERE key IN (SELECT key->>'key' FROM {schema}.spillway_undo WHERE batch > 8)"
    )
    with start(graph, spark, tmp_path, {}) as run:
        run.wait()
        assert {row.batch for row in run.records()} == {9, 10, 11}
    check()


def test_jobs_have_tables_of_their_own_and_go_back_alone(
    spark: Any, postgres: Server, schema: str, tmp_path: Path
) -> None:
    graph = in_jobs(EVERY_THREE, tmp_path / "out", postgres, schema)
    quiet = pa.table(undisturbed(counted, sw.Exact()))
    named = {name: tmp_path / name for name in ("backups", "checkpoint", "state")}
    lose = Lose(state=named["state"] / "counting", after={4: ALL}, marks=tmp_path)  # 5 is a checkpoint, and would do
    with sw.run_jobs(graph, spark, **named, observe=lose) as run:
        run.wait()
        assert run.rewinds()["counting"]
    assert rows_in_order(delta.read(tmp_path / "out").rows) == rows_in_order(quiet)
    assert postgres_rows(postgres, schema, "key") == newest_of_each(quiet.to_pylist(), "key")


def test_what_does_not_fit_is_refused_before_anything_runs(
    spark: Any, postgres: Server, schema: str, tmp_path: Path
) -> None:
    postgres.run(f"CREATE TABLE {schema}.out (key text PRIMARY KEY)")
    graph = to_tables(counted(EVERY_THREE), tmp_path / "out", postgres, schema, key="key")
    with pytest.raises(RunError, match=r"'postgres' .* column \"\w+\" of relation \"out\" does not exist"):
        start(graph, spark, tmp_path, {})
    assert not (tmp_path / "run").exists()
    (tmp_path / "file").touch()
    other = sw.Graph("counted", protect=EVERY_THREE)
    other.sink(
        "out",
        other.source("in", next(iter(counted(EVERY_THREE).checked().sources.values())).data),
        sw.Delta(str(tmp_path)),
    )
    with pytest.raises(RunError, match="that is no Delta table"):
        sw.run(other, spark, backups=tmp_path / "b")
