"""Every bench runs once, at its smallest: what it prints, what it leaves behind, and that both say the same."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spillway.cli.main import main
from spillway.papers.af.workloads import MODES
from spillway.records.bench import read_bench

STATE = ("state", "--keys", "200,2e3", "--touched", "50", "--batches", "9")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["bench", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ran(capsys: pytest.CaptureFixture[str], directory: Path, *words: str) -> dict[str, Any]:
    """A bench's JSON, which must be what is told again from its folder."""
    found = told(capsys, *words, "--directory", str(directory))
    assert sorted(os.listdir(directory)) == ["manifest.json", "samples.parquet"]
    assert told(capsys, "show", str(directory)) == found
    assert pq.read_table(directory / "samples.parquet").num_rows == len(read_bench(directory).samples) > 0
    assert found["machine"]["packages"]["spillway"]
    assert main(["report", str(directory)]) == 1
    assert f"spillway bench show {directory} tells its figures" in capsys.readouterr().err
    # And for people.
    assert main(["bench", "show", str(directory)]) == 0
    assert f"spillway bench show {directory} tells" in capsys.readouterr().out.replace("\n", " ")
    return found


def test_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = ran(capsys, tmp_path / "state", *STATE)
    assert found["batch_s"].keys() == found["in_the_shard_s"].keys() == {"200", "2000"}
    assert all(0 < found["in_the_shard_s"][keys] < found["batch_s"][keys] for keys in ("200", "2000"))
    assert all(memory > 1 for memory in found["memory_over_raw"].values())
    assert found["settings"] == {"keys": [200, 2000], "touched": 50, "batches": 9, "seed": 1}
    # Nine batches of each table, three of which only warm up; three measures of each.
    samples = read_bench(tmp_path / "state").samples
    assert len(samples) == 9 * 2 * 3
    assert sum(sample.counted for sample in samples) == 6 * 2 * 3


def test_receiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allowed = os.sched_getaffinity(0)
    found = ran(capsys, tmp_path / "receiver", "receiver", "--tuples", "80000", "--rounds", "1")
    assert (found["lost"], found["taken"]) == (0, 90_000)
    assert min(found["items_per_s"].values()) > 0
    assert os.sched_getaffinity(0) == allowed


def test_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("simpy")
    small = (
        "--seconds",
        "4",
        "--repetitions",
        "2",
        "--hours",
        "0.05",
        "--simpy-cpu-s",
        "0.05",
        "--replications",
        "300",
    )
    found = ran(capsys, tmp_path / "model", "model", *small)
    assert found["events_per_s"].keys() == {"line", "checkpoint", "high_availability", "replication"}
    assert len(found["events_per_s_of_every_run"]) == 2
    assert all(ratio > 0 for ratio in found["ratio"].values())
    # Far off means a wrong simulator; one in twenty lies beyond one half-width.
    assert all(off < 3 for off in found["half_widths_off_exact"].values())


@pytest.mark.spark
def test_exact(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--tuples-per-batch", "2000", "--keys", "3000", "--every", "4", "--rounds", "2", "--repetitions", "1")
    systems = ("--systems", "none", "--systems", "coordinated", "--losses", "1")
    found = ran(capsys, tmp_path / "exact", "exact", *size, *systems)
    assert found["batches_again"] == {"coordinated": 3}  # half way between two checkpoints
    assert found["recovery_s"]["coordinated"] != 0
    assert found["ratio"]["coordinated_over_none"] > 0
    assert [len(turn) for turn in found["batches_s"]["coordinated"]] == [8]
    assert found["backup_bytes"]["coordinated"][0] > found["backup_bytes"]["none"][0] == 0


@pytest.mark.spark
def test_replicas(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--tuples-per-batch", "500", "--batches", "2", "--repetitions", "1", "--kills", "0", "--kills-free", "0")
    found = ran(capsys, tmp_path / "replicas", "replicas", *size)
    assert found["tuples_per_s"].keys() == {"none", "group", "replicate"}
    assert found["ratio"].keys() == {"group_over_none", "replicate_over_none"}
    for name in ("group", "replicate"):  # all is kept twice
        assert found["backup_bytes"][name] == 2 * found["backup_bytes"]["none"]


@pytest.mark.spark
def test_protect(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--tuples-per-batch", "300", "--groups", "500", "--batches", "1", "--settle", "0", "--repetitions", "1"]
    found = ran(capsys, tmp_path / "protect", "protect", *size)
    assert set(found["ratio"]) == {
        f"{query}protect_over_{system}"
        for query in ("", "windows_")
        for system in ("protect_exact", "spark_hdfs", "spark_rocksdb", "spark_alone")
    }
    assert len(found["rows_per_s"]) == 10


@pytest.mark.spark
def test_wordcount(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--tuples-per-batch", "500", "--keys", "1000", "--batches", "1", "--repetitions", "1")
    found = ran(
        capsys, tmp_path / "wordcount", "wordcount", *size, "--systems", "approximate", "--systems", "spark_rocksdb"
    )
    assert found["tuples_per_s"].keys() == {"approximate", "spark_rocksdb"}
    assert found["ratio"].keys() == {"approximate_over_spark_rocksdb"}
    assert {name: [len(turn) for turn in turns] for name, turns in found["batches_s"].items()} == {
        "approximate": [1],
        "spark_rocksdb": [1],
    }
    assert found["kernel_tuples_per_s"]["approximate"] > found["tuples_per_s"]["approximate"]
    assert found["limit"]["tuples_per_s"] > 0 and found["limit"]["kernel_over_limit"] > 0


@pytest.mark.spark
def test_batch(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--tuples-per-batch", "50", "--keys", "20", "--batches", "2", "--repetitions", "1")
    found = ran(capsys, tmp_path / "batch", "batch", *size)
    assert {name: [len(turn) for turn in turns] for name, turns in found["batches_s"].items()} == {
        "ours": [2],
        "spark": [2],
    }
    ours, sparks = found["batch_ms"]["ours"], found["batch_ms"]["spark"]
    assert found["ratio"] == {"ours_over_spark": pytest.approx(ours / sparks)}


@pytest.mark.spark
def test_af(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--tuples-per-batch", "200", "--batches", "1", "--repetitions", "1", "--slow-ms", "1")
    found = ran(capsys, tmp_path / "af", "af", "--workload", "wordcount", *size)["workloads"]["wordcount"]
    assert found["tuples_per_batch"] == 200
    slow = [f"{mode}-slow" for mode in MODES[1:]]
    assert [*found["tuples_per_s"]] == [*MODES, *slow]
    assert {"approximate_over_upstream", "approximate-slow_over_upstream-slow", "approximate-slow_over_none"} <= {
        *found["ratio"]
    }
    assert found["paper"]["approximate_over_none"] == pytest.approx(0.979, abs=1e-3)
    # What each mode makes durable is not a matter of speed: two shards, one counted batch.
    backups = {"none": [0], "minibatch": [2], "upstream": [0], "approximate": [0]}
    assert found["backups"] == backups | {f"{mode}-slow": backups[mode] for mode in MODES[1:]}
    items = [mode for mode, written in found["item_bytes"].items() if written[0] > 0]
    assert items == ["minibatch", "upstream", "minibatch-slow", "upstream-slow"]
    # How large its share is of so small a batch is a matter of speed, and of what else the machine does.
    assert found["protecting_share"].keys() == found["tuples_per_s"].keys()
    assert 0 < found["protecting_share"]["minibatch"] < 1


@pytest.mark.spark
def test_hosts(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ("--simulate", "20", "--shards-per-host", "10", "--losses", "1,3", "--tasks", "4,8", "--repetitions", "2")
    found = ran(capsys, tmp_path / "hosts", "hosts", *size)
    assert (found["simulated"]["hosts"], found["simulated"]["shards"]) == (20, 200)
    assert found["simulated"]["changes"]["3 are lost"]["moves"] == 30
    assert 0 < found["records"]["batch_bytes"] < 200_000 and found["records"]["batches_kept"] > 100
    stages, extrapolated = found["stages"], found["stages"].pop("extrapolated")
    assert [*stages] == ["free_s", "pinned_s", "naming_s"]
    assert all([*of_sizes] == ["4", "8"] and min(of_sizes.values()) > 0 for of_sizes in stages.values())
    assert extrapolated["tasks"] == 200
    assert extrapolated["begin_s"] == pytest.approx(stages["free_s"]["8"] / 8 * 200)


def test_one_bench_stands_beside_an_earlier_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, *STATE, "--directory", str(tmp_path / "before"))
    now = told(
        capsys, *STATE, "--seed", "2", "--directory", str(tmp_path / "now"), "--against", str(tmp_path / "before")
    )
    before = {(f["subject"], f["measure"]): f["median"] for f in read_figures(capsys, tmp_path / "before")}
    assert len(now["against"]["changes"]) == len(before) == 6
    for change in now["against"]["changes"]:
        assert change["ratio"] == pytest.approx(change["now"] / before[change["subject"], change["measure"]])
    assert now["against"]["settings"] == {"seed": [2, 1]}
    assert main(["bench", "show", str(tmp_path / "now"), "--against", str(tmp_path / "before")]) == 0
    said = capsys.readouterr().out
    assert "now / before" in said and "Not the same: seed is 2, was 1." in said


def read_figures(capsys: pytest.CaptureFixture[str], directory: Path) -> list[dict[str, Any]]:
    figures: list[dict[str, Any]] = told(capsys, "show", str(directory))["figures"]
    return figures


def test_what_cannot_be_done_is_said_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, *STATE, "--directory", str(tmp_path / "state"))
    file = tmp_path / "state" / "manifest.json"
    for words, said in (
        ([*STATE, "--directory", str(tmp_path / "state")], "holds a run already"),
        (["show", str(tmp_path)], "has no manifest.json"),
        (["model", "--against", str(tmp_path / "state")], "holds a bench 'state'; one of 'model' is wanted"),
        (["model", "--against", str(tmp_path / "none")], "has no manifest.json"),
        (["af", "--workload", "fish"], "there is no workload 'fish'; there are grep, wordcount"),
        (["wordcount", "--words", "rude"], "words is one of uniform, zipf; got 'rude'"),
        (["state", "--keys", ","], "keys must name one at least"),
        (["state", "--directory", "{file}/run"], "cannot be made (Not a directory)"),
        (["hosts", "--simulate", "1"], "simulate is a number of hosts"),
        (["state", "--batches", "0"], "batches must be a whole number, 1 or more; got 0"),
    ):
        assert main(["bench", *(word.replace("{file}", str(file)) for word in words)]) == 1
        assert said in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["state"]


@pytest.mark.parametrize(
    ("bench", "said"),
    [
        ("chairs", "holds a bench 'chairs'; there are af, receiver"),
        ("receiver", "lacks what figures of bench 'receiver' are made of"),
    ],
)
def test_records_that_no_figures_can_be_made_of_are_refused(
    bench: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, *STATE, "--directory", str(tmp_path))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "bench": bench}))
    assert main(["bench", "show", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
