"""The parts of the project's style that a machine can hold."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "spillway"
LINES_MAX = 400

VAGUE_NAMES = {"common", "helper", "helpers", "misc", "util", "utils"}
# Reading with any of these can run code that the data brings along. PySpark ships functions to its workers
# with a serializer of its own; that is inside PySpark and ours to neither import nor avoid.
CODE_FROM_DATA_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
CODE_FROM_DATA_CALLS = {"eval", "exec"}
# An absolute path in a string is fine only below what every Linux has, or as the path of a web address.
GENERAL_FOLDERS = {"api", "dev", "proc", "sys"}
ABSOLUTE_PATH = re.compile(r"/([A-Za-z][\w.-]*)/[\w.-]")
PERSONAL_FOLDER = re.compile(r"(?<![\w.:])/(?:home|Users|root)/\w")
# Files are made durable in one package only, so that each is there whole or not at all. Beside it:
WRITES_FILES = {
    # State is memory: it is mapped, lost with its machine, and nothing in it may wait for a disk.
    "state/memory.py": {"os.link", "os.replace"},
    # A batch put out is a folder, which takes the place of what an earlier attempt left.
    "engine/parquet_folder.py": {"(hidden / name).rename", "whole.rename"},
}
FILE_CALLS_OF_OS = {"fdatasync", "fsync", "link", "rename", "renames", "replace", "write"}
FILE_CALLS = {"NamedTemporaryFile", "mkstemp", "new_file", "rename", "write_bytes", "write_text"}
OPENS = {"OSFile", "fdopen", "open"}
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

Rule = Callable[[Path, str], list[str]]


def name_says_nothing(path: Path, source: str) -> list[str]:
    return [f"{path.stem} names no idea"] if VAGUE_NAMES & set(path.with_suffix("").parts) else []


def file_too_long(path: Path, source: str) -> list[str]:
    count = len(source.splitlines())
    return [f"{count} lines, more than {LINES_MAX}: look for the second idea"] if count > LINES_MAX else []


def code_from_data(path: Path, source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                asked = {name.name.partition(".")[0] for name in names}
            case ast.ImportFrom(module=str(module), level=0):
                asked = {module.partition(".")[0]}
            case ast.Call(func=ast.Name(id=name)) if name in CODE_FROM_DATA_CALLS:
                found.append(f"line {node.lineno} calls {name}")
                continue
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=value)) if value:
                found.append(f"line {node.lineno} lets numpy unpickle")
                continue
            case _:
                continue
        found += [f"line {node.lineno} imports {name}" for name in sorted(asked & CODE_FROM_DATA_MODULES)]
    return found


def durable_elsewhere(path: Path, source: str) -> list[str]:
    if path.parts[0] == "files":
        return []
    allowed = WRITES_FILES.get(path.as_posix(), set())
    return [f"line {line} calls {call}" for line, call in file_calls(source) if call not in allowed]


def file_calls(source: str) -> list[tuple[int, str]]:
    """Calls that make, replace or sync a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        modes = [given.value for given in [*node.args, *(word.value for word in node.keywords)] if is_text(given)]
        opens_to_write = name in OPENS and any(re.fullmatch(r"[rwaxbt+]*[wax+][bt+]*", mode) for mode in modes)
        of_file = owner and name in (FILE_CALLS_OF_OS if owner == "os" else FILE_CALLS)
        if opens_to_write or of_file:
            found.append((node.lineno, called))
    return found


def is_text(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def path_of_one_machine(path: Path, source: str) -> list[str]:
    found = [f"names {match[0]}…" for match in PERSONAL_FOLDER.finditer(source)]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = ABSOLUTE_PATH.match(node.value)
            if match and match[1] not in GENERAL_FOLDERS and not PERSONAL_FOLDER.match(node.value):
                found.append(f"line {node.lineno} names {node.value!r}")
    return found


def package_without_docstring(path: Path, source: str) -> list[str]:
    missing = path.name == "__init__.py" and not ast.get_docstring(ast.parse(source))
    return ["says nothing about its package"] if missing else []


def unfinished_work(path: Path, source: str) -> list[str]:
    return [f"holds {match[0]}" for match in UNFINISHED.finditer(source)]


RULES: tuple[Rule, ...] = (
    name_says_nothing,
    file_too_long,
    code_from_data,
    durable_elsewhere,
    path_of_one_machine,
    package_without_docstring,
    unfinished_work,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_source_keeps(rule: Rule) -> None:
    paths = sorted(SOURCE.rglob("*.py"))
    assert paths
    found = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in paths
        for problem in rule(path.relative_to(SOURCE), path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_every_folder_of_source_is_a_package() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    # A folder without __init__.py imports well from a checkout and is left out of what gets installed.
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_test_is_marked_unfinished() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)  # This file has to name the marks it looks for.
        for problem in unfinished_work(path, path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("rule", "path", "source"),
    [
        (name_says_nothing, "state/utils.py", ""),
        (name_says_nothing, "common/table.py", ""),
        (file_too_long, "state/table.py", "x = 1\n" * (LINES_MAX + 1)),
        (code_from_data, "state/table.py", "import pickle"),
        (code_from_data, "state/table.py", "def f():\n    from pickle import loads"),
        (code_from_data, "state/table.py", "eval('1')"),
        (code_from_data, "state/table.py", "exec('x = 1')"),
        (code_from_data, "state/table.py", "np.load(f, allow_pickle=True)"),
        (durable_elsewhere, "records/rundir.py", "os.replace(temporary, path)"),
        (durable_elsewhere, "records/rundir.py", "os.fsync(descriptor)"),
        (durable_elsewhere, "records/rundir.py", "temporary.rename(path)"),
        (durable_elsewhere, "records/rundir.py", "Path(folder, 'a').write_text('')"),
        (durable_elsewhere, "records/rundir.py", "open(path, 'w')"),
        (durable_elsewhere, "records/rundir.py", "path.open(mode='ab')"),
        (durable_elsewhere, "records/rundir.py", "ipc.new_file(sink, schema)"),
        (durable_elsewhere, "state/memory.py", "os.fsync(descriptor)"),
        (path_of_one_machine, "state/table.py", "FOLDER = '/srv/data'"),
        (path_of_one_machine, "state/table.py", "# see /home/someone/notes"),
        (path_of_one_machine, "state/table.py", "FOLDER = '/Users/someone/data'"),
        (package_without_docstring, "state/__init__.py", "from spillway.state.table import Table"),
        (unfinished_work, "state/table.py", "# TODO: later"),
    ],
)
def test_a_breach_is_caught(rule: Rule, path: str, source: str) -> None:
    assert len(rule(Path(path), source)) == 1


def test_every_exception_is_needed() -> None:
    for name, calls in WRITES_FILES.items():
        assert {call for _, call in file_calls((SOURCE / name).read_text(encoding="utf-8"))} == calls


def test_ordinary_source_breaks_no_rule() -> None:
    source = '''"""A page of todos; reading one never runs pickle or eval("x")."""
import pyarrow as pa
SHARED_MEMORY = "/dev/shm/spillway"
STATUS = "/api/v1/applications"
WHERE = "s3://bucket/home/run"
array = np.load(file, allow_pickle=False)
text = open(path).read().replace("a", "b") + open(path, "rb").read()
folder.write(name, data)
'''
    assert [problem for rule in RULES for problem in rule(Path("state/__init__.py"), source)] == []


def test_lock_pins_every_package_by_hash_and_names_no_place() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==[\w.]+( ; [^\\]+)? \\\n", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry
    assert not re.search(r"://|file:|^-|(?<!\w)/\w", text, re.MULTILINE)
