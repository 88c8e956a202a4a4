"""What commands leave in memory, what they say of it, and what ``clean`` removes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from spillway.cli import clean, doctor, kept
from spillway.cli.main import main
from spillway.records.figures import size
from spillway.state import folders
from spillway.state.folders import claim, found_folders, kept_memory, look_at, make_temporary, release

ROOT = Path(__file__).parents[2]


def stopped(folder: Path, *, checkpoint: str = "", count_bytes: int = 0) -> Path:
    """A state folder whose run has ended."""
    claim(folder, graph="talkers", checkpoint=checkpoint)
    (folder / "talkers").mkdir()
    (folder / "talkers" / "live").write_bytes(b"x" * count_bytes)
    release(folder)
    return folder


def cleaned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["clean", "--json", *words]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


# -- clean ------------------------------------------------------------------------------------------------------------


def test_what_can_resume_stays_and_the_rest_goes(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resumable = stopped(root / "resumable", checkpoint=str(tmp_path))
    elsewhere = stopped(root / "elsewhere", checkpoint="s3://bucket/checkpoint")
    over = stopped(root / "over", checkpoint=str(tmp_path / "gone"))
    temporary = stopped(root / "temporary")
    claim(root / "running", graph="talkers")
    told = cleaned(capsys)
    assert {*told["removed"]} == {str(over), str(temporary)}
    assert {*told["kept"]} == {str(resumable), str(elsewhere), str(root / "running")}
    assert {*cleaned(capsys, "--all")["removed"]} == {str(resumable), str(elsewhere)}
    assert [path.name for path in root.iterdir()] == ["running"]


def test_checkpoints_nobody_named_go_with_their_process(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Path(tempfile.gettempdir())
    for name, living in (("dead", False), ("living", True)):
        folder = place / f"{folders.TEMPORARY_CHECKPOINT}{name}"
        claim(folder, graph="talkers")
        if not living:
            release(folder)
    (place / f"{folders.TEMPORARY_CHECKPOINT}strange").mkdir()
    told = cleaned(capsys)
    assert [Path(path).name for path in told["removed"]] == [f"{folders.TEMPORARY_CHECKPOINT}dead"]
    assert cleaned(capsys, str(root))["kept"] == {}


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        (
            "schedule-",
            "from spillway.soak import schedules, world\nworld.World.attempt = strike\nschedules.run_schedule(3)",
        ),
        (
            "demo-",
            "from spillway.benches import demonstration\n"
            "from spillway.cli import demo\n"
            "demonstration.run = strike\n"
            "demo.session = lambda: None\n"  # what would use it is struck
            "demo.main(type('Options', (), {'seed': 1, 'json': True}))",
        ),
    ],
    ids=["soak", "demo"],
)
def test_folders_of_commands_that_were_killed_are_known_for_what_they_are(
    kind: str, script: str, tmp_path: Path
) -> None:
    text = "import os, signal\ndef strike(*anything, **options):\n    os.kill(os.getpid(), signal.SIGKILL)\n" + script
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # what it keeps elsewhere than in memory stays behind as well
    process = subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == -9, errors.decode()[-2000:]
    left = [found for found in found_folders(folders.default_root()) if found.path.name.startswith(kind)]
    mine = [found for found in left if found.owner is not None and found.owner.pid == process.pid]
    assert len(mine) == 1, f"nobody knows whose {[found.path for found in left]} are"
    assert not mine[0].in_use
    assert clean._reason_to_keep(mine[0], drop_stopped=False) == ""
    shutil.rmtree(mine[0].path)  # only this one: others on this machine are none of our business


# -- how much ---------------------------------------------------------------------------------------------------------


def test_memory_that_nobody_uses_is_added_up(root: Path, tmp_path: Path) -> None:
    stopped(root / "a", checkpoint=str(tmp_path), count_bytes=3000)
    stopped(root / "b", count_bytes=5000)
    claim(root / "running", graph="talkers")
    (root / "strange").mkdir()
    found = kept_memory(root)
    assert found.folders == 2
    assert 8000 <= found.bytes < 9000
    assert found.free_bytes > 0
    assert kept_memory(tmp_path / "none").folders == 0


@pytest.mark.parametrize(
    ("count_bytes", "free_bytes", "much"),
    [(10, 100, False), (26, 100, True), (10**9 - 1, 10**12, False), (10**9 + 1, 10**12, True), (0, 0, False)],
)
def test_much_is_a_quarter_of_what_is_free_or_a_gigabyte(count_bytes: int, free_bytes: int, much: bool) -> None:
    found = folders.Kept(root=Path("/x"), folders=1, bytes=count_bytes, free_bytes=free_bytes)
    assert found.much is much


def test_a_run_is_told_what_it_keeps_and_offered_clean_when_it_is_much(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = stopped(root / "a", checkpoint=str(tmp_path), count_bytes=30_000)
    held = size(look_at(state).bytes)  # with the note of whose it is
    assert held.startswith("30.")
    assert kept.sentences(state) == [f"Its state stays in memory, {held} in {state}, so that it can resume."]
    monkeypatch.setattr(folders, "MUCH_BYTES", 20_000)
    _, offered = kept.sentences(state)
    assert offered.startswith(f"Stopped runs keep {held} in {root} in all (1 folder, ")
    assert "'spillway clean' removes what cannot resume, 'spillway clean --all' everything" in offered
    assert kept.sentences(root / "none") == [offered]


def test_doctor_tells_of_it_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(root / "a", count_bytes=30_000)
    held = size(look_at(root / "a").bytes)
    assert doctor._kept().found.startswith(f"{held} in {root} in all (1 folder, ")
    assert doctor._kept().to_do == ""
    monkeypatch.setattr(folders, "MUCH_BYTES", 20_000)
    assert "spillway clean" in doctor._kept().to_do
    assert doctor._kept().fine


def test_a_temporary_folder_has_an_owner_from_the_start(root: Path) -> None:
    folder = make_temporary("bench-", graph="bench")
    assert folder.parent == root
    (found,) = found_folders(root)
    assert found.in_use
    assert found.owner is not None
    assert (found.owner.graph, found.owner.pid) == ("bench", os.getpid())


# -- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_a_run_says_what_it_keeps_and_resumed_that_it_had_finished(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "run",
        "wordcount",
        "--tuples",
        "2000",
        "--tuples-per-batch",
        "1000",
        "--directory",
        str(tmp_path / "run"),
    ]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "Its state stays in memory, " in told
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "wordcount: nothing left to read: the run in " in told
    assert "keeps state" not in told
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["batches"], told["last_batch"]) == (0, 1)
    assert Path(told["state"]).is_dir()
    assert told["state_bytes"] > 0
    shutil.rmtree(told["state"])
