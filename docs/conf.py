"""The documents as a site: Sphinx, because its links are GitHub's and it checks each of them, anchors too.

Its first page is the README. Nothing on the site asks for anything from elsewhere, which ``check_site.py`` sees to.
"""

import json
from collections.abc import Iterator

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

import spillway as sw
from spillway.apps import APPS

project = "Spillway"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Spillway"
html_copy_source = False
html_show_copyright = False
nitpicky = True
# Anchors are made as GitHub makes them, so that a link leads to the same place there and here.
myst_heading_anchors = 4


class Notebook(MystParser):
    """A notebook as the Markdown it would be on GitHub: its text, its code, and what is kept below each cell."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """As Sphinx asks for it."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(part for cell in cells for part in _markdown(cell)), document)


def _markdown(cell: dict) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {"text/plain": output.get("text", [])})
        if "text/html" in data:
            # A table is given the looks that Sphinx gives its own.
            html = "".join(data["text/html"]).replace("<table>", '<table class="docutils">')
            yield f"````{{raw}} html\n{html}\n````"
        else:
            yield f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


def draw(app: Sphinx, page: nodes.document) -> None:
    """Draw the README's picture, which GitHub draws from Mermaid's words: a browser needs a script from elsewhere."""
    feed = APPS["flows"].generator(seed=1, tuples=10, tuples_per_batch=10)
    graph = APPS["flows"].build(feed, protect=sw.Approximate(theta=4e5))
    for block in list(page.findall(nodes.literal_block)):
        if block.get("language") == "mermaid" and block.astext().strip() == graph.draw(style="mermaid").strip():
            block.replace_self(nodes.raw("", graph.draw(style="svg"), format="html"))


def setup(app: Sphinx) -> None:
    """What Sphinx and MyST do not do by themselves."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(Notebook)
    app.add_lexer("mermaid", TextLexer)  # what is not drawn stays text
    app.connect("doctree-read", draw)
