"""Every snippet of the documents runs, and the reference is what the code says."""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from spillway.state.folders import default_root, found_folders

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = ["README.md", "docs/tutorial.md", "docs/howto.md", "docs/from-spark.md"]
NOT_RUN = ["docs/cluster.md"]  # which needs a cluster: its snippets are read, and what they call is there
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


# Each page as a user would run it, in a folder and with names of its own, but all with one Spark.
RUN_PAGES = """
import contextlib, os, sys, traceback
for page in sys.argv[1:]:
    os.makedirs(page)
    os.chdir(page)
    try:
        with open(f"{page}.out", "w") as out, contextlib.redirect_stdout(out):
            exec(compile(open(f"{page}.py").read(), page, "exec"), {"__name__": "__main__"})
    except BaseException:
        open(f"{page}.failed", "w").write(traceback.format_exc())
    os.chdir("..")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of the snippets of a page."""

    failure: str  # how they failed, if they did
    printed: str


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """The snippets of every page, run."""
    place = tmp_path_factory.mktemp("pages")
    for page in SNIPPETS:
        (place / f"{Path(page).stem}.py").write_text("\n".join(SNIPPET.findall((ROOT / page).read_text())))
    pages = {page: str(place / Path(page).stem) for page in SNIPPETS}
    environment = {**os.environ, "TMPDIR": str(place)}
    command = [sys.executable, "-c", RUN_PAGES, *pages.values()]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for folder in found_folders(default_root()):
        # What a snippet could still resume, nobody will.
        if folder.owner is not None and folder.owner.checkpoint.startswith(str(place)):
            shutil.rmtree(folder.path)
    failed = {page: Path(f"{path}.failed") for page, path in pages.items()}
    return {
        page: Ran(
            failure=failed[page].read_text() if failed[page].exists() else "", printed=Path(f"{path}.out").read_text()
        )
        for page, path in pages.items()
    }


@pytest.mark.spark
def test_snippets_run(ran: dict[str, Ran]) -> None:
    for page in SNIPPETS:
        assert SNIPPET.search((ROOT / page).read_text()), page
    failures = [f"{page}: {one.failure}" for page, one in ran.items() if one.failure]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("page", NOT_RUN)
def test_snippets_that_are_not_run_could_be(page: str) -> None:
    import spillway as sw

    snippets = SNIPPET.findall((ROOT / page).read_text())
    assert snippets
    run_methods = {name for name in dir(sw.Run) if not name.startswith("_")}
    for node in ast.walk(ast.parse("\n".join(snippets))):
        match node:
            case ast.Attribute(value=ast.Name(id="sw"), attr=name):
                assert hasattr(sw, name), f"{page}: there is no sw.{name}"
            case ast.Attribute(value=ast.Name(id="run"), attr=name):
                assert name in run_methods, f"{page}: a run has no {name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="sw"), attr=name), keywords=given):
                known = inspect.signature(getattr(sw, name)).parameters
                assert {one.arg for one in given} <= {*known}, f"{page}: sw.{name}"


@pytest.mark.spark
@pytest.mark.parametrize(("page", "blocks"), [("README.md", 1), ("docs/tutorial.md", 2)])
def test_pages_show_what_their_snippets_print(ran: dict[str, Ran], page: str, blocks: int) -> None:
    shown = PRINTED.findall((ROOT / page).read_text())
    assert len(shown) == blocks
    # In any order: which operator a run on Spark tells of first is a matter of which task was first.
    missing = {line for block in shown for line in block.splitlines()} - {*ran[page].printed.splitlines()}
    assert not missing, f"{page} shows {sorted(missing)}, and this is printed:\n{ran[page].printed}"


def test_reference_is_current() -> None:
    command = [sys.executable, "docs/make_reference.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run python docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_readme_picture_is_the_graph_of_its_example() -> None:
    import spillway as sw
    from spillway.apps import APPS

    feed = APPS["flows"].generator(seed=1, tuples=10, tuples_per_batch=10)
    graph = APPS["flows"].build(feed, protect=sw.Approximate(theta=4e5))
    assert graph.draw(style="mermaid") in (ROOT / "README.md").read_text()
