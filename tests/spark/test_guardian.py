"""Processes of a cluster are found by their mark, and nothing of it is left however whoever started it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import waited_for

from spillway.errors import SetupError
from spillway.spark import guardian
from spillway.spark.standalone import Cluster

ROOT = Path(__file__).parents[2]
# It starts another, tells the number of that, and waits.
PARENT = "import subprocess, sys; print(subprocess.Popen(['cat'], stdin=sys.stdin).pid, flush=True); sys.stdin.read()"


def state_of(pid: int) -> str:
    """R and S: it runs or sleeps; T: it is stopped; Z or nothing: it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    return f"test-{os.getpid()}-{request.node.name}/"


@pytest.fixture
def start(mark: str) -> Iterator[Callable[[str], list[int]]]:
    """Starts a process with a mark, which starts another; returns the numbers of both."""
    started = []

    def begin(mark: str) -> list[int]:
        environment = {**os.environ, guardian.VARIABLE: mark}
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        return [process.pid, int(process.stdout.readline())]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.kill
def test_only_what_carries_the_mark_is_ended(start: Callable[[str], list[int]], mark: str) -> None:
    marked, other = start(f"{mark}1/"), start(f"{mark}11/")
    assert guardian.marked(f"{mark}1/") == sorted(marked)
    assert guardian.marked(mark) == sorted(marked + other)
    guardian.end(f"{mark}1/", wanted=lambda pid: pid == marked[1])
    assert guardian.marked(f"{mark}1/") == marked[:1]
    guardian.end(f"{mark}1/")
    assert guardian.marked(mark) == sorted(other)
    # A number that has become another's is not signalled.
    for descriptor in guardian.send(other, signal.SIGKILL, mark=f"{mark}1/"):
        os.close(descriptor)
    assert guardian.marked(mark) == sorted(other)


@pytest.mark.kill
def test_what_is_just_becoming_another_program_carries_its_mark(mark: str) -> None:
    environment = {**os.environ, guardian.VARIABLE: mark}
    for _ in range(100):
        process = subprocess.Popen(["cat"], env=environment, stdin=subprocess.PIPE)
        try:
            for descriptor in guardian.send([process.pid], signal.SIGKILL, mark=mark):
                os.close(descriptor)
            assert process.wait(timeout=60) == -signal.SIGKILL
        finally:
            process.kill()
            process.communicate()


@pytest.mark.kill
def test_what_is_held_goes_on_when_it_is_told(start: Callable[[str], list[int]], mark: str) -> None:
    pids = start(mark)
    guardian.hold(mark)
    assert waited_for(lambda: [state_of(pid) for pid in pids] == ["T", "T"])
    guardian.go_on(mark)
    assert waited_for(lambda: "T" not in [state_of(pid) for pid in pids])
    guardian.hold(mark)
    guardian.end(mark)
    assert guardian.marked(mark) == []


@pytest.mark.kill
def test_the_guardian_acts_when_its_input_ends(start: Callable[[str], list[int]], mark: str, tmp_path: Path) -> None:
    (tmp_path / "files" / "below").mkdir(parents=True)
    start(mark)
    program = [sys.executable, "-I", guardian.__file__, mark, str(tmp_path / "files"), str(tmp_path / "gone")]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as guarding:
        assert len(guardian.marked(mark)) == 2
        assert guarding.stdin is not None
        guarding.stdin.close()
    assert guarding.returncode == 0
    assert guardian.marked(mark) == []
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hosts": 0}, "from 1 to 100 hosts; got 0"),
        ({"hosts": 101}, "from 1 to 100 hosts; got 101"),
        ({"cores": 0}, "from 1 to 1000 cores; got 0"),
        ({"memory": "1"}, "written as 512m or 2g; got '1'"),
        ({"memory": "1g --port 80"}, "written as 512m or 2g"),
    ],
    ids=str,
)
def test_a_cluster_that_makes_no_sense_is_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        Cluster(**options)  # type: ignore[arg-type]


def test_a_cluster_without_java_says_so_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("SPILLWAY_MEMORY", str(tmp_path / "memory"))
    with pytest.raises(SetupError, match=r"Spark's master did not start: no java at .*no-java/bin/java\."):
        Cluster(hosts=1).start()
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]
    assert [*(tmp_path / "memory").iterdir()] == []


@pytest.mark.spark
@pytest.mark.kill
@pytest.mark.parametrize(
    ("number", "when"),
    [(signal.SIGTERM, "started"), (signal.SIGKILL, "started"), (signal.SIGINT, "starting")],
    ids=["SIGTERM", "SIGKILL", "SIGINT while it starts"],
)
def test_a_cluster_ends_with_its_command(number: signal.Signals, when: str, tmp_path: Path) -> None:
    memory, files = tmp_path / "memory", tmp_path / "files"
    files.mkdir()
    environment = {**os.environ, "TMPDIR": str(files), "SPILLWAY_MEMORY": str(memory)}
    command = [sys.executable, "-m", "spillway.cli.main", "cluster", "--hosts", "1", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if when == "started":
            told = json.loads(process.stdout.readline())
            assert told["hosts"] == ["127.0.0.2"]
            assert told["master"].startswith("spark://127.0.0.1:")
        assert waited_for(lambda: bool(children_of(process.pid)))
        mark = f"{mark_of(children_of(process.pid)[0])}/"
        process.send_signal(number)
        said = process.communicate()[1]
    assert process.returncode == (-number if number == signal.SIGKILL else 0), said
    assert "Traceback" not in said
    assert waited_for(lambda: not guardian.marked(mark))
    assert waited_for(lambda: [*files.iterdir(), *memory.iterdir()] == [])


def children_of(parent: int) -> list[int]:
    """Those that carry a mark."""
    found = []
    for pid in guardian.marked(""):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(pid)
    return found


def mark_of(pid: int) -> str:
    """What all processes of its cluster carry."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    marks = [entry for entry in entries if entry.startswith(guardian.VARIABLE)]
    return marks[0].partition("=")[2].partition("/")[0]
