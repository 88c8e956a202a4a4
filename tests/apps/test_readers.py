"""Real files as input of the applications: generated ones always, and true ones where they lie at hand."""

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS, flows, wordcount
from spillway.errors import GraphError, InputError
from spillway.graph import Feed

TEXT = ["It was the best of times,", "it was the worst of times", "", "né in 1859"]
PACKETS: dict[str, Any] = {
    "ts_us": [1, 2, 3],
    "src": pa.array(["a", "b", "a"]).dictionary_encode(),
    "dst": pa.array(["x", "x", "x"], pa.large_string()),
    "length": pa.array([40, 1500, 60], pa.int32()),
}


def read(app: str, path: Path, **options: int) -> Feed:
    return APPS[app].reader(path, **{"tuples_per_batch": 2, **options})


def everything(feed: Feed) -> pa.Table:
    pieces = [feed.read(piece) for piece in range(feed.pieces)]
    assert all(piece.schema == feed.schema for piece in pieces)
    return pa.Table.from_batches(pieces, feed.schema)


class TestText:
    @pytest.mark.parametrize("app", ["grep", "wordcount"])
    @pytest.mark.parametrize("name", ["x.txt", "x.parquet", "x.md", "README"])
    def test_lines_of_any_file(self, tmp_path: Path, app: str, name: str) -> None:
        if name.endswith("parquet"):
            pq.write_table(pa.table({"book": ["b"] * 4, "line_no": range(4), "line": TEXT}), tmp_path / name)
        else:
            (tmp_path / name).write_text("\n".join(TEXT), encoding="utf-8")
        feed = read(app, tmp_path / name)
        assert everything(feed).to_pydict() == {"seq": [0, 1, 2, 3], "line": TEXT}
        assert (feed.pieces, feed.pieces_per_batch) == (4, 2)
        assert pickle.loads(pickle.dumps(feed)).read(3).equals(feed.read(3))

    def test_a_folder(self, tmp_path: Path) -> None:
        for number, line in enumerate(TEXT):
            (tmp_path / f"part-{number}.txt").write_text(line + "\n", encoding="utf-8")
        assert everything(read("grep", tmp_path))["line"].to_pylist() == TEXT

    def test_the_only_text_column_will_do(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"n": [1, 2], "value": ["a", "b"]}), tmp_path / "x.parquet")
        assert everything(read("grep", tmp_path / "x.parquet"))["line"].to_pylist() == ["a", "b"]

    def test_the_numbering_of_a_file_is_kept(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"seq": [5, 9], "line": ["a", "b"]}), tmp_path / "x.parquet")
        assert everything(read("grep", tmp_path / "x.parquet"))["seq"].to_pylist() == [5, 9]

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (
                {"title": ["a"], "text": ["b"]},
                "a text column named 'line' is wanted, or a single one of any name; there are title, text.",
            ),
            (
                {"line": [1], "n": [2]},
                "a text column named 'line' is wanted, or a single one of any name; there is none among seq, line, n.",
            ),
        ],
    )
    def test_no_text_column(self, tmp_path: Path, columns: dict[str, Any], message: str) -> None:
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table(columns), path)
        with pytest.raises(InputError) as refused:
            read("wordcount", path)
        assert str(refused.value) == f"{path}: {message}"

    def test_lines_that_are_null(self, tmp_path: Path) -> None:
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table({"line": ["a", None, "b", None]}), path)
        feed = read("grep", path, tuples_per_batch=8)
        with pytest.raises(InputError) as refused:
            feed.read(0)
        assert str(refused.value) == (
            f"{path}: column 'line' must not be null; it is in 2 rows (seq 1, 3). Drop or fill them first."
        )


class TestPackets:
    def write(self, path: Path, **columns: Any) -> Path:
        pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
        return path

    def test_a_packet_table(self, tmp_path: Path) -> None:
        feed = read("flows", self.write(tmp_path / "x.parquet", **PACKETS))
        assert everything(feed).to_pydict() == {
            "seq": [0, 1, 2], "src": ["a", "b", "a"], "dst": ["x", "x", "x"], "bytes": [40, 1500, 60],
        }  # fmt: skip

    def test_a_table_that_has_bytes_already(self, tmp_path: Path) -> None:
        columns = {
            "seq": [3, 4],
            "src": pa.array([1, 2], pa.uint32()),
            "dst": [7, 8],
            "bytes": [5, 6],
            "length": [0, 0],
        }
        assert everything(read("flows", self.write(tmp_path / "x.parquet", **columns))).to_pydict() == {
            "seq": [3, 4], "src": [1, 2], "dst": [7, 8], "bytes": [5, 6],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"src": None}, "a column 'src' is wanted; there are seq, ts_us, dst, length."),
            ({"length": None}, "a column 'bytes' or 'length' is wanted; there are seq, ts_us, src, dst."),
            ({"dst": [1.0, 2.0, 3.0]}, "column 'dst' must be text or an integer; it is double."),
            ({"length": ["1", "2", "3"]}, "column 'length' must be an integer; it is string."),
        ],
    )
    def test_columns_that_do_not_fit(self, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
        path = self.write(tmp_path / "x.parquet", **{**PACKETS, **changed})
        with pytest.raises(InputError) as refused:
            read("flows", path)
        assert str(refused.value) == f"{path}: {message}"

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (
                {"length": pa.array([1, None, None], pa.int32())},
                "column 'length' must not be null; it is in 2 rows (seq 1, 2). Drop or fill them first.",
            ),
            (
                {"dst": ["x", None, "x"]},
                "column 'dst' must not be null; it is in 1 rows (seq 1). Drop or fill them first.",
            ),
            (
                {"length": pa.array([1, 2**64 - 1, 3], pa.uint64())},
                "column 'length' does not fit (Integer value 18446744073709551615 not in range: "
                "0 to 9223372036854775807).",
            ),
        ],
    )
    def test_values_that_do_not_fit(self, tmp_path: Path, changed: dict[str, Any], message: str) -> None:
        path = self.write(tmp_path / "x.parquet", **{**PACKETS, **changed})
        feed = read("flows", path, tuples_per_batch=10)
        with pytest.raises(InputError) as refused:
            feed.read(0)
        assert str(refused.value) == f"{path}: {message}"

    def test_text_is_no_packet_table(self, tmp_path: Path) -> None:
        (tmp_path / "x.txt").write_text("10.0.0.1 10.0.0.2 40\n")
        with pytest.raises(InputError, match="a column 'src' is wanted; there are seq, line"):
            read("flows", tmp_path / "x.txt")


@pytest.mark.parametrize("app", APPS)
class TestEveryReader:
    def test_a_path_that_is_not_there(self, tmp_path: Path, app: str) -> None:
        with pytest.raises(InputError, match="Trace: there is no file or folder"):
            read(app, tmp_path / "x.parquet")

    @pytest.mark.parametrize("options", [{"tuples_per_batch": 0}, {"pieces_per_batch": 1.5}])
    def test_batches_of_a_whole_number(self, tmp_path: Path, app: str, options: dict[str, Any]) -> None:
        with pytest.raises(GraphError, match=f"App '{app}': .* must be a whole number, 1 or more; got"):
            read(app, tmp_path, **options)


def test_what_was_generated_can_be_written_and_read(tmp_path: Path) -> None:
    made = APPS["flows"].generator(seed=3, tuples=1_000, tuples_per_batch=100)
    pq.write_table(everything(made), tmp_path / "x.parquet", row_group_size=130)
    assert everything(read("flows", tmp_path / "x.parquet", tuples_per_batch=77)).equals(everything(made))


REAL = Path(os.environ.get("SPILLWAY_REAL_DATA", ""))


@pytest.mark.skipif("SPILLWAY_REAL_DATA" not in os.environ, reason="SPILLWAY_REAL_DATA names no folder of real data")
class TestRealData:
    def run(self, app: str, feed: Feed, **options: Any) -> pa.Table:
        with running(APPS[app].build(feed, protect=sw.Approximate(1000.0), **options)) as run:
            while True:
                if run.batch in (2, 3, 5):
                    run.wipe()
                if not run.step():
                    return run.result("out")

    def test_grep_in_novels(self) -> None:
        feed = read("grep", REAL / "novels.parquet", tuples_per_batch=10_000)
        out = self.run("grep", feed, pattern=r"\blove\b")
        whole = pq.read_table(REAL / "novels.parquet", columns=["line"])["line"].to_pylist()
        spaced = ["".join(c if c.isalnum() or c == "_" else " " for c in line) for line in whole]
        assert out["seq"].to_pylist() == [seq for seq, line in enumerate(spaced) if " love " in f" {line} "]

    def test_words_of_novels(self) -> None:
        feed = read("wordcount", REAL / "novels.parquet", tuples_per_batch=10_000)
        exact = wordcount.exact_counts(feed)
        counts = wordcount.latest_counts(self.run("wordcount", feed))
        assert 0 < wordcount.error_max(counts, exact) <= 1000
        slow: Counter[str] = Counter()
        for line in pq.read_table(REAL / "novels.parquet", columns=["line"])["line"].to_pylist():
            slow.update("".join(c if c.isalnum() else " " for c in line.lower()).split())
        assert dict(zip(exact["word"].to_pylist(), exact["count"].to_pylist(), strict=True)) == dict(slow)

    def test_flows_of_packets(self) -> None:
        phi = 100_000
        feed = read("flows", REAL / "packets_iot.parquet", tuples_per_batch=20_000)
        found = flows.score(self.run("flows", feed, phi=phi), flows.exact_bytes(feed), phi=phi)
        assert found.actual > 50
        assert found.recall == 1.0 and found.too_low_bytes_max == 0
        assert found.precision > 0.9
        whole = pq.read_table(REAL / "packets_iot.parquet", columns=["length"])["length"].to_numpy()
        assert np.sum(flows.exact_bytes(feed)["bytes"].to_numpy()) == whole.sum()
