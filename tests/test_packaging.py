"""What gets installed is what stands in the source, files that are no Python included, with the extras we speak of."""

import re
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from release.wheel import build

ROOT = Path(__file__).parents[1]
SPOKEN_EXTRA = re.compile(r"spillway\[(\w+)\]")
LOCKED = re.compile(r"([a-z0-9-]+)==(\S+)(?: ; .+)? \\")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    (folder / "spillway-0.0.1-py3-none-any.whl").touch()
    made = build(folder)
    assert sorted(folder.iterdir()) == sorted(made), "an older one is still there"
    return made


@pytest.fixture(scope="module")
def metadata(built: tuple[Path, Path]) -> Message:
    """What the wheel says of itself."""
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_wheel_holds_every_file_of_the_source_and_none_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = files_below(ROOT / "src")
    assert {"spillway/py.typed", "spillway/report/assets/page.js", "spillway/watch/live.js"} <= source
    assert names == source


def test_the_sdist_holds_what_it_takes_to_test_it(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        members = {member.name.partition("/")[2]: member for member in archive if member.isfile()}
    tested = {f"{folder}/{name}" for folder in ("tests", "docs", "release") for name in files_below(ROOT / folder)}
    assert tested <= set(members)
    assert {"requirements.lock", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"} <= set(members)
    assert members["run"].mode & 0o100
    assert not {name for name in members if "__pycache__" in name}


def test_every_extra_that_is_spoken_of_is_there(metadata: Message) -> None:
    pages = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    spoken = {extra for page in pages for extra in SPOKEN_EXTRA.findall(page.read_text())}
    assert {"delta", "postgres", "metrics"} <= spoken
    assert spoken <= set(metadata.get_all("Provides-Extra", []))


def test_it_asks_for_nothing_that_only_an_extra_needs(metadata: Message) -> None:
    wanted = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    always = {canonicalize_name(one.name) for one in wanted if one.marker is None}
    of_extras = {canonicalize_name(one.name) for one in wanted if one.marker is not None}
    assert "pyspark" in always
    assert {"confluent-kafka", "deltalake", "adbc-driver-postgresql", "prometheus-client"} <= of_extras
    assert not always & of_extras


def test_the_lock_has_what_is_asked_for() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    locked = dict(found.groups() for line in lines if (found := LOCKED.fullmatch(line)))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    for requirement in map(Requirement, asked):
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in the lock: ./run lock"
        assert requirement.specifier.contains(version), f"{requirement} is not what is locked: ./run lock"


def files_below(folder: Path) -> set[str]:
    """Every file below a folder that is no cache and no trace of setuptools."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    caches = (".nbi", ".nbc", ".pyc")
    return {
        path.as_posix()
        for path in found
        if not any(part == "__pycache__" or part.endswith(".egg-info") for part in path.parts)
        and path.suffix not in caches
    }
