"""Windows of event time on both runtimes: each must give exactly what plain Python gives."""

import pyarrow as pa
import pytest
from tests.conftest import RunGraph
from tests.local.event_times import Model, Row, counting

import spillway as sw
from spillway.seeds import generator

FAR = 10**9


def out_of_order(batches: int, rows: int) -> list[list[Row]]:
    """Times that go on, with disorder, and here and there one that is wrong."""
    random = generator(7, "event time")
    made = []
    for batch in range(batches):
        times = batch * 25 + random.integers(-40, 30, rows)
        times[random.random(rows) < 0.03] = FAR
        made.append([(int(at), f"k{at % 5}") for at in times])
    return made


@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=100)], ids=lambda protect: protect.describe())
def test_windows_are_those_of_the_model(run_graph: RunGraph, protect: sw.Protection) -> None:
    batches = out_of_order(12, 60)
    model = Model(extent=10, lateness=15, ahead_max=200)
    results = run_graph(counting(batches, model, protect=protect))
    for rows in batches:
        model.apply(rows)
    assert model.late and model.ahead and model.ended  # or it would show nothing
    out = results["out"].to_pylist()
    assert sorted((row["window_start"] // 10, row["k"], row["count"]) for row in out) == sorted(model.ended)
    aside = sorted((row["at"], row["k"]) for row in results["late"].to_pylist())
    assert aside == sorted(model.late + model.ahead)


def test_keys_of_other_types(run_graph: RunGraph) -> None:
    """As Python knows them; what Spark reads itself is tried where DataFrames are."""
    kinds = [pa.int32(), pa.date32(), pa.bool_(), pa.timestamp("us", tz="UTC"), pa.decimal128(38, 2), pa.binary()]
    numbers = pa.array([1, 0, 1, 1], pa.int32())
    columns = {}
    for i, kind in enumerate(kinds):
        through = numbers.cast(pa.int64()) if pa.types.is_timestamp(kind) else numbers
        columns[f"k{i}"] = pa.array([b"\xff", b"", b"\xff", b"\xff"]) if kind == pa.binary() else through.cast(kind)
    seqs = pa.field("seq", pa.int64(), nullable=False)
    schema = pa.schema([seqs, *(pa.field(name, column.type) for name, column in columns.items())])
    batch = pa.RecordBatch.from_arrays([pa.array(range(4)), *columns.values()], schema=schema)
    graph = sw.Graph("g", shards=3)
    source = graph.source("source", sw.Generator(make=lambda _: batch, schema=schema, pieces=1))
    for name in columns:
        count = sw.operators.Count(f"by_{name}", key=name, protect=sw.Exact())
        graph.sink(f"{name}_out", graph.add(count, source), sw.Memory())
    results = run_graph(graph)
    for name, column in columns.items():
        out = results[f"{name}_out"]
        assert out.schema.field(name).type == column.type
        assert dict(zip(out[name].to_pylist(), out["count"].to_pylist(), strict=True)) == {
            column[0].as_py(): 3, column[1].as_py(): 1,
        }  # fmt: skip
