"""A folder that grows: what is read, in which order, how it is numbered, and how what does not fit is refused."""

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.graph.growing import WRITERS, put, write_arrow, write_parquet

import spillway as sw
from spillway.errors import GraphError, InputError
from spillway.graph.growing import Files, TakenFile, files

SUFFIX = {"parquet": "parquet", "arrow": "arrow", "csv": "csv", "json": "jsonl"}
FORMATS = pytest.mark.parametrize("format", WRITERS)


def table(rows: int, *, first: int = 0) -> pa.Table:
    numbers = range(first, first + rows)
    told = pa.array([f"row {n}\nof some" for n in numbers], pa.string())
    return pa.table({"n": pa.array(numbers, pa.int64()), "name": told})


def everything(of: Files) -> pa.Table:
    feed = of.now()
    batches = [batch for piece in range(feed.pieces) for batch in feed.open(piece).batches]
    assert all(batch.schema == of.schema for batch in batches)
    return pa.Table.from_batches(batches, of.schema)


def names(of: Files) -> list[str]:
    return [taken.name for taken in of.now().taken]


def test_the_public_name_is_the_function_though_there_is_a_package_of_that_name() -> None:
    import spillway.receiver  # noqa: F401
    from spillway.files import journal

    assert sw.files is files
    assert journal.Journal


@FORMATS
def test_files_are_read_one_after_the_other(tmp_path: Path, format: str) -> None:
    for number, rows in enumerate([5, 0, 20]):
        put(tmp_path, f"{number}.{SUFFIX[format]}", table(rows, first=100 * number), changed_s=number)
    declared = sw.files(tmp_path, schema=table(0).schema)
    read = everything(declared)
    assert read["seq"].to_pylist() == list(range(25))
    assert read.drop_columns("seq").equals(pa.concat_tables([table(5), table(20, first=200)]))
    assert [taken.rows for taken in declared.now().taken] == [5, 0, 20]
    # The schema of the first file is the same, and any process reads the same of what was taken.
    feed = sw.files(tmp_path).now()
    assert pickle.loads(pickle.dumps(feed)).read(2).equals(feed.read(2))
    assert feed.schema == declared.schema


@FORMATS
def test_a_large_file_is_never_whole_in_memory(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillway.graph.formats._ROWS_MAX", 6)
    monkeypatch.setattr("spillway.graph.formats._BLOCK_BYTES", 150)
    put(tmp_path, f"a.{SUFFIX[format]}", table(40))
    batches = list(sw.files(tmp_path).now().open(0).batches)
    assert max(batch.num_rows for batch in batches) <= 6
    assert pa.Table.from_batches(batches)["n"].to_pylist() == list(range(40))


@FORMATS
def test_a_column_seq_numbers_tuples_and_then_nothing_is_counted(tmp_path: Path, format: str) -> None:
    content = table(4).append_column("seq", pa.array([3, 5, 8, 13], pa.int64()))
    put(tmp_path, f"a.{SUFFIX[format]}", content)
    declared = sw.files(tmp_path, columns=["n"])
    assert declared.schema.names == ["seq", "n"]
    assert everything(declared).to_pydict() == {"seq": [3, 5, 8, 13], "n": [0, 1, 2, 3]}
    assert declared.now().taken[0].rows is None


@FORMATS
def test_columns_are_chosen_and_others_may_come(tmp_path: Path, format: str) -> None:
    put(tmp_path, f"a.{SUFFIX[format]}", table(3), changed_s=1)
    put(tmp_path, f"b.{SUFFIX[format]}", table(2).append_column("more", pa.array([True, False])), changed_s=2)
    read = everything(sw.files(tmp_path, columns=["name"]))
    assert read.schema.names == ["seq", "name"]
    assert read["name"].to_pylist() == [*table(3)["name"].to_pylist(), *table(2)["name"].to_pylist()]


def test_the_order_is_that_of_changes_then_of_names_with_numbers_by_value(tmp_path: Path) -> None:
    for name, changed_s in [("b-10.csv", 5), ("b-9.csv", 5), ("a/x.csv", 6), ("z.csv", 4), ("a.csv", 7)]:
        put(tmp_path, name, table(1), changed_s=changed_s)
    assert names(sw.files(tmp_path)) == ["z.csv", "b-9.csv", "b-10.csv", "a/x.csv", "a.csv"]


def test_what_is_hidden_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "deep/down/a.csv", table(1))
    for name in ["_b.csv", ".c.csv", "_temporary/d.csv", ".git/e.csv", "deep/_f.csv"]:
        put(tmp_path, name, table(1))
    assert names(sw.files(tmp_path)) == ["deep/down/a.csv"]


def test_known_files_are_not_new(tmp_path: Path) -> None:
    for name in ["a.csv", "b.csv", "c/a.csv"]:
        put(tmp_path, name, table(1), changed_s=1)
    assert sw.files(tmp_path).new({"a.csv"}) == ["b.csv", "c/a.csv"]


def test_a_file_that_goes_before_it_is_taken_was_never_there(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", table(1))
    declared = sw.files(tmp_path)
    path.unlink()
    assert declared.take("a.csv", number=0, first_seq=0) is None
    assert everything(declared).num_rows == 0


def test_the_format_may_be_named(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", table(2)).rename(tmp_path / "a.dat")
    assert everything(sw.files(tmp_path, format="csv")).num_rows == 2


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("content", ["", "\n", " \r\n"])
def test_a_blank_file_has_no_rows(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert everything(sw.files(tmp_path, schema=table(0).schema)).num_rows == 0


def test_keys_that_some_lines_lack_are_null(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": 1, "more": [1]}\n\n{"name": "b", "more": 2}\n')
    read = everything(sw.files(tmp_path, schema=table(0).schema))
    assert read.to_pydict() == {"seq": [0, 1], "n": [1, None], "name": [None, "b"]}


def test_encodings_of_files_are_undone(tmp_path: Path) -> None:
    words = pa.array(["a", "b", "a"])
    write_parquet(tmp_path / "a.parquet", pa.table({"word": words.dictionary_encode()}))
    write_arrow(tmp_path / "b.arrow", pa.table({"word": words.cast(pa.large_string())}))
    read = everything(sw.files(tmp_path))
    assert read.schema.field("word").type == pa.string()
    assert read["word"].to_pylist() == ["a", "b", "a"] * 2


# -- refusals ---------------------------------------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("numbered", [False, True])
def test_a_missing_column_is_named_before_the_file_is_taken(tmp_path: Path, format: str, numbered: bool) -> None:
    content = table(3).append_column("seq", pa.array([1, 2, 3], pa.int64())) if numbered else table(3)
    path = put(tmp_path, f"a.{SUFFIX[format]}", content.drop_columns("n"))
    wanted = sw.files(tmp_path, schema=content.schema)
    came = "name string, seq int64" if numbered else "name string"
    said = f"files: {path} has no column 'n', which is wanted as int64; it has {came}."
    with pytest.raises(InputError, match=f"^{re.escape(said)}$"):
        wanted.now()


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_another_type_is_named_before_the_file_is_taken(tmp_path: Path, format: str) -> None:
    path = put(tmp_path, f"a.{SUFFIX[format]}", table(3))
    wanted = sw.files(tmp_path, schema=pa.schema([("n", pa.int32()), ("name", pa.string())]))
    with pytest.raises(InputError, match=f"^files: column 'n' is int64 in {re.escape(str(path))}; int32 is wanted.$"):
        wanted.now()


SAID_OF_VALUES = {
    "csv": r"cannot be read as csv \(In CSV column #1: Row #2: CSV conversion error to int64: invalid value 'row 0",
    "json": r"cannot be read as json \(JSON parse error: Column\(/name\) changed from number to string in row 0\)\.$",
}


@pytest.mark.parametrize("format", SAID_OF_VALUES)
def test_values_of_another_type_are_named_before_the_file_is_taken(tmp_path: Path, format: str) -> None:
    path = put(tmp_path, f"a.{SUFFIX[format]}", table(3))
    wanted = sw.files(tmp_path, schema=pa.schema([("n", pa.int64()), ("name", pa.int64())]))
    with pytest.raises(InputError, match=f"^files: {re.escape(str(path))} {SAID_OF_VALUES[format]}"):
        wanted.now()


SAID_LATER = {
    "csv": ("n\n1\n2\n3\n4\nx\n", r"as csv, behind its first \d rows \(In CSV column #0: Row #6: .* invalid value 'x'"),
    "json": ('{"n":1}\n{"n":2}\n{"n":"x"}\n', r"as json, behind its first 2 rows \(JSON parse error: Column\(/n\)"),
}


@pytest.mark.parametrize("format", SAID_LATER)
def test_values_further_down_are_named_when_they_are_read(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spillway.graph.formats._BLOCK_BYTES", 16 if format == "json" else 4)
    content, said = SAID_LATER[format]
    (tmp_path / f"a.{SUFFIX[format]}").write_text(content)
    declared = sw.files(tmp_path, schema=pa.schema([("n", pa.int64())]))
    with pytest.raises(InputError, match=said):
        everything(declared)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"n,name\n1,x\n2\n", r"as csv \(CSV parse error: Row #3: Expected 2 columns, got 1: 2\)"),
        ("a.csv", b"n,name\n1,\xff\n", r"as csv \(In CSV column #1: .*invalid UTF8"),
        ("a.jsonl", b'{"n": 1, "name": "x"}\n{"n": 2,\n', r"as json \(JSON parse error: Missing a name .* in row 1\)"),
        ("a.parquet", b"PAR1 this is not Parquet PAR1", r"as parquet \("),
        ("a.arrow", b"ARROW1 this is not Arrow", r"as arrow \(Not an Arrow file\)"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^files: {re.escape(str(path))} cannot be read {said}"):
        sw.files(tmp_path, schema=table(0).schema).now()


def test_a_null_where_none_may_be_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.parquet", pa.table({"n": pa.array([1, None, None])}))
    declared = sw.files(tmp_path, schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    said = f"column 'n' was declared as int64 not null, and 2 of 3 values in {re.escape(str(path))} are null"
    with pytest.raises(InputError, match=said):
        everything(declared)


def test_numbers_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pa.table({"seq": pa.array([1, 3, 2])}))
    with pytest.raises(InputError, match=r"a\.parquet, .*: 'seq' must ascend strictly; row 1 has 3 and the next 2"):
        everything(sw.files(tmp_path))


def test_a_file_that_was_changed_or_removed_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", table(3), changed_s=1_000_000_000)
    feed = sw.files(tmp_path).now()
    assert feed.read(0).num_rows == 3
    os.utime(path, (1, 1))
    said = (
        r"a\.csv was changed after it was taken: it had 65 bytes of 2001-09-09T01:46:40\.0+, and has 65 of 1970-01-01"
    )
    with pytest.raises(InputError, match=said):
        feed.open(0)
    path.unlink()
    with pytest.raises(InputError, match=r"a\.csv was taken and is to be read, and cannot be found \(No such file"):
        feed.open(0)


def test_a_file_whose_rows_are_not_those_counted_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", table(3))
    found = path.stat()
    taken = TakenFile(number=0, name="a.csv", bytes=found.st_size, changed_ns=found.st_mtime_ns, rows=4, first_seq=0)
    with pytest.raises(InputError, match=r"a\.csv had 4 rows when it was taken, and now has 3\."):
        list(sw.files(tmp_path).open(taken).batches)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"files_per_batch": 0}, GraphError, "files: files_per_batch must be a whole number, 1 or more; got 0."),
        ({"format": "xml"}, GraphError, "files: format must be one of parquet, arrow, csv, json; got 'xml'."),
        ({"columns": "n"}, GraphError, "files: columns must be a list of names; got 'n'."),
        ({"columns": []}, GraphError, "files: a pyarrow schema of at least one column is wanted; got "),
        ({"columns": ["m"]}, GraphError, "files: columns wants 'm', which .*a.csv does not have: n int64, name string"),
        ({"schema": "n int"}, GraphError, "files: schema must be a pyarrow schema; got 'n int'."),
        ({"schema": pa.schema([])}, GraphError, "files: a pyarrow schema of at least one column is wanted; got "),
        ({"schema": pa.schema([("seq", pa.int32())])}, GraphError, "files: a column 'seq' of int64 is wanted; got seq"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, options: dict[str, Any], kind: type, said: str) -> None:
    put(tmp_path, "a.csv", table(1))
    with pytest.raises(kind, match=f"^{said}"):
        sw.files(tmp_path, **options)


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"files: there is no folder .*nowhere\. Make it first"):
        sw.files(tmp_path / "nowhere")
    with pytest.raises(GraphError, match=r"files: a local folder is wanted; got 's3://bucket/in'"):
        sw.files("s3://bucket/in")
    with pytest.raises(InputError, match=r"there are no files in .* yet, so schema= is wanted"):
        sw.files(tmp_path)
    declared = sw.files(tmp_path, schema=table(0).schema)
    tmp_path.rmdir()
    with pytest.raises(InputError, match=r"folder .* cannot be listed \(No such file or directory\)"):
        declared.now()


def test_types_are_not_guessed_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,name\n")
    with pytest.raises(InputError, match=r"files: .*a\.csv has no values in column 'name', so schema= is wanted"):
        sw.files(tmp_path, columns=["name"])


def test_a_name_that_tells_no_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("n\n")
    declared = sw.files(tmp_path, schema=table(0).schema)
    with pytest.raises(InputError, match=r"notes\.md: the name does not say its format \(parquet, arrow, csv, json\)"):
        declared.now()


def test_a_relative_folder_stays_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    declared = sw.files("in", schema=table(0).schema)
    monkeypatch.chdir("/")
    pq.write_table(table(2), tmp_path / "in" / "a.parquet")
    assert everything(declared).num_rows == 2
