"""What an application is: a graph, a generator of its input, a reader of real files, and options for each.

Options are declared, so that a command line can list and parse them, and checked before anything is built: a name or a
value that makes no sense is refused in one sentence.
"""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.feeds import Feed, Generator
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Memory, Sink

Value = int | float | str

_WORDS = {int: "a whole number", float: "a number", str: "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A setting of an application, of the type of its default."""

    name: str
    default: Value
    meaning: str
    least: float = -math.inf
    most: float = math.inf

    def parse(self, text: str) -> Value:
        """The value that a command line gives as text.

        >>> Option(name="phi", default=10_000_000, meaning="what counts as heavy", least=1).parse("1e6")
        1000000
        """
        try:
            if isinstance(self.default, str):
                return text
            number = float(text)
            return int(number) if isinstance(self.default, int) and number.is_integer() else number
        except ValueError as error:
            raise GraphError(f"Option {self.name!r} must be {self._wanted()}; got {text!r}.") from error

    def checked(self, value: object) -> Value:
        """The value in the type of the default, or a GraphError that says what was wanted."""
        if isinstance(self.default, float) and type(value) is int:
            value = float(value)
        if type(value) is type(self.default):
            assert isinstance(value, Value)
            if isinstance(value, str) or self.least <= value <= self.most:
                return value
        raise GraphError(f"Option {self.name!r} must be {self._wanted()}; got {value!r}.")

    def _wanted(self) -> str:
        low, high = math.isfinite(self.least), math.isfinite(self.most)
        between = f" between {self.least:,} and {self.most:,}" if low and high else f", {self.least:,} or more"
        return _WORDS[type(self.default)] + (between if low else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application that can be built, fed and read for by name.

    The three functions take what the methods of the same purpose do, with every option given and checked.
    """

    name: str
    description: str
    graph: Callable[..., Graph]
    generated: Callable[..., Generator]
    read: Callable[..., Feed]
    options: tuple[Option, ...] = ()
    generator_options: tuple[Option, ...] = ()
    reader_options: tuple[Option, ...] = ()
    short: Mapping[str, Value] = field(default_factory=dict)
    """Options with which state is renewed within seconds at a few hundred tuples a second, for runs of minutes."""

    def build(
        self,
        data: Any,
        *,
        protect: Protection | None = None,
        shards: int = 2,
        sink: Sink | None = None,
        **options: Value,
    ) -> Graph:
        """The graph on a feed or a streaming DataFrame.

        ``protect`` is the protection of the operator with state (None: as exact as operators are by default) and
        ``shards`` how many it has; ``sink`` takes what the application puts out, by default ``Memory``.
        """
        given = _given(self.name, self.options, options)
        return self.graph(data, protect=protect, shards=shards, sink=Memory() if sink is None else sink, **given)

    def generator(
        self, *, seed: int, tuples: int, tuples_per_batch: int, pieces_per_batch: int = 2, **options: Value
    ) -> Generator:
        """Input made from ``seed``: the same tuples for the same arguments, on every machine."""
        check_whole(f"App {self.name!r}: seed", seed, least=0)
        check_whole(f"App {self.name!r}: tuples", tuples, least=0)
        check_whole(f"App {self.name!r}: tuples_per_batch", tuples_per_batch, least=1)
        check_whole(f"App {self.name!r}: pieces_per_batch", pieces_per_batch, least=1)
        given = _given(self.name, self.generator_options, options)
        return self.generated(
            seed=seed, tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch, **given
        )

    def reader(
        self, path: str | os.PathLike[str], *, tuples_per_batch: int, pieces_per_batch: int = 2, **options: Value
    ) -> Feed:
        """Input from a file or a folder of files; what the files must have is said by the application's own reader."""
        check_whole(f"App {self.name!r}: tuples_per_batch", tuples_per_batch, least=1)
        check_whole(f"App {self.name!r}: pieces_per_batch", pieces_per_batch, least=1)
        rows_per_piece = -(-tuples_per_batch // pieces_per_batch)
        given = _given(self.name, self.reader_options, options)
        return self.read(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch, **given)

    def all_options(self) -> tuple[Option, ...]:
        """Those of graph, generator and reader; one that several have means the same to them, and is there once."""
        options = (*self.options, *self.generator_options, *self.reader_options)
        return tuple({option.name: option for option in options}.values())

    def chosen(self, known: tuple[Option, ...], given: Mapping[str, Value]) -> dict[str, Any]:
        """Of what was given for an application as a whole, that which one part of it knows."""
        return {option.name: given[option.name] for option in known if option.name in given}


def _given(app: str, known: tuple[Option, ...], given: dict[str, Value]) -> dict[str, Value]:
    """Every option with its value, checked."""
    names = [option.name for option in known]
    for name in given:
        if name not in names:
            raise GraphError(f"App {app!r} has no option {name!r} here; it has {', '.join(names) or 'none'}.")
    return {option.name: option.checked(given.get(option.name, option.default)) for option in known}
