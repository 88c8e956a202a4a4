"""Progress as columns says what the same rows say as objects."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.records.progressed import progress

from spillway.records.columns import holes, progress_of
from spillway.records.placing import summarise_hosts
from spillway.records.progress import PROGRESS_SCHEMA, ShardProgress, last_words
from spillway.records.summary import summarise

rows = st.lists(
    st.builds(
        progress,
        operator=st.sampled_from("ba"),
        shard=st.integers(0, 2),
        batch=st.integers(0, 6),
        tuples=st.integers(0, 9),
        divergence=st.sampled_from((0.0, 1.0, 3.0)),
        threshold=st.sampled_from((0.0, 4.0)),
        backup=st.booleans(),
        recovered=st.booleans(),
        recovered_from=st.integers(-1, 3),
        loss_max=st.sampled_from((0.0, 2.5)),
        failures=st.integers(0, 3),
        host=st.sampled_from(("", "here", "there")),
        epoch=st.integers(0, 1),
        damage=st.sampled_from(("", "torn")),
    ),
    max_size=40,
)


def table_of(written: list[ShardProgress]) -> pa.Table:
    return pa.Table.from_pylist([row.as_row() for row in written], schema=PROGRESS_SCHEMA)


@given(rows)
def test_it_is_what_the_rows_are(written: list[ShardProgress]) -> None:
    found = progress_of(table_of(written))
    expected = last_words(written)
    place = {(row.operator, row.shard, row.batch): row for row in found.rows()}
    assert place == {(row.operator, row.shard, row.batch): row for row in expected}
    assert len(found) == len(expected)
    assert found.repeated == len(set(written)) - len(expected)
    assert all(a.batch <= b.batch for a, b in pairwise(found.rows()))
    summaries = {one.operator: one for one in found.summaries()}
    assert summaries == {one.operator: one for one in summarise(expected)}


@given(rows)
def test_holes_are_the_batches_in_which_a_shard_is_missing(written: list[ShardProgress]) -> None:
    found = holes(progress_of(table_of(written)))
    batches = [row.batch for row in written]
    for operator in {row.operator for row in written}:
        own = {(row.batch, row.shard) for row in written if row.operator == operator}
        shards = range(1 + max(shard for _, shard in own))
        missing = {
            batch
            for batch in range(min(batches), max(batches) + 1)
            if not all((batch, shard) in own for shard in shards)
        }
        told = {batch for first, last in found.get(operator, []) for batch in range(first, last + 1)}
        assert told == missing


@given(rows)
def test_stretches_say_of_each_batch_where_it_was(written: list[ShardProgress]) -> None:
    found = progress_of(table_of(written))
    stretches = found.stretches()
    told = [
        (one.operator, one.shard, batch, one.host, one.epoch)
        for one in stretches
        for batch in range(one.first, one.last + 1)
    ]
    placed = [row for row in found.rows() if row.host]
    assert sorted(told) == sorted((row.operator, row.shard, row.batch, row.host, row.epoch) for row in placed)
    assert summarise_hosts(stretches) == summarise_hosts(placed)


def test_columns_of_an_older_version_are_nothing() -> None:
    older = table_of([progress(batch=3, tuples=5)]).drop_columns(["damage", "recovered", "epoch"])
    kinds = {field.name: field.type for field in PROGRESS_SCHEMA}
    columns = [older[name] if name in older.schema.names else pa.nulls(1, kind) for name, kind in kinds.items()]
    nulls = pa.table(columns, schema=PROGRESS_SCHEMA)
    assert progress_of(nulls).rows() == [progress(batch=3, tuples=5)]
