"""Every snippet of the documents runs, and the reference is what the code says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spillway.state.folders import default_root, found_folders

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SNIPPETS = ["README.md", "docs/tutorial.md", "docs/howto.md"]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


# Each page as a user would run it, in a folder and with names of its own, but all with one Spark.
RUN_PAGES = """
import os, sys, traceback
for page in sys.argv[1:]:
    os.makedirs(page)
    os.chdir(page)
    try:
        exec(compile(open(f"{page}.py").read(), page, "exec"), {"__name__": "__main__"})
    except BaseException:
        open(f"{page}.failed", "w").write(traceback.format_exc())
    os.chdir("..")
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong when the snippets of each page were run."""
    place = tmp_path_factory.mktemp("pages")
    for page in SNIPPETS:
        (place / f"{Path(page).stem}.py").write_text("\n".join(SNIPPET.findall((ROOT / page).read_text())))
    pages = {page: str(place / Path(page).stem) for page in SNIPPETS}
    environment = {**os.environ, "TMPDIR": str(place)}
    command = [sys.executable, "-c", RUN_PAGES, *pages.values()]
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for folder in found_folders(default_root()):
        # What a snippet could still resume, nobody will.
        if folder.owner is not None and folder.owner.checkpoint.startswith(str(place)):
            shutil.rmtree(folder.path)
    return {page: Path(f"{path}.failed").read_text() for page, path in pages.items() if Path(f"{path}.failed").exists()}


@pytest.mark.spark
def test_snippets_run(failures: dict[str, str]) -> None:
    for page in SNIPPETS:
        assert SNIPPET.search((ROOT / page).read_text()), page
    assert not failures, "\n".join(f"{page}: {text}" for page, text in failures.items())


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
    graph = APPS["flows"].build(feed, protect=sw.Approximate(theta=1e5))
    assert graph.draw(style="mermaid") in (ROOT / "README.md").read_text()
