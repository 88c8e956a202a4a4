"""Values in words that are the same in every process and every run.

Numbers, texts, times, expressions and types have such words, and so have collections and dataclasses of these. A
function has none: its name says nothing of what it does.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import date, time, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash


def written_down(value: Any) -> str:
    """A value in words that are the same in every process; a TypeError says why there are none.

    >>> written_down({"volume": ("price", "shares")}), written_down(timedelta(minutes=5)), written_down(None)
    ("{'volume': ('price', 'shares')}", '0:05:00', 'none')
    """
    for kinds, words in _WORDS:
        if isinstance(value, kinds):
            return words(value)
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if callable(value):
        raise TypeError("what a function does cannot be told from its name")
    raise TypeError(f"a {type(value).__name__} has no words that are the same in every run")


def _array(value: npt.NDArray[Any]) -> str:
    if value.dtype == object:
        return f"array{written_down(value.tolist())}"
    content = xxhash.xxh3_64_hexdigest(np.ascontiguousarray(value).tobytes())
    return f"array({value.dtype}, {value.shape}, {content})"


def _entries(value: Mapping[Any, Any]) -> str:
    # In the order given: it may say which column is which.
    return "{" + ", ".join(f"{written_down(name)}: {written_down(entry)}" for name, entry in value.items()) + "}"


def _fields(value: Any) -> str:
    """A dataclass; what is as it is by default is left out, so that a new field gives old state no other meaning."""
    fields = dataclasses.fields(value)
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    texts = {field.name: written_down(getattr(value, field.name)) for field in fields}
    given = [
        f"{name}={text}" for name, text in texts.items() if name not in defaults or written_down(defaults[name]) != text
    ]
    return f"{type(value).__name__}({', '.join(given)})"


# In this order: an enumeration may be a number too, and so are numpy's.
_WORDS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (type(None), lambda value: "none"),
    (Enum, lambda value: f"{type(value).__name__}.{value.name}"),
    (type, lambda value: str(value.__name__)),
    (np.generic, lambda value: written_down(value.item())),
    ((bool, int, float, str, bytes), repr),
    ((timedelta, date, time, pa.DataType, pc.Expression), str),
    ((pa.Schema, pa.Field), lambda value: str(value).replace("\n", ", ")),
    (Path, lambda value: repr(str(value))),
    (re.Pattern, lambda value: repr(value.pattern)),
    (np.ndarray, _array),
    ((tuple, list), lambda value: f"({', '.join(map(written_down, value))})"),
    ((set, frozenset), lambda value: f"{{{', '.join(sorted(map(written_down, value)))}}}"),
    (Mapping, _entries),
)
