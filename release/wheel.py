"""``./run wheel``: the sdist and the wheel, into dist/.

The wheel is built from the unpacked sdist, and the sdist from a copy of what belongs to the project, both in a folder
that is thrown away. Built in place, setuptools would put into a wheel what an earlier build left in build/, and into an
sdist what an earlier list of files named. And a wheel that comes from the sdist shows that the sdist is whole.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copy, copytree, ignore_patterns, unpack_archive

ROOT = Path(__file__).parents[1]
PARTS = (
    *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("requirements.lock", "run", "src", "docs", "tests", "release"),
)
CACHES = ("__pycache__", "*.egg-info", "*.py[co]", "*.nbi", "*.nbc")


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel, made in a folder in place of those it had."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in packages(folder):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="spillway-wheel-") as scratch:
        project = Path(scratch, "project")
        project.mkdir()
        for part in PARTS:
            if (ROOT / part).is_dir():
                copytree(ROOT / part, project / part, ignore=ignore_patterns(*CACHES))
            else:
                copy(ROOT / part, project / part)
        sdist = _made("sdist", project, folder)
        unpack_archive(sdist, Path(scratch, "unpacked"))
        (unpacked,) = Path(scratch, "unpacked").iterdir()
        return sdist, _made("wheel", unpacked, folder)


def packages(folder: Path) -> Iterator[Path]:
    """Our sdists and wheels in a folder."""
    yield from sorted([*folder.glob("spillway-*.tar.gz"), *folder.glob("spillway-*.whl")])


def _made(kind: str, project: Path, folder: Path) -> Path:
    """What setuptools, the one build tool in the lock, builds of a project without fetching anything."""
    code = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder.resolve())]
    built = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if built.returncode:
        raise SystemExit(f"{built.stdout[-3000:]}{built.stderr[-3000:]}\nThe {kind} could not be built.")
    return folder / built.stdout.splitlines()[-1]


def main() -> None:
    """Build both and say what came of it."""
    for made in build(ROOT / "dist"):
        print(made.relative_to(ROOT), f"{made.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
