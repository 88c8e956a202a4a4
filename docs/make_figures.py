"""Write figures into the pages of docs/, from records: ``python docs/make_figures.py DIRECTORY …``, of benches, of
``reproduce spade``, of ``model validate`` and of ``plan``.

A figure in a page stands between two comments, the first of which names the command that measured it:

    <!-- bench wordcount --words zipf -->
    …
    <!-- end -->

What is between them is replaced by what ``spillway bench show --markdown`` says of a directory that holds such a bench,
or by what the report of a reproduction has for documents.
A command has one place, on one page.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from spillway.report.plan_markdown import command as plan_command
from spillway.report.plan_markdown import plan_markdown
from spillway.report.spade_markdown import spade_markdown
from spillway.report.validation_markdown import command, validation_markdown

DOCS = Path(__file__).parent
_BLOCK = r"(<!-- {command} -->\n)(.*?)(<!-- end -->)"


def shown(directory: str) -> tuple[str, str]:
    """The command that measured what a directory holds, and its figures as a document has them."""
    manifest = json.loads((Path(directory) / "manifest.json").read_text(encoding="utf-8"))
    if manifest.get("paper") == "validation":
        return command(manifest), validation_markdown(Path(directory), manifest)
    if manifest["kind"] == "plan":
        return plan_command(manifest), plan_markdown(Path(directory), manifest)
    if manifest["kind"] == "reproduction":
        told = spade_markdown(Path(directory), manifest)
        return f"reproduce spade{' --quick' if manifest['settings']['quick'] else ''}", told
    show = [sys.executable, "-m", "spillway.cli.main", "bench", "show", directory, "--markdown"]
    told = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    found = re.match(r"`\./run spillway (.*)`:", told)
    assert found is not None, told
    return found[1], told


def with_figures(pages: dict[str, str], command: str, told: str) -> dict[str, str]:
    """The pages with the figures of one command in their place; refuses a command that none of them names."""
    block = re.compile(_BLOCK.format(command=re.escape(command)), re.DOTALL)
    found = [name for name, page in pages.items() for _ in block.findall(page)]
    if len(found) != 1:
        raise SystemExit(f"Of {', '.join(pages)} none has a place '<!-- {command} -->' … '<!-- end -->', or several.")
    page = block.sub(lambda found: f"{found[1]}{told.rstrip()}\n{found[3]}", pages[found[0]])
    return pages | {found[0]: page}


def read_pages() -> dict[str, str]:
    """The pages that figures may stand on, by name: all that are written by hand."""
    pages = sorted(path for path in DOCS.glob("*.md") if path.name != "reference.md")
    return {path.name: path.read_text(encoding="utf-8") for path in pages}


def main(directories: list[str]) -> None:
    before = read_pages()
    pages = before
    for directory in directories:
        pages = with_figures(pages, *shown(directory))
    for name, page in pages.items():
        if page != before[name]:
            (DOCS / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
