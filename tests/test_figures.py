"""Figures in the documents come from records: each stands where its command is named, and says that command."""

import re

import pytest
from docs.make_figures import FIGURES, with_figures

PLACED = re.compile(r"<!-- (bench .*?) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_figures_stand_where_their_command_is_named() -> None:
    page = "a\n<!-- bench state -->\nold\n<!-- end -->\n<!-- bench batch -->\n<!-- end -->\n"
    assert with_figures(page, "bench state", "new\n") == page.replace("old", "new")
    with pytest.raises(SystemExit, match="has no place '<!-- bench stat -->'"):
        with_figures(page, "bench stat", "new")


def test_every_place_has_the_figures_of_its_command() -> None:
    places = PLACED.findall(FIGURES.read_text(encoding="utf-8"))
    assert len(places) > 5
    for command, told in places:
        assert told.startswith(f"`./run spillway {command}`:\n"), command
