"""Figures in the documents come from records: each stands where its command is named, and says that command."""

import re

import pytest
from docs.make_figures import read_pages, with_figures

PLACED = re.compile(r"<!-- ((?:bench|reproduce|model|plan) .*?) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_figures_stand_where_their_command_is_named() -> None:
    page = "a\n<!-- bench state -->\nold\n<!-- end -->\n<!-- bench batch -->\n<!-- end -->\n"
    pages = {"one.md": page, "other.md": "<!-- bench hosts -->\n<!-- end -->\n"}
    assert with_figures(pages, "bench state", "new\n") == pages | {"one.md": page.replace("old", "new")}
    assert with_figures(pages, "bench hosts", "new")["other.md"] == "<!-- bench hosts -->\nnew\n<!-- end -->\n"
    with pytest.raises(SystemExit, match=r"Of one\.md, other\.md none has a place '<!-- bench stat -->'"):
        with_figures(pages, "bench stat", "new")
    with pytest.raises(SystemExit, match="or several"):
        with_figures(pages | {"third.md": page}, "bench state", "new")


def test_every_place_has_the_figures_of_its_command() -> None:
    places = {name: PLACED.findall(page) for name, page in read_pages().items()}
    assert len(places["figures.md"]) > 5 and len(places["scale.md"]) == 1
    for of_page in places.values():
        for command, told in of_page:
            assert told.startswith(f"`./run spillway {command}`:"), command
