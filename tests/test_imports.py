"""Who may import whom: packages form layers, imports go only from a layer to a later one, and no modules in a circle.

The rule is read off the source with `ast`, so it also sees imports inside functions, under `TYPE_CHECKING`,
and `import_module("spillway.…")` with a literal name. A name computed at run time is not seen.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "spillway"

# From left to right. Packages of one layer do not import each other, except in the last: small files of one idea each.
LAYERS = (
    {"__main__"},
    {"cli"},
    {"watch"},
    {"report"},
    {"plan", "papers", "benches"},
    {"inject", "model", "soak"},
    {"san"},
    {"parallel"},
    {"spark", "local"},
    {"engine", "apps"},
    {"protocols", "score"},
    {"operators", "receiver"},
    {"backup"},
    {"state", "graph"},
    {"records"},
    {"files"},
    {"given", "errors", "clock", "seeds", "tls"},
)
PLACE = {name: place for place, layer in enumerate(LAYERS) for name in layer}
SPARK_LIBRARIES = {"pyspark", "py4j"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One module that one line asks for, by its absolute dotted name."""

    module: str
    line: int


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    """Every import in a file of the package at `root`, relative ones made absolute."""
    package = [root.name, *path.relative_to(root).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                base = [*base, *([module] if module else [])]
                # `from spillway import graph` asks for spillway.graph; a name that is no module does no harm
                # below, because only the first two parts of a name decide.
                modules = [".".join([*base, name.name]) for name in names]
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                modules = [name]
            case _:
                continue
        for module in modules:
            yield Import(module=module, line=node.lineno)


def violations(root: Path) -> list[str]:
    """What in the package at `root` breaks the rule, one line of text each."""
    found = []
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        importer = relative.parts[0].removesuffix(".py")
        exempt = importer == "__init__"  # The public names: it may import from every package.
        if not exempt and importer not in PLACE:
            found.append(f"{relative}: {importer!r} has no place among the layers; give it one")
            continue
        for asked in imports_of(path, root):
            first, _, rest = asked.module.partition(".")
            imported = rest.partition(".")[0]
            if first in SPARK_LIBRARIES and importer != "spark" and not path.stem.endswith("_on_spark"):
                problem = f"imports {first}, which only spark/ and *_on_spark.py may"
            elif first != root.name or exempt or imported == importer:
                continue
            elif imported not in PLACE:
                problem = f"imports {asked.module} by way of the public names; import it from where it is defined"
            elif PLACE[imported] < PLACE[importer]:
                problem = f"imports {imported}, which lies to its left"
            elif PLACE[imported] == PLACE[importer] < len(LAYERS) - 1:
                problem = f"imports {imported}, which shares its layer"
            else:
                continue
            found.append(f"{relative}:{asked.line}: {importer} {problem}")
    return found


def circles(root: Path) -> list[str]:
    """Modules of the package at `root` that import each other, each circle as one line of text.

    That Python runs a package's `__init__` before any of its modules is no import of that module's own.
    """
    modules = {
        ".".join([root.name, *path.relative_to(root).with_suffix("").parts]): path for path in root.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    asked = {
        name: sorted({found for asked in imports_of(path, root) if (found := _module(asked.module, modules))})
        for name, path in sorted(modules.items())
    }
    found: list[str] = []
    finished: set[str] = set()

    def follow(name: str, path: list[str]) -> None:
        if name in path:
            found.append(" -> ".join([*path[path.index(name) :], name]))
        elif name not in finished:
            for imported in asked[name]:
                follow(imported, [*path, name])
            finished.add(name)

    for name in asked:
        follow(name, [])
    return found


def _module(name: str, modules: dict[str, Path]) -> str | None:
    """The module that has a name in it, or is it; none of ours if there is none."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def test_no_modules_import_each_other() -> None:
    assert not circles(SOURCE)


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        (
            {"state/a.py": "from spillway.state.b import B", "state/b.py": "from spillway.state.a import A"},
            "spillway.state.a -> spillway.state.b -> spillway.state.a",
        ),
        (
            {"state/a.py": "import spillway.state.b", "state/b.py": "if TYPE_CHECKING:\n    from .a import A"},
            "spillway.state.a -> spillway.state.b -> spillway.state.a",
        ),
        (
            {"state/a.py": "from . import b", "state/b.py": "def f():\n    from spillway.state import a"},
            "spillway.state.a -> spillway.state.b -> spillway.state.a",
        ),
        (
            {"a.py": "from spillway import b", "b.py": "import spillway.c", "c.py": "from .a import A"},
            "spillway.a -> spillway.b -> spillway.c -> spillway.a",
        ),
        (
            {"state/__init__.py": "from spillway.state.a import A", "state/a.py": "from spillway.state import A"},
            "spillway.state -> spillway.state.a -> spillway.state",
        ),
    ],
)
def test_a_circle_is_caught(tmp_path: Path, files: dict[str, str], circle: str) -> None:
    assert circles(package(tmp_path, files)) == [circle]


def test_what_only_looks_like_a_circle_passes(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from spillway.state import A",
        "state/__init__.py": "from spillway.state.a import A",
        "state/a.py": "from spillway.state.b import B\nfrom spillway.state.c import C",
        "state/b.py": "from spillway.state.c import C\nimport math",
        "state/c.py": "from .d import D",
        "state/d.py": "",
    }
    assert not circles(package(tmp_path, files))


def test_every_import_goes_to_a_later_layer() -> None:
    assert any(SOURCE.rglob("*.py"))
    assert not violations(SOURCE)


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        (
            "state/memory.py",
            "from spillway.backup.store import Store",
            "imports backup, which lies to its left",
        ),
        ("state/memory.py", "import spillway.backup", "imports backup, which lies to its left"),
        ("state/memory.py", "from spillway import backup", "imports backup, which lies to its left"),
        ("state/memory.py", "from ..backup import store", "imports backup, which lies to its left"),
        ("state/memory.py", "from .. import backup", "imports backup, which lies to its left"),
        ("state/deep/memory.py", "from ...backup import store", "imports backup, which lies to its left"),
        (
            "state/memory.py",
            "def f():\n    from spillway.cli import main",
            "imports cli, which lies to its left",
        ),
        (
            "state/memory.py",
            "if TYPE_CHECKING:\n    import spillway.cli",
            "imports cli, which lies to its left",
        ),
        (
            "state/memory.py",
            "importlib.import_module('spillway.cli.main')",
            "imports cli, which lies to its left",
        ),
        ("local/runner.py", "from spillway.spark import run", "imports spark, which shares its layer"),
        ("apps/flows.py", "from spillway import Graph", "imports spillway.Graph by way of the public names"),
        ("apps/flows.py", "import spillway as sw", "imports spillway by way of the public names"),
        ("errors.py", "from spillway.state import Number", "imports state, which lies to its left"),
        ("cli/run.py", "from pyspark.sql import SparkSession", "imports pyspark, which only spark/"),
        ("cli/run.py", "def f():\n    import pyspark.sql as q", "imports pyspark, which only spark/"),
        ("__init__.py", "import pyspark", "imports pyspark, which only spark/"),
        ("extras/more.py", "", "has no place among the layers"),
    ],
)
def test_a_violation_is_caught(tmp_path: Path, file: str, source: str, problem: str) -> None:
    root = package(tmp_path, {"graph/graph.py": "import math", file: source})
    found = violations(root)
    assert len(found) == 1
    assert found[0].startswith(file)
    assert problem in found[0]


def test_what_the_rule_allows_passes(tmp_path: Path) -> None:
    allowed = {
        "__init__.py": "from spillway.graph import Graph\nfrom spillway.cli.main import main",
        "__main__.py": "from spillway.cli.main import main",
        "cli/main.py": "from spillway.errors import SpillwayError\nfrom spillway.report import page",
        "spark/run.py": "from pyspark.sql import SparkSession\nfrom ..graph.graph import Graph",
        "inject/campaign_on_spark.py": "import pyspark\nfrom spillway.spark import run",
        "state/memory.py": "from . import table\nfrom .table import Table\nimport spillway.state.table",
        "clock.py": "from spillway.errors import SpillwayError",
        "records/pyspark_names.py": "from spillwayish import backup\nimport pysparkling",
    }
    assert not violations(package(tmp_path, allowed))


def package(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "spillway"
    for name, source in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return root
