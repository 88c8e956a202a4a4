"""``./run wheel --check``: what a user gets who installs the wheel, and nothing else, far from this folder.

The wheel in dist/ is installed with its dependencies, in whatever versions its ranges allow today, into a new
environment in a folder of its own. There ``spillway doctor`` and ``spillway demo`` have to pass, and a type checker has
to see our types: that its extras are left out shows that nothing else needs them.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from release.wheel import ROOT, build

# A wrong argument that a type checker is told to expect: it complains of the comment if it sees no types of ours.
TYPED = """import spillway as sw

sw.Approximate(theta=1.0)
sw.Approximate(theta="much")  # type: ignore[arg-type]
"""


def main() -> None:
    """Install the wheel and try it; ends with the first step that fails."""
    _, wheel = build(ROOT / "dist")
    with tempfile.TemporaryDirectory(prefix="spillway-installed-") as scratch:
        place = Path(scratch)
        python = place / "venv" / "bin" / "python"
        install(wheel.resolve(), python)
        where = step(place, python, "-c", "import spillway; print(spillway.__file__)", quiet=True).strip()
        if not Path(where).is_relative_to(place.resolve()):
            raise SystemExit(f"The environment imports spillway from {where}, which is not what was installed in it.")
        step(place, python.with_name("spillway"), "doctor")
        step(place, python.with_name("spillway"), "demo")
        (place / "typed.py").write_text(TYPED)
        step(place, sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "typed.py")
    print("The wheel installs, and passes doctor, demo and a type checker.")


def install(wheel: Path, python: Path) -> None:
    """A new environment with the wheel and what it asks for, by uv where it is, as ./run does."""
    environment = python.parents[1]
    if uv := which("uv"):
        step(environment.parent, uv, "venv", "--quiet", "--python", sys.executable, environment)
        step(environment.parent, uv, "pip", "install", "--quiet", "--python", python, wheel)
    else:
        step(environment.parent, sys.executable, "-m", "venv", environment)
        # Without --use-pep517 an older pip looks for the package wheel to build PySpark with.
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--use-pep517")
        step(environment.parent, *pip, wheel)


def step(folder: Path, *command: str | Path, quiet: bool = False) -> str:
    """Run a command in a folder with none of this environment's Python about it."""
    words: Sequence[str] = [str(word) for word in command]
    if not quiet:
        print("+", *words, flush=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        words, cwd=folder, env=clean, stdout=subprocess.PIPE if quiet else None, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}.")
    return done.stdout or ""


if __name__ == "__main__":
    main()
