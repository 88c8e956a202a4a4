"""``spillway new NAME``: a small project to begin with: a graph, a test of it, and how to run both."""

import argparse
import importlib.util
import keyword
from pathlib import Path

from spillway.cli.output import print_json, say
from spillway.cli.project_files import FILES
from spillway.errors import SetupError
from spillway.files.durable import create_whole, make_folder


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="of the project, its folder and its package: a Python name")


def main(options: argparse.Namespace) -> int:
    name = options.name
    _check(name)
    folder = Path(name)
    if folder.exists() or folder.is_symlink():
        raise SetupError(f"There is something named {name} here already: take another name, or go elsewhere.")
    try:
        for path, text in FILES.items():
            file = folder / path.replace("PROJECT", name)
            make_folder(file.parent)
            create_whole(file, text.replace("PROJECT", name).encode())
            file.chmod(0o644)
    except OSError as error:
        raise SetupError(f"{folder} cannot be made: {error.strerror or error}.") from error
    if options.json:
        print_json({"project": name, "files": [str(folder / path.replace("PROJECT", name)) for path in FILES]})
        return 0
    say(
        f"Made {name}/. Go there (cd {name}); then 'python -m pytest' tries it in one process, and 'spillway run "
        f"{name}.graph:graph' runs it on Spark. {name}/README.md has more."
    )
    return 0


def _check(name: str) -> None:
    if not (name.isascii() and name.isidentifier()) or name.startswith("_"):
        raise SetupError(
            f"{name!r} is no name for a project: letters, digits and _ are wanted, a letter first, as Python names its "
            f"packages."
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise SetupError(f"{name!r} means something to Python itself: take another name.")
    if name == "tests" or (not Path(name).exists() and importlib.util.find_spec(name) is not None):
        raise SetupError(f"There is a package {name!r} already, which yours would hide: take another name.")
