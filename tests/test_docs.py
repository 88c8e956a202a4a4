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
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.spark
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/howto.md"])
def test_snippets_run(page: str, tmp_path: Path) -> None:
    snippets = SNIPPET.findall((ROOT / page).read_text())
    assert snippets
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(snippets))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(script)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for folder in found_folders(default_root()):
        # What a snippet could still resume, nobody will.
        if folder.owner is not None and folder.owner.checkpoint.startswith(str(tmp_path)):
            shutil.rmtree(folder.path)


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
