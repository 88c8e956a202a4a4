"""The mains of commands that nothing else runs: each once, small; what it prints and what it leaves behind."""

import json
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.outcomes import outcomes

from spillway.apps import APPS
from spillway.benches.demonstration import Demonstration, Standing
from spillway.cli import demo, doctor
from spillway.cli.main import main
from spillway.papers.af import reproduction
from spillway.papers.af.reproduction import Size
from spillway.protocols.checkpointing import CheckpointMachine
from spillway.protocols.failover import Failover
from spillway.soak import histories
from spillway.spark.java import Java
from spillway.state.folders import claim, default_root, release


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# -- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_run(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "wordcount", "--tuples", "600", "--tuples-per-batch", "2e2", "--protect", "exact"]
    found = told(capsys, *words, "--directory", str(tmp_path / "run"), "--master", "local[2,4]")
    try:
        assert (found["app"], found["batches"], found["last_batch"]) == ("wordcount", 3, 2)
        assert found["directory"] == str(tmp_path / "run")
        (counts,) = found["operators"]
        # Exact: both shards in every batch.
        assert (counts["operator"], counts["backups"], counts["failures"]) == ("counts", 6, 0)
        # The parts of a batch are told, and saving is one of them.
        assert found["where"]["saving_s"] > 0
        assert {"manifest.json", "progress", "output", "backups", "checkpoint"} <= {*os.listdir(tmp_path / "run")}
        # The highest count of each word is the last: how often it stands in the lines.
        output = pq.read_table(tmp_path / "run" / "output").group_by("word").aggregate([("count", "max")])
        made = APPS["wordcount"].generator(seed=1, tuples=600, tuples_per_batch=200)
        lines = [line for piece in range(made.pieces) for line in made.read(piece)["line"].to_pylist()]
        said = dict(zip(output["word"].to_pylist(), output["count_max"].to_pylist(), strict=True))
        assert said == Counter(word for line in lines for word in line.split())
        manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
        assert manifest["ended"] == "finished"
    finally:
        shutil.rmtree(found["state"])


def test_run_tells_options_and_draws_without_spark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, "run", "flows", "--options")["phi"]["meaning"]
    assert main(["run", "flows", "--draw", "--directory", str(tmp_path / "run")]) == 0
    assert "sketch" in capsys.readouterr().out
    assert main(["run", "flows", "--set", "fish=1"]) == 1
    assert "App 'flows' has no option 'fish'; it has " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    # One rate for generator, reader and graph is told once, and given to all.
    assert told(capsys, "run", "ecg", "--options")["samples_per_s"]["default"] == 200.0
    pq.write_table(pa.table({"lead1_mv": [0.1] * 10}), tmp_path / "x.parquet")
    words = ["run", "ecg", "--input", str(tmp_path / "x.parquet"), "--set", "samples_per_s=360", "--draw"]
    assert main([*words, "--directory", str(tmp_path / "run")]) == 0
    assert "QRSDetector" in capsys.readouterr().out


# -- demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_demo(spark: object, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small = Demonstration(
        batches=5,
        packets_per_batch=1_000,
        losses_after=(1, 3),
        warm_up=2,
        flows=500,
        heavy=10,
        heavy_share=0.5,
        phi_bytes=2_000_000,
        theta_bytes=1_000_000.0,
        width=1_024,
    )
    monkeypatch.setattr(demo, "DEMONSTRATION", small)
    found = told(capsys, "demo", "--seed", "3")
    assert found["kept"] is True
    assert [*found] == ["ideal", "nothing", "approximate", "exact", "spark", "seconds", "kept"]
    assert found["ideal"]["error"] == found["exact"]["error"] == found["spark"]["error"] == 0
    assert 0 < found["approximate"]["error"] <= found["approximate"]["bound"] == 1_000_000
    assert found["nothing"]["error"] > found["approximate"]["error"]
    assert found["nothing"]["bound"] is None and found["nothing"]["losses"] == 2
    assert [found[name]["recall"] for name in ("nothing", "approximate", "exact", "spark")] == [0, 1, 1, 1]
    # Both shards in all five batches, and both partitions of Spark's store; approximately, at first and after losses.
    assert found["exact"]["backups"] == found["exact"]["backup_chances"] == found["spark"]["backups"] == 10
    assert (found["approximate"]["backups"], found["approximate"]["backup_chances"]) == (6, 10)
    assert 0 < found["approximate"]["backup_bytes"] < found["exact"]["backup_bytes"]
    assert found["spark"]["backup_bytes"] > 0
    # Of batches 2 to 4 two follow a loss.
    assert all(len(found[name]["batches_s"]) == 1 for name in ("nothing", "approximate", "exact", "spark"))
    assert list(root.iterdir()) == []
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("spillway-demo")]


@pytest.mark.spark
def test_demo_that_fails_leaves_nothing(spark: object, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(standings: list[Standing]) -> None:
        # All four wait for their turn, or are in the middle of a batch.
        if all(standing.batches for standing in standings):
            raise KeyboardInterrupt

    small = Demonstration(batches=50, packets_per_batch=100, flows=50, heavy=5, width=64)
    with pytest.raises(KeyboardInterrupt):
        small.run(1, lambda: spark, show=fail, tell=lambda sentence: None)
    assert list(root.iterdir()) == []
    assert os.listdir(tempfile.gettempdir()) == []


def test_demo_says_whether_promises_were_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, recall, status, said in (
        (9.0, 1.0, 0, "off by 9 B, within its bound of 10 B, and missed no heavy flow"),
        (11.0, 1.0, 1, "off by 11 B, NOT WITHIN its bound of 10 B, and missed no heavy flow"),
        (9.0, 0.5, 1, "within its bound of 10 B, and MISSED SOME HEAVY FLOWS"),
    ):
        monkeypatch.setattr(
            Demonstration,
            "run",
            lambda self, *anything, error=error, recall=recall, **options: outcomes(error, recall=recall),
        )
        assert main(["demo"]) == status
        shown = capsys.readouterr().out
        assert said in " ".join(shown.split()) and "after batches 4 and 9 of 14" in shown
        assert told(capsys, "demo", status=status)["kept"] is (status == 0)


@pytest.mark.parametrize(
    ("batches_s", "said"),
    [
        ((0.1, 0.1), "It was 2 times as fast as Nothing, 2 times as fast as Exact and 5 times as fast as Spark's"),
        ((0.1, 0.3), "It was about as fast as Nothing, about as fast as Exact and 3.3 times as fast as Spark's"),
        ((0.4, 0.8), "It was only 0.38 times as fast as Nothing, only 0.38 times as fast as Exact and about as fast"),
    ],
)
def test_demo_claims_a_speed_only_if_every_batch_shows_it(
    batches_s: tuple[float, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        Demonstration, "run", lambda self, *anything, **options: outcomes(9.0, recall=1.0, batches_s=batches_s)
    )
    assert main(["demo"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


# -- clean ------------------------------------------------------------------------------------------------------------


def test_clean(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, checkpoint in (("over", ""), ("resumable", str(tmp_path))):
        claim(root / name, graph="talkers", checkpoint=checkpoint)
        release(root / name)
    (root / "strange").mkdir()
    claim(root / "living", graph="talkers")
    found = told(capsys, "clean", "--dry-run")
    assert (found["root"], found["removed"], found["dry_run"]) == (str(root), [str(root / "over")], True)
    assert sorted(os.listdir(root)) == ["living", "over", "resumable", "strange"]
    assert main(["clean"]) == 0
    said = capsys.readouterr().out.replace("\n", "")
    assert f"removed: {root / 'over'}".replace(" ", "") in said.replace(" ", "")
    assert "1 folders removed" in said and "3 kept" in said
    assert sorted(os.listdir(root)) == ["living", "resumable", "strange"]
    found = told(capsys, "clean", "--all")
    assert found["removed"] == [str(root / "resumable")]
    assert found["kept"][str(root / "strange")] == "it is not a state folder of ours"
    assert sorted(os.listdir(root)) == ["living", "strange"]


def test_clean_of_a_named_folder_looks_nowhere_else(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (root, tmp_path / "other"):
        claim(place / "over", graph="talkers")
        release(place / "over")
    assert told(capsys, "clean", str(tmp_path / "other"))["removed"] == [str(tmp_path / "other" / "over")]
    assert (root / "over").is_dir()
    assert told(capsys, "clean", str(tmp_path / "none"))["removed"] == []


# -- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "java_found", lambda: Java(fine=True, found="java, Java 17"))
    found = told(capsys, "doctor")
    assert found["fine"] is True
    whats = [finding["what"] for finding in found["findings"]]
    assert {"Python", "pyspark", "pyarrow", "numba", "Memory for state", "Cores"} <= {*whats}
    assert main(["doctor"]) == 0
    assert "All is well." in capsys.readouterr().out
    monkeypatch.setattr(doctor, "_PACKAGES", ("pyarrow", "no-such-package"))
    found = told(capsys, "doctor", status=1)
    (missing,) = (finding for finding in found["findings"] if not finding["fine"])
    assert (missing["what"], missing["found"]) == ("no-such-package", "not installed")
    assert missing["to_do"]
    assert main(["doctor"]) == 1
    assert "Something is missing; see above." in capsys.readouterr().out
    assert list(root.iterdir()) == []


def test_doctor_says_what_sessions_of_ones_own_lack(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "java_found", lambda: Java(fine=True, found="java, Java 17"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    def own_sessions(*words: str, status: int = 0) -> dict[str, Any]:
        (finding,) = (
            one for one in told(capsys, "doctor", *words, status=status)["findings"] if "of your own" in one["what"]
        )
        return finding

    without = own_sessions()
    assert without["found"].startswith("2 of 3 settings for speed are not set")
    assert "spark.python.unix.domain.socket.enabled=true" in without["to_do"] and "40 ms" in without["to_do"]
    conf = tmp_path / "spark-defaults.conf"
    conf.write_text("# ours\n\nspark.python.daemon.module = spillway.spark.daemon\nspark.python.worker.reuse false\n")
    assert own_sessions()["found"].startswith("2 of 3")
    assert "spark.python.worker.reuse=true every task starts" in own_sessions()["to_do"]
    conf.write_text("spark.python.daemon.module\tspillway.spark.daemon\nspark.python.unix.domain.socket.enabled: true")
    assert own_sessions() == {
        "what": "Spark sessions of your own",
        "fine": True,
        "found": f"all that makes batches quick is set in {conf}",
        "to_do": "",
    }
    assert own_sessions("--conf", str(tmp_path / "none"), status=1)["found"] == f"there is no file {tmp_path / 'none'}"


# -- soak -------------------------------------------------------------------------------------------------------------


def test_soak(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "soak", "--schedules", "4", "--seed", "11")
    assert (found["first_seed"], found["schedules"], found["broken"]) == (11, 4, {})
    assert sum(found["operators"].values()) > 0 and sum(found["faults"].values()) > 0
    assert main(["soak", "--schedules", "1", "--seed", "11"]) == 0
    said = capsys.readouterr().out
    assert "1 schedules with " in said and "every promise was kept" in said.replace("\n", " ")
    assert list(root.iterdir()) == []


# -- reproduce --------------------------------------------------------------------------------------------------------

SMALL = Size(
    failures=(0, 1), samples=3, thetas=(1_000.0,), batches=2, tuples_per_batch=200, limits=(50.0,), items=2_000
)


def test_reproduce_theorems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduction, "QUICK", SMALL)
    words = ["reproduce", "af", "--quick", "--only", "theorems", "--directory", str(tmp_path / "run")]
    found = told(capsys, *words)
    names = ["theorem 1: Count-Min with compensation", "theorem 2: ripple join"]
    assert [(check["name"], check["holds"]) for check in found["checks"]] == [(name, True) for name in names]
    assert all([*check] == ["name", "holds", "ours", "paper"] and check["ours"] for check in found["checks"])
    assert (found["quick"], found["seed"], len(found["tables"]["theorems"])) == (True, 1, 2)
    assert {"manifest.json", "theorems.parquet", "report.html"} <= {*os.listdir(tmp_path / "run")}
    assert pq.read_table(tmp_path / "run" / "theorems.parquet").num_rows == 2


@pytest.mark.spark
def test_reproduce_on_spark(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduction, "QUICK", SMALL)
    before = {*default_root().glob("reproduce-*")}
    found = told(capsys, "reproduce", "af", "--quick", "--only", "theta", "--directory", str(tmp_path / "theta"))
    assert [row["theta"] for row in found["tables"]["theta"]] == [1_000.0, None]  # infinite: without backups
    assert all(row["tuples_per_s"] > 0 for row in found["tables"]["theta"])
    assert main(["reproduce", "af", "--quick", "--only", "items", "--directory", str(tmp_path / "items")]) == 0
    assert "holds: receiver: nothing lost without failures" in capsys.readouterr().out
    (row,) = pq.read_table(tmp_path / "items" / "items.parquet").to_pylist()
    assert (row["items"], row["lost"]) == (50.0, 0)
    assert {*default_root().glob("reproduce-*")} <= before


def test_soak_of_histories(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "soak", "--histories", "60", "--seed", "5")
    assert (found["histories"], found["broken"], found["first_seed"]) == (60, {}, 5)
    assert found["moves"] > found["recoveries"] > 0
    monkeypatch.setattr(histories, "counting", lambda backups: [])
    found = told(capsys, "soak", "--histories", "60", "--seed", "5", status=1)
    assert all(story.startswith(f"History {seed}: ") for seed, story in found["broken"].items())
    assert main(["soak", "--histories", "1", "--seed", next(iter(found["broken"]))]) == 1
    assert "1 broke a rule" in capsys.readouterr().out


def test_soak_of_failover(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = told(capsys, "soak", "failover", "--schedules", "300", "--processes", "2")
    assert found["schedules"] == 300 and not found["broken"]
    assert found["crashes"] > 100 and found["failovers"] > 100 and found["lost"]
    monkeypatch.setattr(Failover, "handle", lambda self, event: None)  # nobody ever claims
    assert main(["soak", "failover", "--schedules", "1", "--seed", "4"]) == 1
    said = capsys.readouterr().out
    assert "nothing moves" in said and "spillway soak failover --seed 4 --schedules 1" in said


def test_soak_of_protocols(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "soak", "protocols", "--schedules", "60", "--seed", "5")
    assert (found["schedules"], found["broken"], found["first_seed"]) == (60, {}, 5)
    assert sum(found["shapes"].values()) == 60 and found["failures"] > found["cut_off"] > 0
    monkeypatch.setattr(CheckpointMachine, "_holds_back_too_much", lambda self: False)
    found = told(capsys, "soak", "protocols", "--schedules", "60", "--seed", "5", "--keep-going", status=1)
    assert all(story.startswith(f"Schedule {seed}: Broken: ") for seed, story in found["broken"].items())
    seed = next(iter(found["broken"]))
    assert main(["soak", "protocols", "--schedules", "1", "--seed", seed]) == 1
    said = capsys.readouterr().out
    assert "What happened:" in said and f"spillway soak protocols --seed {seed} --schedules 1" in said
    assert "1 broke a rule" in said


def test_soak_of_jobs_knows_its_protections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soak", "jobs", "--protect", "prayer"]) == 1
    assert "Jobs are killed under exact, coordinated, uncoordinated; --protect was 'p" in capsys.readouterr().err
