"""Spark's schemas as Arrow's and back, without a Spark."""

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from spillway.errors import GraphError
from spillway.graph import Graph, Memory
from spillway.graph.nodes import Source, Stream
from spillway.graph.spark_types import ARROW_OF, arrow_schema, spark_schema


@dataclass
class FakeType:
    sql: str

    def simpleString(self) -> str:  # noqa: N802
        return self.sql


@dataclass
class FakeColumn:
    name: str
    dataType: FakeType  # noqa: N815


@dataclass
class FakeSchema:
    fields: list[FakeColumn]


@dataclass
class FakeFrame:
    """What we look at of a DataFrame, and no more."""

    schema: FakeSchema
    isStreaming: bool = field(default=True)  # noqa: N815


def frame(*, streaming: bool = True, **types: str) -> FakeFrame:
    return FakeFrame(FakeSchema([FakeColumn(name, FakeType(sql)) for name, sql in types.items()]), streaming)


def test_every_type_comes_back() -> None:
    arrow = arrow_schema(frame(**{f"c_{sql}": sql for sql in ARROW_OF}), "x")
    assert arrow.types == list(ARROW_OF.values())
    assert spark_schema(arrow, "x") == ", ".join(f"`c_{sql}` {sql}" for sql in ARROW_OF)


def test_decimals_come_back() -> None:
    arrow = arrow_schema(frame(narrow="decimal(10,2)", wide="decimal(38,0)"), "x")
    assert arrow.types == [pa.decimal128(10, 2), pa.decimal128(38, 0)]
    assert spark_schema(arrow, "x") == "`narrow` decimal(10,2), `wide` decimal(38,0)"


def test_a_frame_is_a_source() -> None:
    graph = Graph("g")
    graph.sink("out", graph.source("s", frame(word="string", id="bigint"), seq="id"), Memory())
    checked = graph.checked()
    assert checked.schemas[Stream("s", "out")].names == ["seq", "word"]
    assert checked.sources["s"].feed is None
    assert graph.draw() == "g\ns  source FakeFrame\n  -> out  sink Memory\n"


def test_names_are_quoted() -> None:
    assert spark_schema(pa.schema([("a b", pa.int64()), ("c`d", pa.string())]), "x") == "`a b` bigint, `c``d` string"


@pytest.mark.parametrize("sql", ["array<array<int>>", "struct<a:int>", "map<string,int>", "interval day", "void"])
def test_a_type_without_a_counterpart_is_refused(sql: str) -> None:
    with pytest.raises(GraphError) as refused:
        Graph("g").source("s", frame(seq="bigint", x=sql))
    assert str(refused.value) == (
        f"Source 's': column 'x' is {sql}; wanted one of {', '.join(ARROW_OF)}, a decimal, or an array of one. Cast "
        f"or drop it before the source."
    )


@pytest.mark.parametrize(
    ("sql", "kind"),
    [("array<bigint>", pa.int64()), ("array<string>", pa.string()), ("array<decimal(9,2)>", pa.decimal128(9, 2))],
)
def test_lists_go_both_ways(sql: str, kind: pa.DataType) -> None:
    graph = Graph("g")
    graph.source("s", frame(seq="bigint", x=sql))
    source = graph.nodes["s"]
    assert isinstance(source, Source) and source.schema.field("x").type == pa.list_(kind)
    assert spark_schema(pa.schema([("x", pa.list_(kind))]), "x") == f"`x` {sql}"


def test_a_frame_that_does_not_stream_is_refused() -> None:
    with pytest.raises(GraphError) as refused:
        Graph("g").source("s", frame(streaming=False, seq="bigint"))
    assert str(refused.value) == ("Source 's': the DataFrame is not a streaming one. Make it with spark.readStream.")


@pytest.mark.parametrize("kind", [pa.uint8(), pa.large_string(), pa.list_(pa.uint8()), pa.timestamp("ns")])
def test_what_spark_has_no_type_for_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(GraphError) as refused:
        spark_schema(pa.schema([("x", kind)]), "stream a.out")
    assert str(refused.value).startswith(f"stream a.out: column 'x' is {kind}; Spark wants one of bool, int8, ")
