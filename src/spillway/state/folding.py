"""Values folded into cells: added, or the least, greatest, first or last of them. Sketches have a file of their own.

A cell is *known* once a value was folded into it, which whoever keeps it says: nothing is neither least nor first. What
changes few cells, as the least and greatest do, is told first and written by another: only these are made writable in
between (see ``kernels``).

The order of floating-point numbers is Spark's: NaN is above all others and equal to itself, 0.0 and -0.0 are equal.
"""

from typing import Any, Literal

import numpy as np

from spillway.state.arithmetic import total, wrapped
from spillway.state.compiled import compiled
from spillway.state.prefetch import AHEAD, prefetch

Fold = Literal["add", "least", "greatest", "first", "last", "registers"]

LEAST, GREATEST, FIRST, LAST = range(4)
CODES: dict[Fold, int] = {"least": LEAST, "greatest": GREATEST, "first": FIRST, "last": LAST}


@compiled
def add_known(live: Any, cells: Any, values: Any, valid: Any, wraps: bool, out: Any) -> int:
    """Add the values that are valid to their cells, each of which is named once; ``out`` is what they hold then.

    Returns -1. A sum of integers that does not fit its cell wraps around if it may; otherwise its place is returned,
    and what was to come after it was not added.
    """
    for i in range(cells.size):
        if i + AHEAD < cells.size:
            prefetch(live, cells[i + AHEAD])
        had = live[cells[i]]
        if valid[i]:
            added = total(had, values[i])
            if not wraps and wrapped(had, values[i], added):
                return i
            live[cells[i]] = added
            had = added
        out[i] = had
    return -1


@compiled
def better(live: Any, cells: Any, values: Any, valid: Any, known: Any, fold: int, out: Any, places: Any) -> int:
    """The places of the values that take the place of what their cells hold, each of which is named once.

    ``known`` says of each cell whether it holds a value yet, and ``out`` what it holds when they are written. Returns
    how many there are; ``places`` has room for all.
    """
    count = 0
    for i in range(cells.size):
        if i + AHEAD < cells.size:
            prefetch(live, cells[i + AHEAD])
        had, value = live[cells[i]], values[i]
        if not valid[i]:
            takes = False
        elif not known[i]:
            takes = True
        elif fold == LEAST:
            takes = value < had or (np.isnan(had) and not np.isnan(value))
        elif fold == GREATEST:
            takes = value > had or (np.isnan(value) and not np.isnan(had))
        else:
            takes = fold == LAST
        out[i] = value if takes else had
        places[count] = i
        count += takes
    return count
