"""Runs a notebook without Jupyter: its code cells in order, in this process, and what each shows put below it.

python docs/run_notebook.py docs/notebook.ipynb     run it, and write what was shown into it

A cell shows what it prints and, as in Jupyter, its last expression: by ``_repr_html_`` where there is one.
"""

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def code_of(notebook: dict[str, Any]) -> list[str]:
    """The code of each cell that has some."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cells(cells: list[str]) -> list[list[Output]]:
    """What each cell shows; the first that raises ends it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run(number, code, names) for number, code in enumerate(cells, start=1)]


def _run(number: int, code: str, names: dict[str, Any]) -> list[Output]:
    tree = ast.parse(code)
    last = tree.body.pop().value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last), f"cell {number}", "eval"), names)
    found: list[Output] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if shown is not None:
        data = {"text/plain": _lines(repr(shown))}
        if hasattr(shown, "_repr_html_"):
            # Not the words as well, which may have an address in memory in them, or thousands of rows.
            data = {"text/html": _lines(shown._repr_html_()), "text/plain": [f"<{type(shown).__name__}>"]}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def with_outputs(notebook: dict[str, Any], outputs: list[list[Output]]) -> dict[str, Any]:
    """The same notebook with what its cells show."""
    left = iter(enumerate(outputs, start=1))
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
        else:
            number, shown = next(left)
            cells.append({**cell, "execution_count": number, "outputs": shown})
    return {**notebook, "cells": cells}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    read = json.loads(path.read_text(encoding="utf-8"))
    ran = with_outputs(read, run_cells(code_of(read)))
    path.write_text(json.dumps(ran, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
