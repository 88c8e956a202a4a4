"""Write the figures of benches into docs/figures.md, from their records: ``python docs/make_figures.py DIRECTORY …``.

A figure in the document stands between two comments, the first of which names the command that measured it:

    <!-- bench wordcount --words zipf -->
    …
    <!-- end -->

What is between them is replaced by what ``spillway bench show --markdown`` says of a directory that holds such a bench.
"""

import re
import subprocess
import sys
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.md")
_BLOCK = r"(<!-- {command} -->\n)(.*?)(<!-- end -->)"


def shown(directory: str) -> tuple[str, str]:
    """The command of a bench, and its figures as a document has them."""
    show = [sys.executable, "-m", "spillway.cli.main", "bench", "show", directory, "--markdown"]
    told = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    command = re.match(r"`\./run spillway (.*)`:", told)
    assert command is not None, told
    return command[1], told


def with_figures(page: str, command: str, told: str) -> str:
    """The page with the figures of one command in their place; refuses a command that the page does not name."""
    block = re.compile(_BLOCK.format(command=re.escape(command)), re.DOTALL)
    if len(block.findall(page)) != 1:
        raise SystemExit(f"{FIGURES.name} has no place '<!-- {command} -->' … '<!-- end -->', or several.")
    return block.sub(lambda found: f"{found[1]}{told.rstrip()}\n{found[3]}", page)


def main(directories: list[str]) -> None:
    page = FIGURES.read_text(encoding="utf-8")
    for directory in directories:
        page = with_figures(page, *shown(directory))
    FIGURES.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
