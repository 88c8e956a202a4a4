"""Two tables compared on Spark: as in memory, wherever they come from and however they are cut."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import spillway as sw
from spillway.cli.main import main
from spillway.errors import InputError
from spillway.score import Reliability, compare
from spillway.seeds import generator
from spillway.spark import verifying
from spillway.spark.verifying_ranges import ByNumber, cuts

pytestmark = pytest.mark.spark


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_ROWS_PER_RANGE", 25)


def outputs(seed: int, *, rows: int = 300, orderly: bool = False) -> tuple[pa.Table, pa.Table]:
    """An ideal table, and one in which tuples are lost, altered, repeated, made up, late and out of order."""
    draw = generator(seed, "verifying")
    seq = np.sort(draw.choice(rows * 2, rows, replace=orderly))
    ideal = pa.table(
        {
            "seq": pa.array(seq, pa.int64()),
            "word": pa.array(draw.choice(["a", "b", "é", None], rows), pa.string()),
            "value": pa.array(draw.choice([0.0, -0.0, 1.5, np.nan], rows), mask=draw.random(rows) < 0.1),
            "many": pa.array([[int(n)] * (int(n) % 3) for n in seq], pa.list_(pa.int64())),
            "came": pa.array(seq * 1000 + draw.integers(0, 3, rows), pa.timestamp("us")),
            "side": pa.array(draw.choice(["left", "right", "between", None], rows), pa.string()),
        }
    )
    kept = np.flatnonzero(draw.random(rows) > 0.05)
    again = draw.choice(rows, 0 if orderly else 10)
    real = ideal.take(pa.array(draw.permutation(np.concatenate([kept, again]))))
    late = draw.integers(0, 2 if orderly else 5000, real.num_rows)
    came = np.asarray(real["came"].cast(pa.int64())) + late
    words = [None if draw.random() < 0.05 else word for word in real["word"].to_pylist()]
    real = real.set_column(4, "came", pa.array(came, pa.timestamp("us")))
    return ideal, real.set_column(1, "word", pa.array(words, pa.string())).select([5, 3, 1, 0, 4, 2])


def alike(one: Reliability, other: Reliability) -> bool:
    """But for which tuples show that streams crossed, of which there are many choices."""

    def without(found: Reliability) -> Reliability:
        return replace(found, witnesses=tuple(each for each in found.witnesses if each.kind != "crossed"))

    kinds = [{each.kind for each in found.witnesses} for found in (one, other)]
    return kinds[0] == kinds[1] and without(one) == without(other)


@pytest.mark.parametrize("seed", range(3))
def test_as_in_memory(spark: Any, tmp_path: Path, small_ranges: None, seed: int) -> None:
    ideal, real = outputs(seed, orderly=seed == 2)
    for name, table in (("ideal", ideal), ("real", real)):
        (tmp_path / name).mkdir()
        for part in range(3):
            pq.write_table(table.slice(part * 100, 100 if part < 2 else None), tmp_path / name / f"{part}.parquet")
    options: dict[str, Any] = {"time": "came", "stream": "side", "witnesses": 4}
    found = sw.verify(tmp_path / "ideal", tmp_path / "real", spark, **options)
    assert alike(found, compare(ideal, real, **options))
    assert found.lost_tuples and found.witnesses
    options["stream"] = None
    assert sw.verify(tmp_path / "ideal", tmp_path / "real", spark, **options) == compare(ideal, real, **options)


def test_every_format_is_read_alike(spark: Any, tmp_path: Path) -> None:
    ideal = pa.table({"seq": [1, 2, 3], "n": [1, None, 3], "word": ["a", "b,c", None], "t": [0.5, 1.0, 1.5]})
    real = pa.table({"t": [0.5, 1.0, 2.5], "word": ["a", "b,c", None], "n": [1, None, 4], "seq": [1, 2, 3]})
    paths = {form: tmp_path / f"real.{form}" for form in ("parquet", "arrow", "csv", "jsonl")}
    pq.write_table(ideal, tmp_path / "ideal.parquet")
    pq.write_table(real, paths["parquet"])
    pyarrow.feather.write_feather(real, str(paths["arrow"]))
    pyarrow.csv.write_csv(real, paths["csv"])
    paths["jsonl"].write_text("".join(json.dumps(row) + "\n" for row in real.to_pylist()))
    wanted = compare(ideal, real, time="t")
    assert wanted.altered_tuples == 1
    for path in paths.values():
        assert sw.verify(tmp_path / "ideal.parquet", path, spark, time="t") == wanted, path
    frame = spark.read.parquet(str(paths["parquet"]))
    assert sw.verify(str(tmp_path / "ideal.parquet"), frame, spark, time="t") == wanted


def test_what_our_own_sink_wrote(spark: Any, tmp_path: Path) -> None:
    """One folder for each batch: in which batch a tuple came is not compared, and hidden folders are not read."""
    for name, batches in (("ideal", [[1, 2], [3]]), ("real", [[1], [2, 3]])):
        for number, seqs in enumerate(batches):
            folder = tmp_path / name / f"batch={number}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"seq": pa.array(seqs, pa.int64())}), folder / "part-00000.parquet")
        (tmp_path / name / ".batch=9.parts").mkdir()
        (tmp_path / name / ".batch=9.parts" / "torn.parquet").write_bytes(b"PAR1")
    assert sw.verify(tmp_path / "ideal", tmp_path / "real", spark).lossless


def test_empty_tables(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"seq": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    assert sw.verify(tmp_path / "none.parquet", tmp_path / "none.parquet", spark).lossless


def test_what_cannot_be_read_or_compared_is_told(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"seq": [1], "word": ["a"]}), tmp_path / "ideal.parquet")
    pq.write_table(pa.table({"seq": [1]}), tmp_path / "real.parquet")
    (tmp_path / "bad.csv").write_text("seq,word\nx,a\n")
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 torn")
    (tmp_path / "folder").mkdir()
    for real, said in [
        ("real.parquet", "the real table lacks column 'word'"),
        ("nowhere.parquet", "there is no file or folder"),
        ("folder", "holds no file of .parquet"),
        ("torn.parquet", "The real table cannot be read"),
    ]:
        with pytest.raises(InputError, match=said):
            sw.verify(tmp_path / "ideal.parquet", tmp_path / real, spark)
    with pytest.raises(sw.SpillwayError, match="cannot be compared"):
        sw.verify(tmp_path / "ideal.parquet", tmp_path / "bad.csv", spark)


def test_the_command(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ideal = pa.table({"seq": [1, 2, 3], "t": [0.0, 1.0, 2.0]})
    pq.write_table(ideal, tmp_path / "ideal.parquet")
    pq.write_table(ideal.slice(0, 2).set_column(1, "t", pa.array([0.0, 3.0])), tmp_path / "real.parquet")
    words = ["verify", str(tmp_path / "ideal.parquet"), str(tmp_path / "real.parquet"), "--time", "t"]
    assert main([*words, "--json", "--delay", "2s", "--order", "stream"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["held"], told["lost_tuples"], told["delay_tightest_s"]) == (True, 1, 2.0)
    assert {name: level["holds"] for name, level in told["levels"].items()} == {
        "LILO": True, "LOLE": False, "LIDE": True, "DEFR": False, "IASO": True, "IESO": True,
    }  # fmt: skip
    assert main([*words, "--lossless", "--delay", "1500ms"]) == 1
    shown = capsys.readouterr().out
    assert "Tuple 3 did not come." in shown
    assert "The latest correct tuple came 2 s late; 1.5 s are allowed." in shown
    assert "Not lossless: of 3 tuples 1 is lost" in shown


def test_keys_are_cut_into_parts_that_follow_each_other() -> None:
    draw = generator(5, "cuts")
    rows = [(str(name), int(seq)) for name, seq in zip(draw.choice(["", "a", "b", "c"], 500), draw.integers(0, 40, 500),
                                                       strict=True)]  # fmt: skip
    batch = pa.RecordBatch.from_pydict({"s": [name or None for name, _ in rows], "seq": [seq for _, seq in rows]})
    keys = [((bool(name), name), seq) for name, seq in rows]
    found = tuple(cuts([(key, 1.0) for key in keys], parts=7))
    places = ByNumber(key=(), tasks=len(found) + 1, seq="seq", stream="s", cuts=found).places(batch)
    assert places.tolist() == [sum(cut <= key for cut in found) for key in keys]
    assert np.bincount(places, minlength=7).min() > 30
