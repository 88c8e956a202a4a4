"""Single values that a user gave: refused in one sentence if they make no sense."""

from spillway.errors import GraphError

_NAME_LENGTH_MAX = 100


def check_whole(what: str, value: object, *, least: int) -> None:
    """Refuse anything but a whole number of ``least`` or more.

    >>> check_whole("Trace: rows_per_piece", 0, least=1)
    Traceback (most recent call last):
    spillway.errors.GraphError: Trace: rows_per_piece must be a whole number, 1 or more; got 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GraphError(f"{what} must be a whole number, {least} or more; got {value!r}.")


def check_name(what: str, name: object) -> None:
    """Names become folder names and columns: keep them to what is safe everywhere."""
    fits = isinstance(name, str) and 0 < len(name) <= _NAME_LENGTH_MAX
    if not (fits and all(c.isascii() and (c.isalnum() or c in "-_") for c in str(name))):
        raise GraphError(
            f"A {what} is named with letters, digits, '-' and '_', at most {_NAME_LENGTH_MAX}; got {name!r}."
        )
