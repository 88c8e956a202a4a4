"""Delta tables as sinks: every tuple once, whatever is run again, resumed or sent back; and what is refused."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from tests.files.full_disk import files_no_larger_than
from tests.local.test_local_sinks import ROWS, SCHEMA, all_rows, make
from tests.tables import delta

import spillway as sw
from spillway.engine import delta_table
from spillway.engine.author import Author
from spillway.errors import GraphError, InputError, RunError, SetupError
from spillway.graph.sinks import Sink
from spillway.seeds import generator


def build(sink: Sink, *, pieces: int = 3, schema: pa.Schema = SCHEMA, make: Callable[[int], Any] = make) -> sw.Graph:
    graph = sw.Graph("sinks")
    graph.sink("out", graph.source("in", sw.Generator(make=make, schema=schema, pieces=pieces)), sink)
    return graph


def run_all(graph: sw.Graph, folder: Path, **options: Any) -> None:
    with sw.LocalRun(graph, checkpoint=str(folder / "checkpoint"), **options) as run:
        run.run()


def rows_of(path: Path) -> pa.Table:
    return delta.read(path).rows.sort_by("seq").select(["seq", "word"]).cast(SCHEMA)


def test_every_tuple_is_there_once_also_if_batches_are_run_again_or_a_run_resumes(tmp_path: Path) -> None:
    path, folder = tmp_path / "out", str(tmp_path / "checkpoint")
    with sw.LocalRun(build(sw.Delta(str(path))), checkpoint=folder) as run:
        run.step()
        run.step()
        run.batch = 1
        run.run()
    assert rows_of(path) == all_rows(3)
    # A driver that died before the last batch was noted.
    run_all(build(sw.Delta(str(path)), pieces=4), tmp_path, batch=2)
    found = delta.read(path)
    assert rows_of(path) == all_rows(4)
    assert found.newest == {f"{Author.beside(folder).name}/out": 3}
    assert len(found.commits) == 5, "a commit that makes the table, and one for each batch"


def test_another_run_appends_and_takes_nothing_for_its_own(tmp_path: Path) -> None:
    for name in ("first", "second"):
        run_all(build(sw.Delta(str(tmp_path / "out"), batch="of")), tmp_path / name)
    found = delta.read(tmp_path / "out")
    assert found.rows.num_rows == 2 * 3 * ROWS and sorted(found.newest.values()) == [2, 2]
    labels = found.rows["of"].unique().to_pylist()
    assert {label.rpartition("/")[0] for label in labels} == found.newest.keys()
    assert sorted({label.rpartition("/")[2] for label in labels}) == [f"{batch:012d}" for batch in range(3)]


def test_a_table_that_is_there_keeps_its_columns_and_what_others_wrote(tmp_path: Path) -> None:
    columns = [("note", pa.string()), ("word", pa.string()), ("seq", pa.int64())]
    write_deltalake(
        tmp_path / "out", pa.table({"note": ["mine"], "word": ["w"], "seq": [99]}, schema=pa.schema(columns))
    )
    run_all(build(sw.Delta(str(tmp_path / "out"))), tmp_path)
    rows = delta.read(tmp_path / "out").rows.sort_by("seq").to_pylist()
    assert rows[-1] == {"note": "mine", "word": "w", "seq": 99}
    assert [(row["note"], row["seq"]) for row in rows[:-1]] == [(None, seq) for seq in range(3 * ROWS)]


def test_a_batch_without_rows_makes_no_commit(tmp_path: Path) -> None:
    def some(piece: int) -> pa.RecordBatch:
        return make(piece) if piece != 1 else make(piece).slice(0, 0)

    run_all(build(sw.Delta(str(tmp_path / "out")), make=some), tmp_path)
    assert [commit[-1].get("txn", commit[-1]) for commit in delta.read(tmp_path / "out").commits[1:]]
    assert len(delta.read(tmp_path / "out").commits) == 3


@pytest.mark.parametrize("times", [2, 100])
def test_a_commit_that_others_get_in_the_way_of_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path, whole, left = tmp_path / "out", delta_table.DeltaTable._whole, [times]
    other = pa.table({"seq": [-1], "word": ["other"]})

    def disturbed(*given: Any) -> pa.Table:
        """Another deletes, and writes, between our look at the table and our commit."""
        if left[0]:
            left[0] -= 1
            DeltaTable(path).delete("seq = -1")
            write_deltalake(path, other, mode="append")
        return whole(*given)

    write_deltalake(path, other)
    monkeypatch.setattr(delta_table.DeltaTable, "_whole", disturbed)
    with sw.LocalRun(build(sw.Delta(str(path))), checkpoint=str(tmp_path / "c")) as run:
        if times > delta_table._TRIES_MAX:
            with pytest.raises(RunError, match="concurrent transaction deleted data"):
                run.run()
            left[0] = 0
        run.run()
    assert rows_of(path).slice(1) == all_rows(3)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "out"
    random = generator(1, "noise")

    def large(piece: int) -> pa.RecordBatch:
        rows = 100_000
        seqs = range(piece * rows, (piece + 1) * rows)
        return pa.record_batch([list(seqs), list(map(str, random.random(rows)))], schema=SCHEMA)

    with sw.LocalRun(build(sw.Delta(str(path)), make=large), checkpoint=str(tmp_path / "c")) as run:
        with files_no_larger_than(100_000), pytest.raises(RunError, match=r"'out' .* cannot be written: .*too large"):
            run.step()
        assert delta.read(path).rows.num_rows == 0
        run.run()
    assert delta.read(path).rows.num_rows == 300_000


def test_a_driver_taken_for_dead_that_writes_late_changes_nothing(tmp_path: Path) -> None:
    """Its table is of before the batch, and the batch is there since: delta-rs refuses the second transaction."""
    path, checkpoint = tmp_path / "out", str(tmp_path / "c")
    graph = build(sw.Delta(str(path)))
    with sw.LocalRun(graph, checkpoint=checkpoint) as slow, sw.LocalRun(graph, checkpoint=checkpoint) as next_one:
        slow.step()
        next_one.batch = 1
        next_one.run()
        slow.run()
    assert rows_of(path) == all_rows(3)
    stale = DeltaTable(path, version=1)
    again = CommitProperties(app_transactions=[Transaction(next(iter(delta.read(path).newest)), 2)])
    with pytest.raises(Exception, match="Concurrent transaction"):
        write_deltalake(stale, pa.Table.from_batches([make(2)]), mode="append", commit_properties=again)


# -- what is refused -------------------------------------------------------------------------------------------------


def refused(graph: sw.Graph, folder: Path, kind: type[Exception], said: str, **options: Any) -> None:
    with pytest.raises(kind, match=said) as raised:
        run_all(graph, folder, **options)
    assert "\n" not in str(raised.value), "one sentence"


def test_a_table_of_another_schema(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    DeltaTable.create(path, Schema.from_arrow(pa.schema([("seq", pa.int64()), ("text", pa.string())])))
    refused(build(sw.Delta(path)), tmp_path, GraphError, r"'out' .* the table has no column 'word', only seq, text")
    assert len(delta.read(Path(path)).commits) == 1


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (pa.int32(), False),
        (pa.float64(), False),
        (pa.string(), False),
        (pa.decimal128(20, 0), False),
        (pa.int64(), True),
    ],
    ids=str,
)
def test_a_type_that_the_table_cannot_hold(tmp_path: Path, kind: pa.DataType, fits: bool) -> None:
    path = str(tmp_path / "out")
    DeltaTable.create(path, Schema.from_arrow(pa.schema([("seq", kind), ("word", pa.string())])))
    if fits:
        run_all(build(sw.Delta(path)), tmp_path)
    else:
        refused(
            build(sw.Delta(path)), tmp_path, GraphError, r"column 'seq' is int64 and that of the table .* cannot hold"
        )


def test_a_value_that_the_table_cannot_hold_stops_the_run_and_is_not_cut_off(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("n", pa.uint64()), ("at", pa.timestamp("ns"))])
    for name, n, at in (("n", 2**63, 1_000), ("at", 1, 1_001)):

        def odd(piece: int, n: int = n, at: int = at) -> pa.RecordBatch:
            return pa.record_batch([[piece], [n if piece else 1], [at if piece else 0]], schema=schema)

        graph = build(sw.Delta(str(tmp_path / name)), schema=schema, make=odd)
        refused(graph, tmp_path / f"of {name}", InputError, rf"column '{name}' has a value that .* cannot hold")
        assert delta.read(tmp_path / name).rows.num_rows == 1, "the batch before it stays"


def test_a_column_that_the_table_wants(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    wanted = pa.schema([*SCHEMA, pa.field("wanted", pa.string(), nullable=False)])
    DeltaTable.create(path, Schema.from_arrow(wanted))
    refused(build(sw.Delta(path)), tmp_path, GraphError, "wants a column 'wanted' in every row")


def test_a_null_where_the_table_allows_none(tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    strict = pa.schema([SCHEMA.field("seq"), pa.field("word", pa.string(), nullable=False)])
    DeltaTable.create(path, Schema.from_arrow(strict))

    def with_null(piece: int) -> pa.RecordBatch:
        return pa.record_batch([[piece], [None]], schema=SCHEMA)

    refused(build(sw.Delta(path), make=with_null), tmp_path, InputError, "column 'word' has a null")


def test_a_type_that_no_delta_table_has(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("took", pa.duration("us"))])
    graph = build(sw.Delta(str(tmp_path / "out")), schema=schema)
    refused(graph, tmp_path, RunError, "cannot be opened: .*Duration")


def test_a_path_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    for path in ("folder", "folder/file"):
        refused(
            build(sw.Delta(str(tmp_path / path))), tmp_path, RunError, f"something at .*/{path} that is no Delta table"
        )
    refused(build(sw.Delta("nosuch://there/out")), tmp_path, RunError, "cannot be opened: Unknown scheme: nosuch")


@pytest.mark.skipif(os.getuid() == 0, reason="root may do anything")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refused(build(sw.Delta(str(tmp_path / "locked" / "out"))), tmp_path, RunError, "[Pp]ermission denied")


def test_a_log_that_cannot_be_written_while_the_run_goes_on_stops_it_and_loses_nothing(tmp_path: Path) -> None:
    path, graph = tmp_path / "out", build(sw.Delta(str(tmp_path / "out")))
    with sw.LocalRun(graph, checkpoint=str(tmp_path / "c")) as run:
        run.step()
        (path / "_delta_log").rename(tmp_path / "log")
        (path / "_delta_log").touch()
        with pytest.raises(RunError, match=r"'out' .* cannot be written: .* nothing is lost") as raised:
            run.step()
        assert "\n" not in str(raised.value)
        (path / "_delta_log").unlink()
        (tmp_path / "log").rename(path / "_delta_log")
        run.run()
    assert rows_of(path) == all_rows(3)


def test_a_run_that_begins_behind_what_its_table_has(tmp_path: Path) -> None:
    graph = build(sw.Delta(str(tmp_path / "out")))
    run_all(graph, tmp_path)
    refused(graph, tmp_path, RunError, "has batch 2 of this run, which begins with batch 0")


def test_a_run_that_goes_on_and_has_no_name(tmp_path: Path) -> None:
    graph = build(sw.Delta(str(tmp_path / "out")))
    with sw.LocalRun(graph, state=tmp_path / "state") as run:
        run.step()
        run.step()
    with pytest.raises(RunError, match="to go on with batch 1 it must be known as whom"):
        sw.LocalRun(graph, state=tmp_path / "state", batch=1)


def test_a_damaged_name(tmp_path: Path) -> None:
    graph = build(sw.Delta(str(tmp_path / "out")))
    run_all(graph, tmp_path)
    (note,) = tmp_path.rglob("author.json")
    note.write_text("{")
    refused(graph, tmp_path, RunError, "author.json .* is damaged", batch=2)


def test_a_job_that_may_be_sent_back_wants_a_column_that_says_the_batch(tmp_path: Path) -> None:
    def counted(sink: Sink) -> sw.Graph:
        graph = sw.Graph("sinks", protect=sw.Coordinated(batches=2))
        count = sw.operators.Count("count", key="word")
        source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=3))
        graph.sink("out", graph.add(count, source), sink)
        return graph

    path = str(tmp_path / "out")
    named = {"backups": str(tmp_path / "backups")}
    refused(
        counted(sw.Delta(path)), tmp_path, GraphError, r"could not take anything back.*Say Delta\(path, batch=", **named
    )
    assert not Path(path).exists()
    sink = sw.Delta(path, batch="of")
    refused(counted(sw.Delta(path, batch="word")), tmp_path, GraphError, "a column that its rows have already", **named)
    columns = Schema.from_arrow(
        pa.schema([("seq", pa.int64()), ("word", pa.string()), ("count", pa.int64()), ("of", pa.string())])
    )
    DeltaTable.create(path, columns, configuration={"delta.appendOnly": "true"})
    refused(counted(sink), tmp_path, GraphError, "append-only", **named)
    shutil.rmtree(path)
    run_all(counted(sink), tmp_path, **named)


@pytest.mark.parametrize("given", ["", 7, None, "s3://key:secret@bucket/table"])
def test_bad_declarations(given: Any) -> None:
    with pytest.raises(GraphError, match="Delta: ") as raised:
        sw.Delta(given)
    assert "secret" not in str(raised.value)
    with pytest.raises(GraphError, match="Delta: batch"):
        sw.Delta("out", batch="")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    refused(build(sw.Delta(str(tmp_path / "out"))), tmp_path, SetupError, r"pip install 'spillway\[delta\]'")
    assert not (tmp_path / "out").exists()
