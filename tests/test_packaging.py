"""What gets installed is what stands in the source, files that are no Python included."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_every_file_of_the_source(tmp_path: Path) -> None:
    # Built from a copy: setuptools leaves its traces where it builds.
    project = tmp_path / "project"
    caches = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "src", project / "src", ignore=caches)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    command = [sys.executable, "-c", "from setuptools import build_meta; build_meta.build_wheel('..')"]
    built = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if name.startswith("spillway/")}
    source = files_below(ROOT / "src")
    assert {"spillway/py.typed", "spillway/report/assets/page.js"} <= source
    assert installed == source


def files_below(folder: Path) -> set[str]:
    """Every file below a folder that is no cache."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] == "spillway" and "__pycache__" not in path.parts
    }
