"""Output score functions: how good an output is, as one number over a set of its tuples.

An output score function (OSF) is anything that takes an Arrow table and gives a number. ``Sum``, ``Mean`` and ``Count``
serve most pipelines; a function of the user's serves the rest. It should vary little between runs without faults and
clearly under faults (``spillway.score.sensitivity`` tests that). 000_220a5ca218124795, section 3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import InputError

OutputScore = Callable[[pa.Table], float]
"""What a set of output tuples is worth: any function from an Arrow table to a finite number."""

Floats = npt.NDArray[np.float64]

SECTIONS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column; of no tuples, 0.

    >>> gains = pa.table({"ticker": ["IBM", "BAC", "TWX"], "gain": [41.66, 30.56, 28.88]})
    >>> round(Sum("gain")(gains), 2)
    101.1
    """

    column: str

    def __call__(self, output: pa.Table) -> float:
        return float(_figures(self.column, output).sum())

    def by_section(self, output: pa.Table, sections: npt.NDArray[np.int64], count: int) -> Floats:
        return np.bincount(sections, weights=_figures(self.column, output), minlength=count).astype(np.float64)

    def __str__(self) -> str:
        return f"sum({self.column})"


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column; of no tuples, 0: an output that says nothing is worth nothing.

    >>> wafers = pa.table({"yield": [95, 98, 92], "error": [0.06, 0.02, 0.10]})
    >>> round(Mean("error")(wafers), 2)
    0.06
    """

    column: str

    def __call__(self, output: pa.Table) -> float:
        figures = _figures(self.column, output)
        return float(figures.mean()) if len(figures) else 0.0

    def by_section(self, output: pa.Table, sections: npt.NDArray[np.int64], count: int) -> Floats:
        sums = np.bincount(sections, weights=_figures(self.column, output), minlength=count)
        return sums / np.maximum(np.bincount(sections, minlength=count), 1)

    def __str__(self) -> str:
        return f"mean({self.column})"


@dataclass(frozen=True, slots=True)
class Count:
    """The number of tuples: fits every pipeline, and is blind to wrong values.

    >>> Count()(pa.table({"alert": ["a", "b"]}))
    2.0
    """

    def __call__(self, output: pa.Table) -> float:
        return float(output.num_rows)

    def by_section(self, output: pa.Table, sections: npt.NDArray[np.int64], count: int) -> Floats:
        return np.bincount(sections, minlength=count).astype(np.float64)

    def __str__(self) -> str:
        return "count()"


def score(osf: OutputScore, output: pa.Table, *, of: str = "the output") -> float:
    """The score of an output: a finite number, or an InputError that says what the function did instead.

    >>> score(lambda output: output["gain"][0].as_py() / 0, pa.table({"gain": [1.0]}), of="golden run 3")
    Traceback (most recent call last):
    ...
    spillway.errors.InputError: Output score <lambda> failed on golden run 3 (1 tuples): ZeroDivisionError: float
    division by zero. It has to give a number for every set of tuples, the empty one included.
    """
    try:
        result = float(osf(output))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"Output score {name(osf)} failed on {of} ({output.num_rows:,} tuples): {type(error).__name__}: {error}. "
            f"It has to give a number for every set of tuples, the empty one included."
        ) from error
    if not np.isfinite(result):
        raise InputError(
            f"Output score {name(osf)} gave {result} for {of} ({output.num_rows:,} tuples); it has to give a finite "
            f"number for every set of tuples, the empty one included."
        )
    return result


def local_scores(
    osf: OutputScore, output: pa.Table, *, section_tuples: int, first: int, count: int, seq: str = "seq"
) -> Floats:
    """The score of each section of the output: section t holds the tuples with seq // section_tuples = t.

    Gives the scores of ``count`` sections from section ``first``; tuples of other sections are left out.

    >>> output = pa.table({"seq": [0, 4, 5, 17], "gain": [1.0, 2.0, 4.0, 8.0]})
    >>> local_scores(Sum("gain"), output, section_tuples=5, first=0, count=4).tolist()
    [3.0, 4.0, 0.0, 8.0]
    """
    if not 0 < count <= SECTIONS_MAX:
        raise InputError(f"Local scores: from 1 to {SECTIONS_MAX:,} sections can be scored; got {count:,}.")
    section = _numbers(seq, output).astype(np.int64) // section_tuples - first
    inside = (section >= 0) & (section < count)
    if not inside.all():
        output, section = output.filter(pa.array(inside)), section[inside]
    if isinstance(osf, Sum | Mean | Count):
        found = osf.by_section(output, section, count)
    else:
        order = np.argsort(section, kind="stable")
        output, ends = output.take(pa.array(order)), np.searchsorted(section[order], np.arange(count + 1))
        found = np.array(
            [
                score(osf, output.slice(start, end - start), of=f"section {first + i}")
                for i, (start, end) in enumerate(pairwise(ends))
            ]
        )
    if not np.isfinite(found).all():
        where = first + int(np.argmin(np.isfinite(found)))
        raise InputError(f"Output score {name(osf)} gave no finite number for section {where}: mend its column.")
    return found


def name(osf: OutputScore) -> str:
    """What to call a score in messages and records."""
    return str(osf) if isinstance(osf, Sum | Mean | Count) else getattr(osf, "__name__", type(osf).__name__)


def _figures(column: str, output: pa.Table) -> Floats:
    values = _numbers(column, output)
    return values.astype(np.float64)


def _numbers(column: str, output: pa.Table) -> npt.NDArray[np.number]:
    if column not in output.column_names:
        raise InputError(f"The output has no column {column!r} to score; it has {', '.join(output.column_names)}.")
    found = output[column]
    if not (pa.types.is_integer(found.type) or pa.types.is_floating(found.type) or pa.types.is_decimal(found.type)):
        raise InputError(f"Column {column!r} of the output is {found.type}; only numbers can be scored.")
    if found.null_count:
        raise InputError(
            f"Column {column!r} of the output holds {found.null_count:,} nulls; only numbers can be scored."
        )
    if pa.types.is_decimal(found.type):
        found = pc.cast(found, pa.float64())
    values: npt.NDArray[np.number] = found.to_numpy()
    return values
