"""Files as input: what is read, how it is numbered, and how a file that does not fit is refused."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from spillway.errors import GraphError, InputError
from spillway.graph import Trace
from spillway.graph.files import look_at, read_slice


def table(rows: int, *, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table({"n": numbers, "name": [f"row {n}" for n in numbers]})


def write_parquet(path: Path, content: pa.Table, *, rows_per_block: int = 7) -> Path:
    pq.write_table(content, path, row_group_size=rows_per_block)
    return path


def write_arrow(path: Path, content: pa.Table, *, rows_per_block: int = 7) -> Path:
    with ipc.new_file(path, content.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(content, max_chunksize=rows_per_block)
    return path


def everything(trace: Trace) -> pa.Table:
    batches = [trace.read(piece) for piece in range(trace.pieces)]
    assert all(batch.schema == trace.schema for batch in batches)
    return pa.Table.from_batches(batches, trace.schema)


WRITERS = {"parquet": write_parquet, "arrow": write_arrow}


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("rows_per_piece", [1, 3, 7, 10, 14, 100])
@pytest.mark.parametrize("rows_per_block", [1, 7, 1000])
def test_slices_of_any_size_are_the_whole(
    tmp_path: Path, format: str, rows_per_piece: int, rows_per_block: int
) -> None:
    path = WRITERS[format](tmp_path / f"x.{format}", table(30), rows_per_block=rows_per_block)
    trace = Trace(path, rows_per_piece=rows_per_piece)
    assert (trace.rows, trace.pieces) == (30, -(-30 // rows_per_piece))
    read = everything(trace)
    assert read["seq"].to_pylist() == list(range(30))
    assert read.drop_columns("seq").equals(table(30))
    # Any piece can be read again, in any order, in another process.
    assert pickle.loads(pickle.dumps(trace)).read(trace.pieces - 1).equals(trace.read(trace.pieces - 1))


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=6)),
    rows_per_piece=st.integers(1, 5),
    block_bytes=st.integers(1, 9),
    end=st.booleans(),
)
def test_text_is_split_at_line_feeds(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], rows_per_piece: int, block_bytes: int, end: bool
) -> None:
    path = tmp_path_factory.mktemp("text") / "x.txt"
    text = "\n".join(lines) + ("\n" if end and lines else "")
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spillway.graph.files._BLOCK_BYTES", block_bytes)
        trace = Trace(path, rows_per_piece=rows_per_piece)
    wanted = text.removesuffix("\n").split("\n") if text else []
    if wanted:
        wanted[0] = wanted[0].removeprefix("\ufeff")
    read = everything(trace)
    assert read["line"].to_pylist() == [line.removesuffix("\r") for line in wanted]
    assert read["seq"].to_pylist() == list(range(len(wanted)))


def test_lines_of_other_systems(tmp_path: Path) -> None:
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n\r\nform\x0cfeed\r\n")
    assert everything(Trace(tmp_path / "dos.txt"))["line"].to_pylist() == ["one", "two", "", "form\x0cfeed"]


class TestFolders:
    def test_numbers_in_names_count_by_value(self, tmp_path: Path) -> None:
        for number in (10, 9, 1):
            folder = tmp_path / f"batch={number}"
            folder.mkdir()
            write_parquet(folder / "part-0.parquet", table(2, first=number))
        assert everything(Trace(tmp_path))["n"].to_pylist() == [1, 2, 9, 10, 10, 11]

    def test_numbering_goes_on_from_file_to_file(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", table(5))
        write_arrow(tmp_path / "b.arrow", table(4))
        trace = Trace(tmp_path, rows_per_piece=3)
        assert [trace.read(piece)["seq"].to_pylist() for piece in range(trace.pieces)] == [
            [0, 1, 2],
            [3, 4],
            [5, 6, 7],
            [8],
        ]

    def test_a_list_is_read_in_the_order_given(self, tmp_path: Path) -> None:
        second = write_parquet(tmp_path / "a.parquet", table(1, first=5))
        first = write_parquet(tmp_path / "b.parquet", table(1))
        assert everything(Trace([first, str(second)]))["n"].to_pylist() == [0, 5]

    def test_what_others_keep_there_for_themselves_is_left_out(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", table(2))
        for name in ("_SUCCESS", ".a.parquet.crc", "_spark_metadata/0", ".batch=3.part/part-0.parquet"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("not data")
        assert Trace(tmp_path).rows == 2

    def test_files_without_rows_are_no_pieces(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", table(0))
        write_arrow(tmp_path / "b.arrow", table(0))
        assert (Trace(tmp_path).pieces, Trace(tmp_path).rows) == (0, 0)
        (tmp_path / "c.txt").touch()
        assert Trace(tmp_path / "c.txt").pieces == 0


class TestColumns:
    def test_a_column_seq_numbers_the_tuples(self, tmp_path: Path) -> None:
        content = table(4).append_column("seq", pa.array([2, 3, 5, 7]))
        path = write_parquet(tmp_path / "x.parquet", content)
        for columns in (None, ["n", "seq"], ["n"]):
            read = everything(Trace(path, columns=columns, rows_per_piece=3))
            assert read["seq"].to_pylist() == [2, 3, 5, 7], columns
            assert read["n"].to_pylist() == [0, 1, 2, 3]

    @pytest.mark.parametrize("format", WRITERS)
    def test_only_the_columns_asked_for_are_read(self, tmp_path: Path, format: str) -> None:
        path = WRITERS[format](tmp_path / f"x.{format}", table(9))
        trace = Trace(path, columns=["name"], rows_per_piece=4)
        assert trace.schema.names == ["seq", "name"]
        assert everything(trace)["name"].to_pylist() == [f"row {n}" for n in range(9)]

    def test_columns_of_later_files_are_put_in_the_order_of_the_first(self, tmp_path: Path) -> None:
        write_parquet(tmp_path / "a.parquet", table(1))
        write_parquet(tmp_path / "b.parquet", table(1).select(["name", "n"]).append_column("more", pa.array([1])))
        assert everything(Trace(tmp_path)).column_names == ["seq", "n", "name"]

    @pytest.mark.parametrize("format", WRITERS)
    def test_encodings_are_undone(self, tmp_path: Path, format: str) -> None:
        words = pa.array(["a", None, "b", "a"])
        content = pa.table(
            {
                "dictionary": words.dictionary_encode(),
                "large": words.cast(pa.large_string()),
                "bytes": words.cast(pa.large_binary()),
            }
        )
        path = WRITERS[format](tmp_path / f"x.{format}", content)
        read = everything(Trace(path, rows_per_piece=3))
        assert read.schema.types[1:] == [pa.string(), pa.string(), pa.binary()]
        assert read["dictionary"].to_pylist() == read["large"].to_pylist() == ["a", None, "b", "a"]


def parquet_of(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


REFUSED: dict[str, tuple[dict[str, Callable[[Path], None]], dict[str, Any], type[Exception], str]] = {
    "nothing there": ({}, {}, InputError, "Trace: there are no files in {folder}."),
    "only files not meant for us": (
        {"_SUCCESS": Path.touch},
        {},
        InputError,
        "Trace: there are no files in {folder}.",
    ),
    "a corrupt file among good ones": (
        {"a.parquet": parquet_of(n=[1]), "b.parquet": lambda path: path.write_bytes(b"PAR1 no PAR1")},
        {},
        InputError,
        "Trace: {folder}/b.parquet is not a readable parquet file (",
    ),
    "an empty file": (
        {"a.parquet": Path.touch},
        {},
        InputError,
        "Trace: {folder}/a.parquet is not a readable parquet file (",
    ),
    "a corrupt Arrow file": (
        {"a.arrow": lambda path: path.write_bytes(b"ARROW1\0\0" * 9)},
        {},
        InputError,
        "Trace: {folder}/a.arrow is not a readable arrow file (",
    ),
    "another type of file by that name": (
        {"a.arrow": parquet_of(n=[1])},
        {},
        InputError,
        "Trace: {folder}/a.arrow is not a readable arrow file (",
    ),
    "text that is not UTF-8": (
        {"a.txt": lambda path: path.write_bytes("na\xefve\n".encode("latin-1"))},
        {},
        InputError,
        "Trace: {folder}/a.txt is not a readable text file ('utf-8' codec can't decode byte 0xef in position 2",
    ),
    "text that ends within a letter": (
        {"a.txt": lambda path: path.write_bytes("ï".encode()[:1])},
        {},
        InputError,
        "Trace: {folder}/a.txt is not a readable text file ('utf-8' codec can't decode byte 0xc3 in position 0",
    ),
    "a column that is not there": (
        {"a.parquet": parquet_of(n=[1], m=["x"])},
        {"columns": ["n", "k"]},
        InputError,
        "Trace: {folder}/a.parquet has no column 'k'; it has n int64, m string.",
    ),
    "a column that a later file lacks": (
        {"a.parquet": parquet_of(n=[1], m=["x"]), "b.parquet": parquet_of(n=[1])},
        {},
        InputError,
        "Trace: {folder}/b.parquet has no column 'm', which {folder}/a.parquet has.",
    ),
    "a column of another type": (
        {"a.parquet": parquet_of(n=[1]), "b.parquet": parquet_of(n=[1.5])},
        {},
        InputError,
        "Trace: column 'n' is double in {folder}/b.parquet and int64 in {folder}/a.parquet.",
    ),
    "a seq that is not int64": (
        {"a.parquet": parquet_of(seq=["1"])},
        {},
        GraphError,
        "Trace: a column 'seq' of int64 is wanted; got seq string.",
    ),
    "an unknown ending": (
        {"a.csv": Path.touch},
        {},
        GraphError,
        "Trace: {folder}/a.csv: name its format (arrow, parquet, text).",
    ),
    "pieces of no rows": (
        {"a.parquet": parquet_of(n=[1])},
        {"rows_per_piece": 0},
        GraphError,
        "Trace: rows_per_piece must be a whole number, 1 or more; got 0.",
    ),
    "batches of no pieces": (
        {"a.parquet": parquet_of(n=[1])},
        {"pieces_per_batch": 2.0},
        GraphError,
        "Trace: pieces_per_batch must be a whole number, 1 or more; got 2.0.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_when_the_trace_is_made(tmp_path: Path, case: str) -> None:
    files, options, kind, message = REFUSED[case]
    for name, write in files.items():
        write(tmp_path / name)
    with pytest.raises(kind) as refused:
        Trace(tmp_path, **options)
    assert str(refused.value).startswith(message.format(folder=tmp_path))
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"Trace: there is no file or folder {tmp_path}/x"):
        Trace(tmp_path / "x")
    with pytest.raises(InputError, match="Trace: there are no files in an empty list"):
        Trace([])


def test_the_format_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\n")
    assert everything(Trace(tmp_path / "log", format="text"))["line"].to_pylist() == ["one", "two"]


class TestChangedSince:
    """A file may change between the making of a trace and the reading of a piece."""

    @pytest.fixture(params=["parquet", "arrow", "text"])
    def trace(self, tmp_path: Path, request: pytest.FixtureRequest) -> Trace:
        path = tmp_path / f"x.{ {'text': 'txt'}.get(request.param, request.param) }"
        if request.param == "text":
            path.write_text("one\ntwo\nthree\n")
        else:
            WRITERS[request.param](path, table(30))
        return Trace(path, rows_per_piece=2)

    def path(self, trace: Trace) -> Path:
        assert isinstance(trace.paths, os.PathLike)
        return Path(trace.paths)

    def test_deleted(self, trace: Trace) -> None:
        self.path(trace).unlink()
        with pytest.raises(InputError, match=f"Trace: {self.path(trace)} can no longer be read as it was"):
            trace.read(0)

    def test_deleted_after_a_piece_was_read(self, trace: Trace) -> None:
        trace.read(0)
        self.path(trace).unlink()
        with pytest.raises(InputError, match="can no longer be read"):
            trace.read(1)

    def test_cut_short(self, trace: Trace) -> None:
        path = self.path(trace)
        path.write_bytes(path.read_bytes()[:5])
        with pytest.raises(InputError, match="can no longer be read as it was"):
            trace.read(1)

    @pytest.mark.parametrize(
        ("piece", "rows", "message"),
        [(1, 3, "2 rows were there from row 2 on, now 1"), (14, 3, "it ends before row 28")],
    )
    def test_replaced_by_a_shorter_one(self, trace: Trace, piece: int, rows: int, message: str) -> None:
        path = self.path(trace)
        trace.read(0)
        if path.suffix == ".txt":
            path.write_text("five\n")
            piece, message = 1, "it has become shorter than 14 bytes"
        else:
            WRITERS[path.suffix[1:]](path, table(rows))
        with pytest.raises(InputError) as refused:
            trace.read(piece)
        assert str(refused.value) == f"Trace: {path} can no longer be read as it was ({message})."

    def test_replaced_by_one_without_the_column(self, trace: Trace) -> None:
        path = self.path(trace)
        if path.suffix == ".txt":
            pytest.skip("text has one column")
        WRITERS[path.suffix[1:]](path, table(30).select(["n"]))
        with pytest.raises(InputError, match="can no longer be read"):
            trace.read(0)

    def test_replaced_by_one_with_other_content_is_read_afresh(self, trace: Trace) -> None:
        path = self.path(trace)
        trace.read(0)
        if path.suffix == ".txt":
            path.write_text("One\nTwo\nThree\n")
        else:
            WRITERS[path.suffix[1:]](path, table(30, first=1000))
        changed = trace.read(0).column(1)[0].as_py()
        assert changed in (1000, "One")


class TestNumbers:
    @pytest.mark.parametrize(
        ("seqs", "message"),
        [
            ([1, None, 3], "every tuple wants a 'seq'; 1 of 3 have none"),
            ([1, 1], "'seq' must ascend strictly; row 0 has 1 and the next 1"),
            ([1, 2, 9, 3], "'seq' must ascend strictly; row 2 has 9 and the next 3"),
        ],
    )
    def test_a_seq_that_does_not_ascend(self, tmp_path: Path, seqs: list[int | None], message: str) -> None:
        pq.write_table(pa.table({"seq": pa.array(seqs, pa.int64())}), tmp_path / "x.parquet")
        trace = Trace(tmp_path / "x.parquet")
        with pytest.raises(InputError) as refused:
            trace.read(0)
        assert str(refused.value) == f"Trace: {tmp_path}/x.parquet: {message}."


def test_a_slice_of_a_text_knows_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(("y" * 99 + "\n") * 1000)
    _, slices = look_at(path, "text", rows_per_slice=10)
    assert len(slices) == 100
    assert {part.bytes for part in slices} == {1000}
    read = read_slice(path, "text", slices[50], pa.schema([pa.field("line", pa.string(), nullable=False)]))
    assert read["line"].to_pylist() == ["y" * 99] * 10
