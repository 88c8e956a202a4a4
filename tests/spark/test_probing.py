"""What hosts answer about backups, judged without a cluster: tests/spark/test_cluster.py has one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.certificates import Authority

from spillway.clock import ManualClock
from spillway.errors import RunError
from spillway.files.folders import LocalFolder
from spillway.spark import asking, probing
from spillway.spark.hosts import hosts_seen
from spillway.spark.probing import Seen, _Answer, _answer, _judged, _Shared, check_seen, probe

NONCE = "probe-1"


def folders(*places: Path | str) -> list[_Shared]:
    """Those that all must reach, that of the backups first."""
    return [_Shared(place=str(place), backups=not index) for index, place in enumerate(places)]


def answer(backups: Path | str, root: Path) -> _Answer:
    return _answer("h", folders=folders(backups), root=str(root), nonce=NONCE)


def test_a_host_that_reads_and_writes_has_no_trouble(tmp_path: Path) -> None:
    LocalFolder(tmp_path / "b").write(NONCE, NONCE.encode())
    told = answer(tmp_path / "b", tmp_path / "m")
    assert (told.host, told.trouble) == ("h", "")
    assert _judged(told, folders(tmp_path / "b"), NONCE) == Seen(memory_id=told.memory_id)


def test_a_host_that_does_not_find_the_drivers_file_writes_nothing(tmp_path: Path) -> None:
    told = answer(tmp_path / "b", tmp_path / "m")
    assert not (tmp_path / "b").exists()
    seen = _judged(told, folders(tmp_path / "b"), NONCE)
    assert not seen.sees_backups
    assert seen.memory_id
    assert seen.trouble.startswith(f"Host h cannot read what the driver put into the backups folder {tmp_path / 'b'} (")


@pytest.mark.parametrize("backups", ["nowhere://bucket/run", "memory://probed"])
def test_a_host_that_knows_no_such_folder_says_so(backups: str, tmp_path: Path) -> None:
    told = answer(backups, tmp_path / "m")
    assert told.trouble.startswith(f"cannot read what the driver put into the backups folder {backups} (")


def test_a_folder_that_can_only_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LocalFolder(tmp_path).write(NONCE, NONCE.encode())

    def refuse(self: LocalFolder, name: str, data: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFolder, "write", refuse)
    told = answer(tmp_path, tmp_path / "m")
    assert told.trouble == (
        f"can read the backups folder {tmp_path} and cannot write into it (Permission denied). Name a folder that all "
        f"hosts can reach with backups=."
    )


def test_a_file_that_does_not_reach_the_driver_is_told(tmp_path: Path) -> None:
    wrote = _Answer(host="h", memory_id="m", wrote=f"{NONCE}-7")
    missing = _judged(wrote, folders(tmp_path), NONCE)
    assert missing.trouble.startswith(f"Host h wrote into the backups folder {tmp_path} and the driver does not find")
    (tmp_path / f"{NONCE}-7").write_text("another")
    assert "it is another file" in _judged(wrote, folders(tmp_path), NONCE).trouble


def test_every_folder_must_be_reached(tmp_path: Path) -> None:
    done: list[str] = []
    LocalFolder(tmp_path / "b").write(NONCE, NONCE.encode())
    both, root = folders(tmp_path / "b", tmp_path / "out"), str(tmp_path / "m")
    told = _answer("h", folders=both, root=root, nonce=NONCE, then=lambda: done.append("done"))
    assert told.trouble.startswith(f"cannot read what the driver put into the folder {tmp_path / 'out'}, which is wri")
    assert told.trouble.endswith("Name a folder that all hosts can reach.")
    assert done == []
    LocalFolder(tmp_path / "out").write(NONCE, NONCE.encode())
    told = _answer("h", folders=both, root=root, nonce=NONCE, then=lambda: done.append("done"))
    assert _judged(told, both, NONCE) == Seen(memory_id=told.memory_id)
    assert done == ["done"]
    (tmp_path / "out" / told.wrote).unlink()
    assert "the driver does not find it there" in _judged(told, both, NONCE).trouble


def test_a_host_without_memory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = answer(tmp_path, tmp_path / "file")
    assert told.trouble.startswith("has no memory: ")
    assert not _judged(told, folders(tmp_path), NONCE).sees_backups


def test_a_host_that_could_not_hand_memory_over_is_told(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    tls = authority.tls(authority.signs("other", hosts=("DNS:other",)))
    told = _answer("h", folders=[], root=str(tmp_path / "m"), nonce=NONCE, tls=tls)
    assert (
        told.trouble.startswith("cannot hand memory over. TLS: hosts would not believe each other") and told.memory_id
    )
    assert _answer("other", folders=[], root=str(tmp_path / "m"), nonce=NONCE, tls=tls).trouble == ""


def test_trouble_is_refused_in_one_sentence_and_the_rest_counted() -> None:
    check_seen({"a": Seen(memory_id="1")})
    seen = {"b": Seen(memory_id="", trouble="Host b is silent."), "a": Seen(memory_id="1", trouble="Host a is blind.")}
    with pytest.raises(RunError, match=r"^Host a is blind\. \(1 other hosts? ha"):
        check_seen(seen)


@pytest.mark.spark
def test_in_local_mode_the_driver_is_the_one_host(spark: Any, tmp_path: Path) -> None:
    (host,) = hosts_seen(spark.sparkContext)
    seen = probe(spark, backups=str(tmp_path / "backups"), root=tmp_path / "memory")
    assert seen == {host: Seen(memory_id=probing.memory_id(tmp_path / "memory"))}
    assert [*(tmp_path / "backups").iterdir()] == []


def fail(*arguments: Any, **options: Any) -> None:
    raise ModuleNotFoundError("No module named 'spillway'")


@pytest.mark.spark
def test_why_tasks_fail_is_told(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_answer", fail)
    (seen,) = probe(spark, backups=None).values()
    assert "did not answer in 4 attempts. Spark said: ModuleNotFoundError: No module named 'spillway'" in seen.trouble


@pytest.mark.spark
def test_backups_that_the_driver_cannot_write_are_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"The driver cannot write into the backups folder .*/file/b \(File exists"):
        probe(spark, backups=str(tmp_path / "file" / "b"))


class _Busy:
    """Answers for the wanted host only in a later round, as if others took its tasks until then."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, spark: Any, hosts: list[str], ask: Any, seconds_max: float) -> tuple[list[tuple[str, Any]], str]:
        self.rounds -= 1
        return [("other" if self.rounds else hosts[0], "answer")], ""


def ask_busy(monkeypatch: pytest.MonkeyPatch, busy: _Busy, *, seen: set[str]) -> asking.Answers:
    clock = ManualClock()
    monkeypatch.setattr(asking, "_asked", busy)
    monkeypatch.setattr(asking, "hosts_seen", lambda context: frozenset(seen))
    spark: Any = SimpleNamespace(sparkContext=None)
    return asking.ask_hosts(spark, ["h"], lambda host: None, seconds_max=5.0, clock=clock, pause=clock.advance)


def test_a_host_whose_tasks_others_take_is_asked_as_long_as_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask_busy(monkeypatch, _Busy(20), seen={"h"}).of == {"h": "answer"}
    late = ask_busy(monkeypatch, _Busy(1_000), seen={"h"})
    assert late.of == {} and late.silent.startswith("did not answer within 5 s.")


def test_a_host_that_is_gone_is_asked_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = _Busy(1_000)
    gone = ask_busy(monkeypatch, busy, seen={"other"})
    assert gone.silent.startswith("did not answer in 4 attempts.") and busy.rounds == 996
