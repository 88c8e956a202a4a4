"""A topic read by the local runtime: every record once, in its columns; whatever is wrong with it, in a sentence."""

import json
import pickle
import re
import sys
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.kafka.broker import Servers, serving

import spillway as sw
from spillway.errors import GraphError, InputError, RunError, SetupError, SpillwayError
from spillway.graph.kafka.topic import Topic

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])
REQUIRED = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "word": f"wörd {n}"} for n in range(first, first + count)]


def kafka(servers: Servers, topic: str, **how: Any) -> Topic:
    how = {"patience_s": 10.0, **how}
    return sw.kafka(servers.address, topic, **({"schema": SCHEMA} | how))


def read(of: Topic) -> pa.Table:
    """All there is, as the graph has it."""
    feed = of.now()
    batches = [batch for piece in range(feed.pieces) for batch in feed.open(piece).batches]
    assert all(batch.schema == of.schema for batch in batches)
    return pa.Table.from_batches(batches, of.schema)


def ran(of: Topic) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a graph of that source puts out, and what it passed over."""
    graph = sw.Graph("read")
    graph.sink("out", graph.source("in", of), sw.Memory())
    with sw.LocalRun(graph) as run:
        run.run()
        return run.result("out").to_pylist(), run.passed_over


def test_every_record_is_read_once_and_numbers_ascend_from_batch_to_batch(servers: Servers, topic: str) -> None:
    servers.spread(topic, rows(100), partitions=3)
    found, passed = ran(kafka(servers, topic, records_per_batch=7))
    assert sorted(row["n"] for row in found) == list(range(100))
    assert [row["seq"] for row in found] == list(range(100))
    assert all(row["word"] == f"wörd {row['n']}" for row in found) and not passed


def test_batches_are_those_of_spark_also_where_some_partitions_have_nothing(servers: Servers, topic: str) -> None:
    for partition, count in enumerate((20, 3, 0)):
        servers.put(topic, rows(count), partition=partition)
    feed = kafka(servers, topic, records_per_batch=10).now()
    width = feed.pieces_per_batch
    sizes = [[feed.read(piece).num_rows for piece in range(at, at + width)] for at in range(0, feed.pieces, width)]
    assert sizes == [[7, 3, 0], [10, 0, 0], [3, 0, 0]]


def test_a_topic_is_the_same_in_any_process_and_says_no_password(servers: Servers, topic: str) -> None:
    declared = kafka(servers, topic, options={"sasl.password": "hush"})
    assert pickle.loads(pickle.dumps(declared)) == declared
    assert "hush" not in repr(declared)


def test_an_empty_topic_has_no_batches(servers: Servers, topic: str) -> None:
    assert ran(kafka(servers, topic)) == ([], {})


def test_what_else_is_known_of_a_record(servers: Servers, topic: str) -> None:
    servers.put(topic, [b"a", None], partition=2, key=b"k")
    found = read(kafka(servers, topic, format="raw", schema=None, about=["offset", "partition", "key", "time"]))
    assert found.schema.names == ["seq", "value", "offset", "partition", "key", "time"]
    times = found.drop_columns("time").to_pylist()
    assert times == [
        {"seq": at, "value": value, "offset": at, "partition": 2, "key": b"k"} for at, value in enumerate((b"a", None))
    ]
    assert found["time"].null_count == 0


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def test_a_record_of_arrow_holds_several_rows(servers: Servers, topic: str) -> None:
    for partition, sizes in enumerate([(3, 0, 2), (1,)]):
        tables = [pa.Table.from_pylist(rows(size, 10 * number), SCHEMA) for number, size in enumerate(sizes)]
        servers.put(topic, map(encoded, tables), partition=partition)
    found = read(kafka(servers, topic, format="arrow", rows_max=4, about=["offset"]))
    assert found["seq"].to_pylist() == [0, 1, 2, 8, 9, 12]
    assert found["n"].to_pylist() == [0, 1, 2, 20, 21, 0]
    assert found["offset"].to_pylist() == [0, 0, 0, 2, 2, 0]


def split(values: Sequence[bytes]) -> pa.RecordBatch:
    columns = [value.decode().split(",") for value in values]
    return pa.RecordBatch.from_pylist([{"n": int(n), "word": word} for n, word in columns], SCHEMA)


def test_a_decoder_of_ones_own(servers: Servers, topic: str) -> None:
    servers.put(topic, [b"1,a", b"2,b"])
    assert read(kafka(servers, topic, format=split)).drop_columns("seq").to_pylist() == [
        {"n": 1, "word": "a"}, {"n": 2, "word": "b"},
    ]  # fmt: skip
    servers.put(topic, [b"three"])
    with pytest.raises(InputError, match=r"partition 0, offset 2 of topic '.*' is broken: the decoder raised ValueErr"):
        read(kafka(servers, topic, format=split))


BROKEN: dict[str, tuple[bytes | None, str]] = {
    "half": (b'{"n": 5', "no JSON object"),
    "nothing": (b"", "no JSON object"),
    "blank": (b" \n", "no JSON object"),
    "two": (b'{"n": 5} {"n": 6}', "no JSON object"),
    "two by a trick": (b'{"n": 5}}\n{"v":{"n": 6}', "goes on behind"),
    "null": (b"null", "it is null"),
    "list": (b"[1]", "no JSON object"),
    "other type": (b'{"n": "five"}', "no JSON object"),
    "fraction": (b'{"n": 1.5}', "no JSON object"),
    "no text": (b'{"n": 5, "word": "\xff"}', "column 'word' holds what is no string"),
    "deletion": (None, "it has no value"),
}


@pytest.mark.parametrize("value", BROKEN, ids=str)
def test_a_broken_record_stops_with_its_partition_and_offset_is_skipped_or_kept(
    servers: Servers, topic: str, value: str
) -> None:
    record, why = BROKEN[value]
    sound = rows(40)
    # A neighbour that holds nothing must not be taken for the second half of two.
    servers.put(topic, [*sound[:20], record, *sound[20:]], partition=1)
    with pytest.raises(InputError) as refused:
        read(kafka(servers, topic))
    assert re.match(rf"kafka: the record at partition 1, offset 20 of topic '{topic}' is broken: ", str(refused.value))
    assert why in str(refused.value)

    found, passed = ran(kafka(servers, topic, broken="skip"))
    assert [row["n"] for row in found] == list(range(40))
    assert [row["seq"] for row in found] == [*range(20), *range(21, 41)]
    assert passed["in"].broken == 1 and passed["in"].example.startswith("partition 1, offset 20 of topic")

    found, passed = ran(kafka(servers, topic, broken="keep"))
    assert found[20]["n"] is None and found[20]["record"] == record and why in found[20]["broken"]
    assert [row["n"] for row in found if row["broken"] is None] == list(range(40)) and not passed
    assert [row["seq"] for row in found] == list(range(41))


def test_many_broken_records_are_all_found(servers: Servers, topic: str) -> None:
    records = [b"no" if n % 3 == 0 else json.dumps({"n": n}).encode() for n in range(100)]
    servers.put(topic, records)
    found, passed = ran(kafka(servers, topic, broken="skip"))
    assert [row["n"] for row in found] == [n for n in range(100) if n % 3]
    assert passed["in"].broken == 34


def test_json_over_several_lines_and_keys_that_nobody_wants(servers: Servers, topic: str) -> None:
    record = json.dumps({"n": 1, "word": "a\nb", "other": {"deep": [1]}}, indent=2)
    servers.put(topic, [record, {"word": None, "other": 7}, record])
    assert read(kafka(servers, topic))["n"].to_pylist() == [1, None, 1]


def test_a_value_that_may_not_be_missing(servers: Servers, topic: str) -> None:
    servers.put(topic, [{"n": 1}, {"m": 1}])
    with pytest.raises(
        InputError, match=r"offset 1 of topic .* no value for column 'n', which is declared as not null"
    ):
        read(kafka(servers, topic, schema=REQUIRED))


@pytest.mark.parametrize(
    ("format", "record", "why"),
    [
        ("arrow", b'{"n": 1}', "it is no Arrow IPC stream"),
        ("arrow", encoded(pa.table({"n": ["1"]})), "column 'n' is wanted as int64; it has n string"),
        ("arrow", encoded(pa.Table.from_pylist(rows(5), SCHEMA)), "it holds 5 rows, more than rows_max=4"),
        ("json", encoded(pa.Table.from_pylist(rows(1), SCHEMA)), "it is no JSON object"),
    ],
    ids=["json", "other columns", "too many rows", "arrow"],
)
def test_the_wrong_format(servers: Servers, topic: str, format: Any, record: bytes, why: str) -> None:
    servers.put(topic, [record])
    with pytest.raises(InputError) as refused:
        read(kafka(servers, topic, format=format, **({"rows_max": 4} if format == "arrow" else {})))
    assert f"partition 0, offset 0 of topic '{topic}' is broken: " in str(refused.value)
    assert why in str(refused.value)


def test_records_that_expire_while_they_are_waited_for_stop_it_or_are_counted(servers: Servers, topic: str) -> None:
    servers.put(topic, rows(20), partition=1)
    stops, goes_on = (kafka(servers, topic, expired=expired).now() for expired in ("stop", "skip"))
    servers.expire(topic, 1, before=5)
    with pytest.raises(InputError, match=r"from offset 0 on, and it now has those from 5 up to 20: they have expired"):
        stops.read(0)
    piece = goes_on.open(0)
    found = pa.Table.from_batches(piece.batches)
    assert found["n"].to_pylist() == found["seq"].to_pylist() == list(range(5, 20))
    assert (piece.passed.expired, piece.passed.broken) == (5, 0)
    servers.expire(topic, 1, before=20)
    piece = goes_on.open(0)
    assert not list(piece.batches) and piece.passed.expired == 20


def test_a_partition_whose_server_is_another_now(servers: Servers, topic: str) -> None:
    servers.put(topic, rows(20))
    for server in (1, 2):
        servers.lead(topic, 0, server)
        assert read(kafka(servers, topic)).num_rows == 20


def refusal(kind: type[SpillwayError], of: Topic) -> str:
    with pytest.raises(kind) as refused:
        of.now()
    said = str(refused.value)
    assert "\n" not in said and "Traceback" not in said
    return said


def test_a_topic_that_is_not_there_or_is_gone(servers: Servers, topic: str) -> None:
    assert f"there is no topic 'nobodys' at {servers.address}" in refusal(InputError, kafka(servers, "nobodys"))
    servers.put(topic, rows(3))
    feed = kafka(servers, topic, patience_s=0.5).now()
    servers.remove(topic)
    assert f"there is no topic '{topic}'" in refusal(InputError, kafka(servers, topic))
    with pytest.raises(InputError, match=f"there is no topic '{topic}' at .*, or it was removed"):
        feed.read(0)


def test_no_server(servers: Servers) -> None:
    nobody = sw.kafka("127.0.0.1:9", "t", format="raw", patience_s=0.5)
    said = refusal(RunError, nobody)
    assert "no server of 127.0.0.1:9 has answered within 0.5 s" in said and "Connection refused" in said


def test_a_server_that_falls_silent_is_not_waited_for_for_ever(topic: str) -> None:
    with serving() as others:
        others.make(topic)
        others.put(topic, rows(3))
        declared = kafka(others, topic, patience_s=0.5)
        feed = declared.now()
        others.fail(1)
        with pytest.raises(RunError, match=r"^kafka: no server of .* has answered within 0\.5 s"):
            feed.read(0)


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SetupError, match=r"^sw\.kafka reads with .*pip install 'spillway\[kafka\]'"):
        sw.kafka("127.0.0.1:9", "t", format="raw")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"schema": None}, "schema= is wanted"),
        ({"schema": pa.schema([("seq", pa.int64())])}, "column 'seq' is made of partition and offset"),
        ({"schema": pa.schema([("key", pa.binary())]), "about": ["key"]}, "two columns 'key'"),
        ({"schema": REQUIRED, "broken": "keep"}, "'n' is declared as not null"),
        ({"format": "raw"}, "leave out schema="),
        ({"format": "avro"}, "format is one of json, arrow, raw; got 'avro'"),
        ({"broken": "drop"}, "broken is one of stop, skip, keep; got 'drop'"),
        ({"expired": "keep"}, "expired is one of stop, skip"),
        ({"begin": 5}, "begin is one of earliest, latest"),
        ({"about": ["headers"]}, "about is one of key, partition, offset, time"),
        ({"records_per_batch": 0}, "records_per_batch must be a whole number, 1 or more"),
        ({"rows_max": 5}, "rows_max is a whole number"),
        ({"patience_s": 0}, "patience_s must be a number above 0"),
        ({"schema": pa.schema([("n", pa.month_day_nano_interval())])}, "a type that cannot be read from JSON"),
    ],
    ids=str,
)
def test_what_is_refused_when_it_is_declared(how: dict[str, Any], why: str) -> None:
    with pytest.raises(GraphError, match=re.escape(why)):
        sw.kafka("127.0.0.1:9", "t", **({"schema": SCHEMA} | how))


@pytest.mark.parametrize("servers_", ["", "a:1,,b:2", [], [""]], ids=str)
def test_servers_and_topic_are_named(servers_: Any) -> None:
    with pytest.raises(GraphError, match="servers must be 'host:port'"):
        sw.kafka(servers_, "t", format="raw")
    with pytest.raises(GraphError, match="the name of a topic is wanted"):
        sw.kafka("a:1", "", format="raw")


def test_an_option_that_the_library_does_not_know(servers: Servers, topic: str) -> None:
    declared = kafka(servers, topic, options={"no.such": 1})
    assert 'No such configuration property: "no.such"' in refusal(RunError, declared)


def test_a_decoder_that_gives_something_else(servers: Servers, topic: str) -> None:
    servers.put(topic, [b"1,a", b"2,b"])
    for given, why in (
        (lambda values: split(values[1:]), "got 1 rows"),
        (lambda values: split(values).select(["n"]), "must give n int64, word string; got n int64"),
        (lambda values: None, "got NoneType"),
    ):
        with pytest.raises(InputError, match=re.escape(why)):
            read(kafka(servers, topic, format=given, broken="skip"))


def test_what_is_skipped_is_no_longer_lossless(servers: Servers, topic: str) -> None:
    graph = sw.Graph("promised")
    source = graph.source("in", kafka(servers, topic, broken="skip"))
    graph.sink("out", source, sw.Memory(), contract=sw.Contract(lossless=True))
    with pytest.raises(GraphError, match=r"broken"):
        graph.checked()
