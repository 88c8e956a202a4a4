"""Whose a state folder is."""

import json
import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.files.full_disk import files_no_larger_than
from tests.state import processes

from spillway.errors import StateMemoryError
from spillway.state import folders
from spillway.state.folders import claim, default_root, found_folders, look_at, memory_id, release, wipe


def test_a_claimed_folder_is_ours(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    claim(folder, graph="talkers", checkpoint=str(tmp_path))
    found = look_at(folder)
    assert found.owner is not None
    assert (found.owner.graph, found.owner.pid, found.in_use, found.can_resume) == ("talkers", os.getpid(), True, True)
    claim(folder, graph="talkers")  # again, by the same process
    assert not look_at(folder).can_resume


def test_a_folder_another_living_process_uses_is_refused(tmp_path: Path) -> None:
    def hold(say: processes.Say, hear: processes.Hear) -> None:
        claim(tmp_path, graph="talkers")
        say(b".")
        hear()

    holder = processes.start(hold)
    assert holder.hear() == b"."
    said = (tmp_path / "owner.json").read_text()
    with pytest.raises(StateMemoryError, match=rf"in use by process {holder.pid}, which runs graph 'talkers'"):
        claim(tmp_path, graph="other")
    assert (tmp_path / "owner.json").read_text() == said
    holder.kill()
    assert not look_at(tmp_path).in_use
    claim(tmp_path, graph="other")


def test_of_two_who_claim_at_the_same_moment_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def claims(say: processes.Say, hear: processes.Hear) -> None:
        def look(folder: Path) -> None:
            say(b"l")  # nobody has it
            hear()

        monkeypatch.setattr(folders, "other_user", look)
        claim(tmp_path, graph="first")
        say(b"c")
        hear()

    def comes_second(say: processes.Say, hear: processes.Hear) -> None:
        try:
            claim(tmp_path, graph="second")
            say(b"c")
        except StateMemoryError:
            say(b"r")
        hear()

    first = processes.start(claims)
    assert first.hear() == b"l"
    second = processes.start(comes_second)
    while not (select.select([second.heard], [], [], 0)[0] or waits_for_a_lock(second.pid)):
        pass
    first.tell()
    assert (first.hear(), second.hear()) == (b"c", b"r")
    first.kill()
    second.kill()


def waits_for_a_lock(pid: int) -> bool:
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_process_number_used_again_is_told_apart(tmp_path: Path) -> None:
    claim(tmp_path, graph="talkers")
    owner = json.loads((tmp_path / "owner.json").read_text())
    (tmp_path / "owner.json").write_text(json.dumps(owner | {"pid_started": owner["pid_started"] - 1}))
    assert not look_at(tmp_path).in_use


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"graph": "g"}', '"text"'])
def test_an_owner_that_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text(text)
    found = look_at(tmp_path)
    assert (found.owner, found.in_use, found.can_resume) == (None, False, False)


def test_folders_are_found_with_their_size(tmp_path: Path) -> None:
    assert found_folders(tmp_path / "none") == []
    (tmp_path / "b" / "shard").mkdir(parents=True)
    (tmp_path / "b" / "shard" / "live").write_bytes(b"x" * 1000)
    (tmp_path / "a").mkdir()
    (tmp_path / "file").touch()
    assert [(found.path.name, found.bytes) for found in found_folders(tmp_path)] == [("a", 0), ("b", 1000)]


def test_files_may_go_while_we_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stays").write_bytes(b"x" * 10)
    (tmp_path / "goes").write_bytes(b"x" * 10)
    stat = os.stat

    def stat_late(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path).endswith("goes"):
            raise FileNotFoundError(path)
        return stat(path, *arguments, **options)

    monkeypatch.setattr(folders.os, "stat", stat_late)
    assert look_at(tmp_path).bytes == 10


def test_wiping_loses_shards_and_keeps_the_claim(tmp_path: Path) -> None:
    claim(tmp_path, graph="talkers")
    (tmp_path / "talkers" / "0000").mkdir(parents=True)
    wipe(tmp_path)
    wipe(tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["owner.json"]
    assert look_at(tmp_path).in_use


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateMemoryError, match="cannot be used"):
        claim(tmp_path / "file", graph="talkers")


def test_the_default_root_is_this_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPILLWAY_MEMORY", raising=False)
    assert default_root().name == f"spillway-{os.getuid()}"


def test_the_default_root_can_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPILLWAY_MEMORY", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.setenv("SPILLWAY_MEMORY", "memory")
    with pytest.raises(StateMemoryError, match=r"SPILLWAY_MEMORY .* must be an absolute path; it is 'memory'"):
        default_root()


def test_a_memory_keeps_its_id_until_it_is_lost(tmp_path: Path) -> None:
    first = memory_id(tmp_path / "one")
    assert memory_id(tmp_path / "one") == first
    assert memory_id(tmp_path / "other") != first
    wipe(tmp_path / "one")
    assert memory_id(tmp_path / "one") != first


def test_a_memory_on_a_disk_has_another_id_after_the_machine_was_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = memory_id(tmp_path)
    monkeypatch.setattr(folders, "this_boot", lambda: 1)
    second = memory_id(tmp_path)
    assert second != first
    assert memory_id(tmp_path) == second


def test_of_two_who_ask_for_the_id_at_the_same_moment_the_first_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, given = folders._alone, []

    @contextmanager
    def alone_after_another(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(folders, "_alone", alone)
        given.append(memory_id(folder))
        with alone(folder):
            yield

    monkeypatch.setattr(folders, "_alone", alone_after_another)
    assert [memory_id(tmp_path)] == given


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"memory": "a"}'])
def test_an_id_that_cannot_be_read_is_given_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text(text)
    assert memory_id(tmp_path) == memory_id(tmp_path)


def test_a_root_that_cannot_be_written_has_no_id(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateMemoryError, match="cannot be used"):
        memory_id(tmp_path / "file")
    with files_no_larger_than(0), pytest.raises(StateMemoryError):
        memory_id(tmp_path)


def test_a_full_disk_leaves_the_claim_that_was_there(tmp_path: Path) -> None:
    claim(tmp_path, graph="words")
    with files_no_larger_than(0):
        with pytest.raises(StateMemoryError):
            claim(tmp_path, graph="other")
        release(tmp_path)  # what ends with the process anyway hides no error of the run
    owner = look_at(tmp_path).owner
    assert owner is not None and owner.graph == "words" and owner.pid == os.getpid()
