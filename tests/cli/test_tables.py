"""Tables fit whatever width there is, and no word of theirs is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from spillway.cli.tables import fitted

COLUMNS = ["operator", "tuples", "rate", "backups", "written", "divergence", "failures", "recoveries", "state"]
ROW = ["stateStoreSave", "12,345,678", "1.25 M/s", "12 of 5,000", "1.2 GB", "100% of allowed", "3", "3", "120 MB"]
WORD = st.text(alphabet="abcdefgh,.%/-", min_size=1, max_size=18)
CELL = st.lists(WORD, min_size=1, max_size=6).map(" ".join)


def drawn(title: str, columns: list[str], rows: list[list[str]], *, width: int, words: tuple[str, ...] = ()) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(fitted(title, columns, rows, width=width, words=words))
    return captured.get()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_widest_table_there_is_fits(width: int) -> None:
    said = drawn("flows: 12.3 s", COLUMNS, [ROW, ROW], width=width)
    assert all(cell_len(line) <= width for line in said.splitlines())
    assert {*" ".join([*COLUMNS, *ROW]).split()} <= {*said.replace(":", " ").split()}
    assert "…" not in said
    assert ("┃" in said) == (width >= 120) and ("operator: stateStoreSave" in said) == (width < 120)


@given(
    st.integers(1, 6).flatmap(
        lambda count: st.tuples(
            st.lists(CELL, min_size=count, max_size=count),
            st.lists(st.lists(CELL, min_size=count, max_size=count), max_size=4),
        )
    ),
    st.integers(20, 120),
)
def test_every_word_is_there_whole(table: tuple[list[str], list[list[str]]], width: int) -> None:
    columns, rows = table
    said = drawn("some title", columns, rows, width=width)
    assert all(cell_len(line) <= width for line in said.splitlines())
    there = {word.removesuffix(":") for word in said.split()} | {*said.split()}
    assert {word for row in [columns, *rows] if rows for cell in row for word in cell.split()} <= there


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, "│ state store │       12,345 │ what it is good for │"),
        (40, "│ state      │     12,345 │ what it is │"),
        (27, "state      12,345  what it"),
        (20, "rows changed: 12,345"),
    ],
)
def test_texts_give_way_then_lines_then_columns(width: int, line: str) -> None:
    columns, row = ["operator", "rows changed", "meaning"], ["state store", "12,345", "what it is good for"]
    said = drawn("", columns, [row], width=width, words=("meaning",))
    assert line in [one.strip() for one in said.splitlines()], said


def test_markup_in_a_cell_is_text() -> None:
    assert "[bold]x[/bold]" in drawn("", ["a"], [["[bold]x[/bold]"]], width=80)
