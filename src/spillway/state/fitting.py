"""What fits into cells: numbers of the declared type, sums of 64 bits, positions that there are.

Integers are summed exactly or not at all. A sum that does not fit 64 bits is refused, also where a later number would
have brought it back, and then nothing of what was to be added with it is: see ``kernels.add_at``.
"""

from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from spillway.errors import InputError, StateError

CellType = Literal["int64", "float64"]
Int64s = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

LEAST, MOST = -(2**63), 2**63 - 1
"""The whole numbers that 64 bits hold lie between them."""

_REMEDY = (
    "What helps: float64 instead of int64, a larger unit (MB for bytes), or a window, after which sums begin anew."
)


def positions(who: str, cells: Any) -> Int64s:
    array = np.asarray(cells)
    if array.size and array.dtype.kind not in "iu":
        raise StateError(f"{who} has positions that are integers; {array.dtype} came.")
    return np.ascontiguousarray(array.ravel(), dtype=np.int64)


def check_range(who: str, cells: Int64s, length: int) -> None:
    if cells.size and not (int(cells.min()) >= 0 and int(cells.max()) < length):
        raise StateError(
            f"{who} has positions 0 to {length - 1}; {int(cells.min())} to {int(cells.max())} were asked for."
        )


def given_numbers(who: str, numbers: Any, count: int, dtype: CellType) -> Numbers:
    """The numbers, one per cell, in the type of the cells; those that do not fit it are refused."""
    array = np.asarray(numbers)
    if dtype == "int64" and array.size and array.dtype.kind in "uO":
        _check_whole_numbers(who, array)
    elif array.size and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise StateError(
            f"{who} holds {dtype}; numbers of {array.dtype} came, which do not always fit. Convert them, or declare "
            f"another dtype."
        )
    if array.ndim == 0:
        return cast(Numbers, np.broadcast_to(array.astype(dtype), count))
    if array.size != count:
        raise StateError(f"{who} takes one number each, or one for all: {count} cells, {array.size} numbers.")
    return cast(Numbers, np.ascontiguousarray(array.ravel(), dtype=dtype))


def sum_refused(who: str, where: str, *, had: int, cells: Int64s, numbers: Numbers, place: int) -> InputError:
    """The error for a sum that does not fit its cell, ``cells[place]``, to which ``numbers`` were to be added."""
    of_cell = numbers[: place + 1][cells[: place + 1] == cells[place]]
    return does_not_fit(who, where, had=had, added=sum(of_cell.tolist()))


def does_not_fit(who: str, where: str, *, had: int, added: int, remedy: str = _REMEDY) -> InputError:
    """The error for the sum of two numbers, each of them as large as Python's integers can be."""
    return InputError(
        f"{who} has {had}{where}, and {added} more came: the sum does not fit 64 bits. The batch was refused. {remedy}"
    )


def _check_whole_numbers(who: str, array: npt.NDArray[Any]) -> None:
    """Refuse unsigned numbers, or Python's own, that are too large; numpy would let them wrap around."""
    if array.dtype.kind == "O" and not all(isinstance(number, int) for number in array.ravel().tolist()):
        raise StateError(f"{who} holds int64; numbers of {array.dtype} came, which do not always fit. Convert them.")
    for number in (int(array.min()), int(array.max())):
        if not LEAST <= number <= MOST:
            raise InputError(
                f"{who} holds int64; {number} came, which does not fit 64 bits. The batch was refused. {_REMEDY}"
            )
