"""The documents as a site: Sphinx, because its links are GitHub's and it checks each of them, anchors too.

Its first page is the README. Nothing on the site asks for anything from elsewhere, which ``check_site.py`` sees to.
"""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "Spillway"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Spillway"
html_copy_source = False
html_show_copyright = False
pygments_style = "default"
nitpicky = True
# Anchors are made as GitHub makes them, so that a link leads to the same place there and here.
myst_heading_anchors = 4


def setup(app: Sphinx) -> None:
    """A picture in Mermaid's words stays text: drawing it would need a script from elsewhere."""
    app.add_lexer("mermaid", TextLexer)
