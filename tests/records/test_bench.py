"""The run directory of a bench is read as it was written, or refused in one sentence."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.errors import RunError
from spillway.records.bench import BenchRecords, Sample, read_bench, recorded

SAMPLES = (
    Sample(subject="a", measure="batch_s", value=9.0, counted=False),
    Sample(subject="a", measure="batch_s", value=0.5, turn=0, number=1),
    Sample(subject="b", measure="batch_s", value=0.25, turn=0),
    Sample(subject="a", measure="batch_s", value=0.75, turn=1),
    Sample(subject="a", measure="backups", value=3.0, turn=1),
)


def made() -> BenchRecords:
    return recorded("state", settings={"keys": (1, 2), "seed": 1}, samples=SAMPLES, about={"java": "17"}, seconds=2.5)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made().write(tmp_path / "run")
    assert read_bench(tmp_path / "run") == made()
    assert pq.read_table(tmp_path / "run" / "samples.parquet").num_rows == len(SAMPLES)  # raw: one row each
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert (manifest["format"], manifest["kind"], manifest["ended"]) == (1, "bench", "finished")
    assert {"python", "packages", "cores"} <= manifest["machine"].keys()


def test_no_samples_at_all_are_read_too(tmp_path: Path) -> None:
    empty = recorded("state", settings={}, samples=(), about={}, seconds=0.0)
    empty.write(tmp_path)
    assert read_bench(tmp_path).samples == ()


def test_samples_are_found_by_what_they_measure() -> None:
    records = made()
    assert records.values("a", "batch_s") == [0.5, 0.75]
    assert records.values("a", "batch_s", turn=1) == [0.75]
    assert records.turns("a", "batch_s") == [[0.5], [0.75]]
    assert records.subjects("batch_s") == ["a", "b"]
    assert records.values("c", "batch_s") == []


def test_a_directory_that_holds_a_run_is_left_alone(tmp_path: Path) -> None:
    made().write(tmp_path)
    before = (tmp_path / "samples.parquet").read_bytes()
    with pytest.raises(RunError, match="holds a run already"):
        recorded("model", settings={}, samples=(), about={}, seconds=0.0).write(tmp_path)
    assert (tmp_path / "samples.parquet").read_bytes() == before
    assert read_bench(tmp_path).bench == "state"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "model"}, "holds a 'model', not a bench"),
        ({"format": 0}, "a bench of format 0; this version reads 1"),
        ({"format": 99}, "written by a newer Spillway"),
        ({"settings": None}, "cannot be read as a bench"),
    ],
)
def test_another_manifest_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    made().write(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(RunError, match=said):
        read_bench(tmp_path)


def test_samples_that_are_damaged_or_missing_are_refused(tmp_path: Path) -> None:
    made().write(tmp_path)
    pq.write_table(pa.table({"subject": ["a"]}), tmp_path / "samples.parquet")
    with pytest.raises(RunError, match="cannot be read as a bench"):
        read_bench(tmp_path)
    (tmp_path / "samples.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(RunError, match="cannot be read as a bench"):
        read_bench(tmp_path)
    (tmp_path / "samples.parquet").unlink()
    with pytest.raises(RunError, match="cannot be read as a bench"):
        read_bench(tmp_path)
