"""``spillway new``: the project it makes passes its own test and runs by its own README; bad names are refused."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from spillway.cli.main import main
from spillway.state.folders import MEMORY_VARIABLE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "sensors"]) == 0
    return tmp_path / "sensors"


def done(command: str, project: Path) -> str:
    """A command of the README, run in the folder of the project as a user would; what it printed."""
    words = shlex.split(command, comments=True)
    words = [sys.executable, "-m", "spillway.cli.main", *words[1:]] if words[0] == "spillway" else words
    words[0] = sys.executable if words[0] == "python" else words[0]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        MEMORY_VARIABLE: str(project.parent / "memory"),
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    ran = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def commands(project: Path) -> list[str]:
    (block,) = re.findall(r"^```sh\n(.*?)^```$", (project / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return list(block.splitlines())


def test_the_project_passes_its_own_test_and_commands_without_spark(project: Path) -> None:
    files = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert files == {
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "sensors/__init__.py",
        "sensors/graph.py",
        "tests/test_graph.py",
    }
    assert not any("PROJECT" in path.read_text() for path in project.rglob("*") if path.is_file())
    without_spark = [command for command in commands(project) if "--draw" in command or " run " not in command]
    assert len(without_spark) == 3
    told = "\n".join(done(command, project) for command in without_spark)
    assert "2 passed" in told and "Approximate(theta 100)" in told and "Written to sensors.profile.json" in told


@pytest.mark.spark
def test_the_project_runs_by_its_readme(project: Path) -> None:
    on_spark = [command for command in commands(project) if " run " in command and "--draw" not in command]
    assert len(on_spark) == 2
    plain, protected = (done(command, project) for command in on_spark)
    assert "counts_out, a Memory sink: " in plain and "mean_out, a Memory sink: 20 rows" in plain
    assert "40/40" in protected  # every shard of counts in every batch


def test_the_projects_own_test_can_fail(project: Path) -> None:
    file = project / "sensors" / "graph.py"
    file.write_text(file.read_text().replace("self.total / self.count", "self.total"))
    with pytest.raises(AssertionError, match="1 failed, 1 passed"):
        done("python -m pytest", project)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two words", "is no name for a project"),
        ("9lives", "is no name for a project"),
        ("../up", "is no name for a project"),
        ("a-b", "is no name for a project"),
        ("_hidden", "is no name for a project"),
        ("größe", "is no name for a project"),
        ("class", "means something to Python itself"),
        ("match", "means something to Python itself"),
        ("json", "There is a package 'json' already"),
        ("spillway", "There is a package 'spillway' already"),
        ("tests", "There is a package 'tests' already"),
    ],
)
def test_bad_names_are_refused(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 1
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_what_is_there_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    before = (project / "README.md").stat().st_mtime_ns
    assert main(["new", "sensors", "--json"]) == 1
    assert "There is something named sensors here already" in json.loads(capsys.readouterr().out)["error"]
    assert (project / "README.md").stat().st_mtime_ns == before
