"""Random aggregations over random rows, as SQL, and duplicates dropped by random columns: what ``sw.protect`` is held
against Spark with.

Rows have a column of every type that Spark groups or aggregates by, and values that go wrong: nulls, NaN, both zeros,
the ends of every integer, empty strings, times before 1970. Floating-point numbers are whole quarters, so that their
sums do not depend on the order in which they are added.

Which row of a batch is the first is up to Spark, and its plan. So queries that ask for one have batches of one row, and
Spark's own answer is asked for in other words: as the value of the row with the lowest number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from spillway.seeds import generator

VIEW = "rows"

COLUMNS = {
    "flag": "boolean",
    "tiny": "tinyint",
    "small": "smallint",
    "whole": "int",
    "long": "bigint",
    "single": "float",
    "number": "double",
    "money": "decimal(12,2)",
    "wide": "decimal(30,5)",
    "word": "string",
    "raw": "binary",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
}
NUMBER = "n"
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()) + f", {NUMBER} bigint"

_DUPLICATES = 0.15
_NULLS = 0.15
_EXTREMES = 0.08  # of integers, where sums may not fit
_NUMBERS = ("tiny", "small", "whole", "long", "single", "number", "money", "wide")
_KEYS = (
    *COLUMNS,
    "long % 3",
    "upper(word)",
    "number > 0",
    "date_trunc('hour', at)",
    "window(at, '10 minutes')",
    "window(at, '10 minutes', '5 minutes')",
    "coalesce(whole, -1)",
    "length(word)",
    "cast(money as string)",
    "struct(whole, word)",
    "if(flag, struct(whole, word), NULL)",
)
# Sliding windows make several rows of one: which is the first is not said.
_CARRIED = (*(key for key in _KEYS if "5 minutes" not in key), "array(tiny, small)", "array(word)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomQuery:
    """One of them; ``batches`` are rows in the order in which they come."""

    seed: int
    sql: str
    plain: str  # the same in words that say the same of all rows at once
    batches: tuple[tuple[tuple[Any, ...], ...], ...]
    at_once: bool  # whether rows go to their shards before they are added up
    by: tuple[str, ...] = ()  # columns by which duplicates of what ``sql`` gives are dropped

    def sentence(self) -> str:
        by = f" WITHOUT DUPLICATES BY {', '.join(self.by)}" if self.by else ""
        return f"{sum(map(len, self.batches))} rows in {len(self.batches)} batches, {self.sql}{by}"


def random_query(seed: int) -> RandomQuery:
    """The query of this seed."""
    random = generator(seed, "soak", "queries")
    return _duplicates(seed, random) if random.random() < _DUPLICATES else _aggregation(seed, random)


def _duplicates(seed: int, random: np.random.Generator) -> RandomQuery:
    """Rows without those whose key came before: of each key the one with the lowest number is left."""
    chosen = [str(one) for one in random.choice(_CARRIED, size=int(random.integers(1, 6)), replace=False)]
    few, sizes = bool(random.random() < 0.7), [int(random.choice([0, 1, 5, 40])) for _ in range(3)]
    numbers = iter(range(sum(sizes)))
    names = [f"c{place}" for place in range(len(chosen))]
    keys = [name for name, of in zip(names, chosen, strict=True) if not of.startswith("array")]
    by = tuple(keys[: int(random.integers(1, len(keys) + 1))]) if keys else ()
    if not by:
        return _duplicates(seed, random)
    named = ", ".join(f"{of} AS {name}" for of, name in zip(chosen, names, strict=True))
    first = ", ".join(f"min_by({name}, {NUMBER}) AS {name}" for name in names)
    return RandomQuery(
        seed=seed,
        sql=f"SELECT {named} FROM {VIEW}",
        plain=f"SELECT {first} FROM (SELECT {named}, {NUMBER} FROM {VIEW}) GROUP BY {', '.join(by)}",
        batches=_batches(random, sizes, numbers, few=few),
        at_once=False,
        by=by,
    )


def _batches(
    random: np.random.Generator, sizes: list[int], numbers: Iterator[int], *, few: bool
) -> tuple[tuple[tuple[Any, ...], ...], ...]:
    return tuple(tuple((*random_row(random, few=few), next(numbers)) for _ in range(size)) for size in sizes)


def _aggregation(seed: int, random: np.random.Generator) -> RandomQuery:
    keys = [str(key) for key in random.choice(_KEYS, size=int(random.integers(0, 4)), replace=False)]
    # Two windows in one query are more than Spark allows.
    windows = [key for key in keys if key.startswith("window")]
    keys = [key for key in keys if key not in windows[1:]]
    named = [f"{key} AS k{place}" for place, key in enumerate(keys)]
    values = [random_value(random) for _ in range(int(random.integers(0 if keys else 1, 7)))]
    ordered = any(value.sql != value.plain for value in values)
    few = bool(random.random() < 0.5) or ordered
    sizes = [1] * 3 if ordered else [int(random.choice([0, 1, 5, 40])) for _ in range(int(random.integers(2, 4)))]
    numbers = iter(range(sum(sizes)))
    having = " HAVING count(*) > 1" if random.random() < 0.2 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    where = " WHERE long IS NULL OR long % 5 <> 1" if random.random() < 0.2 else ""

    def written(columns: list[str]) -> str:
        return f"SELECT {', '.join([*named, *columns])} FROM {VIEW}{where}{group}{having}"

    return RandomQuery(
        seed=seed,
        sql=written([f"{value.sql} AS c{place}" for place, value in enumerate(values)]),
        plain=written([f"{value.plain} AS c{place}" for place, value in enumerate(values)]),
        batches=_batches(random, sizes, numbers, few=few),
        at_once=bool(random.random() < 0.5),
    )


@dataclass(frozen=True, slots=True)
class Value:
    """A column of the result, and the same in other words."""

    sql: str
    plain: str


def random_value(random: np.random.Generator, *, ends: bool = True) -> Value:
    """An aggregate, or an expression over some; without ``ends`` none that asks which row came first."""
    shape = random.random()
    one, other = _aggregate(random, ends=ends), _aggregate(random, ends=ends)
    if shape < 0.65:
        return one
    if shape < 0.75:
        return Value(f"coalesce({one.sql}, NULL)", f"coalesce({one.plain}, NULL)")
    if shape < 0.85:
        return Value(f"struct({one.sql} AS a, {other.sql} AS b)", f"struct({one.plain} AS a, {other.plain} AS b)")
    text = f"count({random.choice(_NUMBERS[:4])}) * 2 + count(*)"
    return Value(text, text)


def _aggregate(random: np.random.Generator, *, ends: bool) -> Value:
    column, number = str(random.choice([*COLUMNS])), str(random.choice(_NUMBERS))
    conditions = [_condition(random)] if random.random() < 0.25 else []
    if random.random() < 0.2 and ends:
        return _end(random, column, conditions)
    choices = [
        "count(*)",
        f"count({column})",
        f"count({column}, {number})",
        f"sum({number})",
        f"avg({number})",
        f"min({column})",
        f"max({column})",
        "bool_and(flag)",
        "bool_or(flag)",
        f"count_if({number} > 1)",
        f"approx_count_distinct({column})",
        f"approx_count_distinct({column}, {random.choice([0.02, 0.1, 0.3])})",
    ]
    text = str(random.choice(choices)) + _filter(conditions)
    return Value(text, text)


def _end(random: np.random.Generator, column: str, conditions: list[str]) -> Value:
    """The first or last value."""
    end, by = [("first", "min_by"), ("last", "max_by")][int(random.integers(2))]
    if random.random() < 0.5:
        return Value(f"{end}({column}){_filter(conditions)}", f"{by}({column}, {NUMBER}){_filter(conditions)}")
    known = [*conditions, f"{column} IS NOT NULL"]
    return Value(f"{end}({column}, true){_filter(conditions)}", f"{by}({column}, {NUMBER}){_filter(known)}")


def _filter(conditions: list[str]) -> str:
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""


def _condition(random: np.random.Generator) -> str:
    return str(random.choice(["flag", "whole > 0", "word IS NOT NULL", "number <> 1", "tiny % 2 = 0", "false"]))


def random_row(random: np.random.Generator, *, few: bool) -> tuple[Any, ...]:
    """One row; with ``few`` different values groups are large."""
    return tuple(None if random.random() < _NULLS else _of(random, name, few=few) for name in COLUMNS)


def _of(random: np.random.Generator, name: str, *, few: bool) -> Any:
    small = int(random.integers(-2, 3)) if few else int(random.integers(-100, 100))
    bits = {"tiny": 8, "small": 16, "whole": 32, "long": 64}
    if name in bits:
        end = 2 ** (bits[name] - 1)
        return int(random.choice([-end, end - 1])) if random.random() < _EXTREMES else small
    match name:
        case "flag":
            return bool(random.random() < 0.5)
        case "single" | "number":
            odd = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0]
            return float(random.choice(odd)) if random.random() < 0.15 else small / 4
        case "money":
            return Decimal(small).scaleb(-2)
        case "wide":
            return Decimal(small * 10**20).scaleb(-5) if random.random() < 0.5 else Decimal(small).scaleb(-5)
        case "word":
            return str(random.choice(["", "a", "A", "ab", "ß", "日本", f"w{small}"]))
        case "raw":
            return bytes([small % 256]) * (small % 3)
        case "day":
            return date(2024, 2, 29) + timedelta(days=small * 400)
        case _:
            return datetime(1969, 12, 31, 23, 50) + timedelta(minutes=small, microseconds=abs(small))
