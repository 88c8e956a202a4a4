"""Every snippet of the documents runs, and the reference is what the code says."""

import ast
import inspect
import json
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
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCED = re.compile(r"^(`{3,}).*?^\1", re.MULTILINE | re.DOTALL)


# Each page as a user would run it, in a folder and with names of its own, but all with one Spark.
RUN_PAGES = """
import contextlib, json, os, sys, traceback
for page in sys.argv[2:]:
    os.makedirs(page)
    os.chdir(page)
    try:
        with open(f"{page}.out", "w") as out, contextlib.redirect_stdout(out):
            exec(compile(open(f"{page}.py").read(), page, "exec"), {"__name__": "__main__"})
    except BaseException:
        open(f"{page}.failed", "w").write(traceback.format_exc())
    os.chdir("..")
sys.path.insert(0, sys.argv[1])
from run_notebook import code_of, run_cells
with open(os.path.join(sys.argv[1], "notebook.ipynb")) as file:
    cells = code_of(json.load(file))
with open("notebook.shown", "w") as file:
    json.dump(run_cells(cells), file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of the snippets of a page."""

    failure: str  # how they failed, if they did
    printed: str


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pages and the notebook are run."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def ran(place: Path) -> dict[str, Ran]:
    """The snippets of every page, run, and then the notebook."""
    for page in SNIPPETS:
        (place / f"{Path(page).stem}.py").write_text("\n".join(SNIPPET.findall((ROOT / page).read_text())))
    pages = {page: str(place / Path(page).stem) for page in SNIPPETS}
    environment = {**os.environ, "TMPDIR": str(place)}
    command = [sys.executable, "-c", RUN_PAGES, str(ROOT / "docs"), *pages.values()]
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


@pytest.mark.spark
def test_the_notebook_shows_what_its_cells_show(ran: dict[str, Ran], place: Path) -> None:
    assert ran
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())
    kept = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert json.loads((place / "notebook.shown").read_text()) == kept, "run docs/run_notebook.py docs/notebook.ipynb"


def test_reference_is_current() -> None:
    command = [sys.executable, "docs/make_reference.py", "--check"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0, "run python docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, place in LINK.findall(FENCED.sub("", page.read_text())):
        leads_to = page.parent / target if target else page
        assert leads_to.exists(), target
        assert not place or place in anchors(leads_to), f"{target}#{place}"


def anchors(page: Path) -> set[str]:
    """Places on a page that links may lead to, as GitHub names them."""
    titles = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#x">', ""),
        ('<a href="#here">', ""),
        ('<a href="https://example.org/">', ""),  # followed by whoever clicks it
        ('<svg><style>a { fill: url(#here) } b { src: url("data:,") }</style></svg>', ""),
        ('<a href="c.html">', "a.html: c.html leads nowhere"),
        ('<a href="b.html#y">', "a.html: b.html#y leads to no place on its page"),
        ('<a href="#y">', "a.html: #y leads to no place on its page"),
        ('<img src="b.png">', "a.html: b.png leads nowhere"),
        ('<script src="https://example.org/a.js"></script>', "a.html: asks for https://example.org/a.js"),
        ('<link rel="stylesheet" href="//example.org/a.css">', "a.html: asks for //example.org/a.css"),
        ("<style>@import 'https://example.org/a.css';</style>", "a.html: asks for https://example.org/a.css"),
        ("<style>p { background: url(http://example.org/) }</style>", "a.html: asks for http://example.org/"),
    ],
)
def test_a_fault_of_the_site_is_found(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "a.html").write_text(f'<p id="here">{body}')
    (tmp_path / "b.html").write_text('<p id="x">')
    command = [sys.executable, ROOT / "docs" / "check_site.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr.strip(), done.returncode) == (fault, 1 if fault else 0)


def test_readme_picture_is_the_graph_of_its_example() -> None:
    import spillway as sw
    from spillway.apps import APPS

    feed = APPS["flows"].generator(seed=1, tuples=10, tuples_per_batch=10)
    graph = APPS["flows"].build(feed, protect=sw.Approximate(theta=4e5))
    assert graph.draw(style="mermaid") in (ROOT / "README.md").read_text()
