"""PostgreSQL tables as sinks, by a real server: every tuple once, taken back when sent back; and what is refused."""

import datetime as dt
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.local.test_local_sinks import ROWS, SCHEMA, all_rows, make
from tests.tables.postgres import Server
from tests.waiting import waited_for

import spillway as sw
from spillway.backup.keeper import Step
from spillway.engine import postgres_table
from spillway.engine.author import Author
from spillway.errors import GraphError, InputError, RunError, SetupError
from spillway.graph.sinks import Sink


def build(sink: Sink, *, pieces: int = 3, schema: pa.Schema = SCHEMA, make: Callable[[int], Any] = make) -> sw.Graph:
    graph = sw.Graph("sinks")
    graph.sink("out", graph.source("in", sw.Generator(make=make, schema=schema, pieces=pieces)), sink)
    return graph


def run_all(graph: sw.Graph, folder: Path, **options: Any) -> None:
    with sw.LocalRun(graph, checkpoint=str(folder / "checkpoint"), **options) as run:
        run.run()


def written(server: Server, schema: str) -> pa.Table:
    return pa.Table.from_pylist(server.rows(f"SELECT seq, word FROM {schema}.out ORDER BY seq"), SCHEMA)


@pytest.mark.parametrize("key", [(), "seq", ["word", "seq"]], ids=str)
def test_every_tuple_is_there_once_also_if_batches_are_run_again_or_a_run_resumes(
    postgres: Server, schema: str, tmp_path: Path, key: Any
) -> None:
    sink = sw.Postgres(postgres.url(), f"{schema}.out", key=key)
    folder = str(tmp_path / "checkpoint")
    with sw.LocalRun(build(sink), checkpoint=folder) as run:
        run.step()
        run.step()
        run.batch = 1
        run.run()
    assert written(postgres, schema) == all_rows(3)
    # A driver that died before the last batch was noted.
    run_all(build(sink, pieces=4), tmp_path, batch=2)
    assert written(postgres, schema) == all_rows(4)
    noted = postgres.rows(f"SELECT writer, batch, undo_since FROM {schema}.spillway_batches")
    assert noted == [{"writer": f"{Author.beside(folder).name}/out", "batch": 3, "undo_since": None}]
    assert not postgres.rows(f"SELECT * FROM {schema}.spillway_undo")
    keys = postgres.rows(
        f"SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) "
        f"WHERE indrelid = '{schema}.out'::regclass AND indisprimary ORDER BY attname"
    )
    assert [row["attname"] for row in keys] == sorted([key] if isinstance(key, str) else key)


def test_another_run_appends_and_takes_nothing_for_its_own(postgres: Server, schema: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        run_all(build(sw.Postgres(postgres.url(), f"{schema}.out")), tmp_path / name)
    assert postgres.rows(f"SELECT count(*), count(DISTINCT seq) AS tuples FROM {schema}.out") == [
        {"count": 2 * 3 * ROWS, "tuples": 3 * ROWS}
    ]


def test_rows_take_the_place_of_others_and_the_last_of_a_batch_counts(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    postgres.run(
        f"CREATE TABLE {schema}.out (\"the key\" varchar PRIMARY KEY, seq int, mine text DEFAULT 'kept')",
        f"INSERT INTO {schema}.out VALUES ('k0', -1, 'other'), ('alone', -1, 'kept')",
    )
    columns = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("the key", pa.string())])

    def keyed(piece: int) -> pa.RecordBatch:
        seqs = range(piece * ROWS, (piece + 1) * ROWS)
        return pa.record_batch([list(seqs), [f"k{seq % 4}" for seq in seqs]], schema=columns)

    run_all(build(sw.Postgres(postgres.url(), f"{schema}.out", key="the key"), make=keyed, schema=columns), tmp_path)
    found = {row.pop("the key"): row for row in postgres.rows(f"SELECT * FROM {schema}.out")}
    last = {f"k{seq % 4}": seq for seq in range(3 * ROWS)}
    assert {key: row["seq"] for key, row in found.items()} == {"alone": -1, **last}
    assert {key: row["mine"] for key, row in found.items()} == {"alone": "kept", "k0": "other"} | dict.fromkeys(
        ["k1", "k2", "k3"], "kept"
    )


def test_values_of_every_type_arrive_as_they_were(postgres: Server, schema: str, tmp_path: Path) -> None:
    zoned = dt.datetime(2024, 2, 29, 12, 30, 0, 7, dt.UTC)
    values: dict[str, tuple[pa.DataType, Any, str]] = {
        "seq": (pa.int64(), 2**62, str(2**62)),
        "tiny": (pa.uint8(), 255, "255"),
        "wide": (pa.uint64(), 2**63 - 1, str(2**63 - 1)),
        "flag": (pa.bool_(), True, "true"),
        "real": (pa.float64(), 0.1 + 0.2, "0.30000000000000004"),
        "nan": (pa.float32(), float("nan"), "NaN"),
        "text": (pa.large_string(), "naïve ' \" \\ \n", "naïve ' \" \\ \n"),
        "bytes": (pa.binary(), b"\x00\xff", "\\x00ff"),
        "day": (pa.date32(), dt.date(2024, 2, 29), "2024-02-29"),
        "zoned": (pa.timestamp("ns", "UTC"), zoned, "2024-02-29 12:30:00.000007+00"),
        "naive": (pa.timestamp("us"), zoned.replace(tzinfo=None), "2024-02-29 12:30:00.000007"),
        "money": (pa.decimal128(12, 2), Decimal("1234567890.12"), "1234567890.12"),
        "list": (pa.list_(pa.int64()), [1, None, 3], "{1,NULL,3}"),
        "said": (pa.dictionary(pa.int32(), pa.string()), "again", "again"),
        "none": (pa.string(), None, "-"),
    }
    columns = pa.schema([pa.field(name, kind, nullable=name != "seq") for name, (kind, *_) in values.items()])
    row = {name: [value] for name, (_, value, _) in values.items()}
    graph = build(
        sw.Postgres(postgres.url(), f"{schema}.out"),
        pieces=1,
        schema=columns,
        make=lambda piece: pa.RecordBatch.from_pydict(row, schema=columns),
    )
    run_all(graph, tmp_path)
    shown = ", ".join(f"coalesce({name}::text, '-') AS {name}" for name in values if name != "nan")
    (found,) = postgres.rows(f"SELECT {shown}, nan::text FROM {schema}.out")
    assert found == {name: told for name, (_, _, told) in values.items()}


# -- going back ------------------------------------------------------------------------------------------------------


def keyed_counts(sink: Sink, protect: sw.Protection, *, pieces: int = 8) -> sw.Graph:
    """How often each of some words came, and of which batch it is: put out with every change."""

    def words(piece: int) -> pa.RecordBatch:
        seqs = range(piece * ROWS, (piece + 1) * ROWS)
        return pa.record_batch([list(seqs), [f"w{seq * seq % (piece + 3)}" for seq in seqs]], schema=SCHEMA)

    graph = sw.Graph("sinks", shards=2, protect=protect)
    source = graph.source("in", sw.Generator(make=words, schema=SCHEMA, pieces=pieces))
    graph.sink("out", graph.add(sw.operators.Count("count", key="word"), source), sink)
    return graph


def test_every_batch_that_is_taken_back_leaves_the_table_as_it_was(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    def counts() -> list[dict[str, Any]]:
        return postgres.rows(f"SELECT word, count, seq FROM {schema}.out ORDER BY word")

    sink = sw.Postgres(postgres.url(), f"{schema}.out", key="word")
    graph = keyed_counts(sink, sw.Coordinated(batches=3))
    with sw.LocalRun(graph, backups=str(tmp_path / "b")) as run:
        after = {-1: counts()}
        while run.step():
            after[run.batch - 1] = counts()
        assert len({str(table) for table in after.values()}) == len(after), "otherwise nothing is shown"
        for back in (5, 3, -1):
            run._outlets.forget_after(back)
            assert counts() == after[back]
            run._outlets.forget_after(back)
            assert counts() == after[back]
        assert not postgres.rows(f"SELECT * FROM {schema}.spillway_undo")


def test_what_others_wrote_meanwhile_stays_when_a_job_is_sent_back(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    postgres.run(f"CREATE TABLE {schema}.out (word text PRIMARY KEY, seq int8, count int8, note text)")
    sink = sw.Postgres(postgres.url(), f"{schema}.out", key="word")
    with sw.LocalRun(keyed_counts(sink, sw.Coordinated(batches=3)), backups=str(tmp_path / "b")) as run:
        while run.batch < 5:
            run.step()
        postgres.run(
            f"UPDATE {schema}.out SET note = 'theirs'", f"INSERT INTO {schema}.out VALUES ('other', 0, 0, 'theirs')"
        )
        before = postgres.rows(f"SELECT word, count FROM {schema}.out ORDER BY word")
        run.wipe()
        run.step()
        assert [rewound.to for rewound in run.rewinds()] == [2]
        assert postgres.rows(f"SELECT word, count FROM {schema}.out ORDER BY word") != before
        notes = postgres.rows(f"SELECT DISTINCT note FROM {schema}.out")
        assert notes == [{"note": "theirs"}]
        run.run()
    found = {row["word"]: row["count"] for row in postgres.rows(f"SELECT word, count FROM {schema}.out")}
    assert found.pop("other") == 0 and sum(found.values()) == 8 * ROWS


def test_only_as_much_is_kept_as_a_job_may_go_back(
    postgres: Server, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spillway.engine import outlets

    monkeypatch.setattr(outlets, "batches_kept", lambda protection: 2)
    sink = sw.Postgres(postgres.url(), f"{schema}.out", key="word")
    with sw.LocalRun(keyed_counts(sink, sw.Coordinated(batches=3)), backups=str(tmp_path / "b")) as run:
        run.run()
        kept = postgres.rows(f"SELECT DISTINCT batch FROM {schema}.spillway_undo ORDER BY batch")
        assert [row["batch"] for row in kept] == [5, 6, 7]
        with pytest.raises(RunError, match=r"cannot take back what came after batch 3: .* is kept since batch 5"):
            run._outlets.forget_after(3)
        run._outlets.forget_after(4)


def test_a_job_without_a_key_is_refused_if_it_may_be_sent_back(postgres: Server, schema: str, tmp_path: Path) -> None:
    graph = keyed_counts(sw.Postgres(postgres.url(), f"{schema}.out"), sw.Coordinated(batches=3))
    with pytest.raises(GraphError, match=r"'out' .* could not take anything back, .* Say Postgres\(url, table, key="):
        sw.LocalRun(graph, backups=str(tmp_path / "b"))
    assert not (tmp_path / "b").exists()


# -- two drivers -----------------------------------------------------------------------------------------------------


def test_a_driver_taken_for_dead_that_writes_late_changes_nothing(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    """It stands just before the end of its transaction; the next one waits for it, and finds the batch there."""
    sink = sw.Postgres(postgres.url(), f"{schema}.out")
    staged, go_on = threading.Event(), threading.Event()

    def stand(step: Step, name: str, shard: int, batch: int) -> None:
        if (step, batch) == (Step.STAGED, 1):
            staged.set()
            assert go_on.wait(60)

    checkpoint = str(tmp_path / "checkpoint")
    slow = sw.LocalRun(build(sink), checkpoint=checkpoint, observe=stand)
    slow.step()
    late = threading.Thread(target=slow.step)
    late.start()
    assert staged.wait(60)
    # It opens its table only once the other has let go of its row.
    following = threading.Thread(target=run_all, args=(build(sink), tmp_path), kwargs={"batch": 1})
    following.start()
    waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    assert waited_for(lambda: int(postgres.run(waits)) > 0)
    go_on.set()
    late.join()
    following.join()
    slow.run()
    slow.close()
    assert written(postgres, schema) == all_rows(3)


def test_a_driver_that_stands_for_long_holds_nobody_up_for_ever(
    postgres: Server, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_table, "_IDLE_S", 1)
    sink = sw.Postgres(postgres.url(), f"{schema}.out")
    checkpoint = str(tmp_path / "checkpoint")

    def stand(step: Step, name: str, shard: int, batch: int) -> None:
        if (step, batch) == (Step.STAGED, 1):
            run_all(build(sink), tmp_path, batch=1)

    with sw.LocalRun(build(sink), checkpoint=checkpoint, observe=stand) as slow:
        slow.step()
        with pytest.raises(RunError, match=r"'out' .* due to idle-in-transaction timeout"):
            slow.step()
    assert written(postgres, schema) == all_rows(3)


# -- what is refused -------------------------------------------------------------------------------------------------


def refused(graph: sw.Graph, folder: Path, kind: type[Exception], said: str, *secrets: str, **options: Any) -> None:
    with pytest.raises(kind, match=said) as raised:
        run_all(graph, folder, **options)
    assert "\n" not in str(raised.value), "one sentence"
    told = repr(raised.value) + repr(raised.value.__cause__) + repr(graph.checked().exits) + graph.draw()
    assert not [secret for secret in secrets if secret in told]


def test_no_server_a_wrong_password_a_database_that_is_not_there(postgres: Server, schema: str, tmp_path: Path) -> None:
    at = r"Sink 'out' \(Postgres\(t at 127.0.0.1:\d+/\w+\)\) cannot be opened: "
    for url, said in (
        ("postgresql://me:hush%21@127.0.0.1:9/nothing", "connection to server .* Connection refused"),
        (postgres.url(password="hush%21"), 'password authentication failed for user "spillway"'),
        (postgres.url(database="nosuch"), 'database "nosuch" does not exist'),
    ):
        refused(build(sw.Postgres(url, "t")), tmp_path, RunError, at + said, "hush", postgres.password)
    graph = build(sw.Postgres(postgres.url(), f"{schema}.t"))
    assert graph.checked().exits["out"].sink.about() == {
        "kind": "Postgres", "table": f"{schema}.t at 127.0.0.1:{postgres.port}/postgres",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "key", "said"),
    [
        ("seq int8, text text", (), 'column "word" of relation "out" does not exist'),
        ("seq int8, word date", (), 'column "word" is of type date but expression is of type text'),
        ("seq int8, word text, more int NOT NULL", (), "wants a column 'more' in every row"),
        ("seq int8, word text", "seq", "no unique or exclusion constraint matching the ON CONFLICT"),
        ("seq int8, word text GENERATED ALWAYS AS ('x') STORED", (), "cannot insert a non-DEFAULT value"),
        ("seq int8, word text", "other", "key names 'other', which its rows do not have; they have seq, word"),
    ],
)
def test_a_table_of_another_schema(
    postgres: Server, schema: str, tmp_path: Path, columns: str, key: Any, said: str
) -> None:
    postgres.run(f"CREATE TABLE {schema}.out ({columns})")
    graph = build(sw.Postgres(postgres.url(), f"{schema}.out", key=key))
    refused(graph, tmp_path, (GraphError, RunError), said)  # type: ignore[arg-type]
    tables = postgres.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
    assert tables == [{"tablename": "out"}], "what is refused leaves all as it was"


def test_a_schema_that_is_not_there_and_a_user_who_may_not(postgres: Server, schema: str, tmp_path: Path) -> None:
    refused(build(sw.Postgres(postgres.url(), "nosuch.out")), tmp_path, RunError, 'schema "nosuch" does not exist')
    postgres.run(
        f"CREATE ROLE guest_{schema} LOGIN PASSWORD 'hush'",
        f"GRANT USAGE, CREATE ON SCHEMA {schema} TO guest_{schema}",
        f"CREATE TABLE {schema}.out (seq int8, word text)",
    )
    try:
        sink = sw.Postgres(postgres.url(f"guest_{schema}", "hush"), f"{schema}.out")
        refused(build(sink), tmp_path, RunError, "permission denied for table out", "hush")
    finally:
        postgres.run(f"DROP OWNED BY guest_{schema}", f"DROP ROLE guest_{schema}")


def test_a_value_that_the_table_cannot_hold_stops_the_run_and_leaves_no_part_of_its_batch(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    postgres.run(f"CREATE TABLE {schema}.out (seq int2, word varchar(3) CHECK (word <> 'w25'))")
    sink = sw.Postgres(postgres.url(), f"{schema}.out")
    refused(build(sink), tmp_path, RunError, "'out' .* cannot be given batch 2: .* violates check constraint")
    assert written(postgres, schema) == all_rows(2)
    refused(build(sink, make=lambda piece: make(piece + 4_000)), tmp_path / "2", RunError, "smallint out of range")
    refused(build(sink, make=lambda piece: make(piece + 40)), tmp_path / "3", RunError, "value too long")
    postgres.run(f"ALTER TABLE {schema}.out DROP CONSTRAINT out_word_check")
    run_all(build(sink), tmp_path, batch=2)
    assert written(postgres, schema) == all_rows(3)


def test_a_key_that_is_null(postgres: Server, schema: str, tmp_path: Path) -> None:
    def with_null(piece: int) -> pa.RecordBatch:
        return pa.record_batch([[piece], [None]], schema=SCHEMA)

    graph = build(sw.Postgres(postgres.url(), f"{schema}.out", key="word"), make=with_null)
    refused(graph, tmp_path, InputError, "key column 'word' has a null in batch 0")


def test_a_server_that_goes_while_a_run_goes_on_stops_it_and_nothing_is_lost(
    postgres: Server, schema: str, tmp_path: Path
) -> None:
    def cut(step: Step, name: str, shard: int, batch: int) -> None:
        if (step, batch) == (Step.STAGED, 1) and not (tmp_path / "cut").exists():
            (tmp_path / "cut").touch()
            postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'")

    with sw.LocalRun(
        build(sw.Postgres(postgres.url(), f"{schema}.out")), checkpoint=str(tmp_path / "c"), observe=cut
    ) as run:
        run.step()
        with pytest.raises(
            RunError, match=r"'out' .* cannot be given batch 1: .*terminating connection.* nothing is lost"
        ):
            run.step()
        assert written(postgres, schema) == all_rows(1)
        run.run()
    assert written(postgres, schema) == all_rows(3)


def test_a_run_that_begins_behind_what_its_table_has(postgres: Server, schema: str, tmp_path: Path) -> None:
    graph = build(sw.Postgres(postgres.url(), f"{schema}.out"))
    run_all(graph, tmp_path)
    refused(graph, tmp_path, RunError, "has batch 2 of this run, which begins with batch 0")


@pytest.mark.parametrize(
    "url",
    [
        7,
        "host=localhost password=hush",
        "mysql://me:hush@localhost/db",
        "postgresql://me:hush@@localhost/db",
        "postgresql://me:hu%sh@localhost/db",
        "postgresql://me:hush@localhost:port/db",
        "postgresql://me:hush:5/x@localhost/db",
    ],
)
def test_a_url_that_is_none_is_not_repeated(url: Any) -> None:
    with pytest.raises(GraphError, match="a URL such as postgresql://") as raised:
        sw.Postgres(url, "out")
    assert "hush" not in str(raised.value) and "hu%" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": ""}, "the name of a table"),
        ({"table": "a.b.c"}, "the name of a table"),
        ({"table": 7}, "the name of a table"),
        ({"table": "out", "key": [7]}, "Postgres: key is the name of a column"),
        ({"table": "out", "key": ["a", "a"]}, "key names a column twice"),
    ],
)
def test_bad_declarations(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        sw.Postgres("postgresql://localhost/db", **given)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    graph = build(sw.Postgres("postgresql://localhost/db", "out"))
    refused(graph, tmp_path, SetupError, r"pip install 'spillway\[postgres\]'")
