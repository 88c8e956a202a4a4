"""Arithmetic on the marking of a net, written with places and Python's own operators.

A predicate, a rate, a probability or what a gate assigns is an `Expression`: a small tree over places and numbers.
Nothing is compiled per net: a tree becomes a few op codes that one compiled event loop interprets, so a net of a
thousand gates starts as fast as a net of one. Writing gates as numba functions was the other choice; a hundred
closures took numba tens of seconds to compile, for every net anew.

All arithmetic is in 64-bit floats; a marking is exact up to 2**53. Truth is 1.0 and falsehood 0.0, so a comparison may
also be a factor: `rate * (alive > 0)`. Use `&`, `|` and `~` for and, or, not: Python's own words cannot be overloaded.

>>> from spillway.san import Net, where
>>> net = Net("sketch")
>>> queue, alive = net.place("queue", tokens=3), net.place("alive", tokens=1)
>>> waiting = (queue >= 2) & (alive == 1)
>>> print(waiting)
((queue >= 2) & (alive == 1))
>>> waiting.value({"queue": 3, "alive": 1}), where(alive > 0, queue * 0.5, 7).value({"queue": 3, "alive": 1})
(1.0, 1.5)
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spillway.errors import ModelError

UNARY: dict[str, Callable[[float], float]] = {
    "-": lambda a: -a,
    "~": lambda a: float(a == 0.0),
    "floor": lambda a: float(math.floor(a)) if math.isfinite(a) else a,
    "ceil": lambda a: float(math.ceil(a)) if math.isfinite(a) else a,
}
BINARY: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b != 0.0 else math.nan,
    "//": lambda a, b: UNARY["floor"](a / b) if b != 0.0 else math.nan,
    "min": lambda a, b: b if b < a else a,
    "max": lambda a, b: b if b > a else a,
    "<": lambda a, b: float(a < b),
    "<=": lambda a, b: float(a <= b),
    ">": lambda a, b: float(a > b),
    ">=": lambda a, b: float(a >= b),
    "==": lambda a, b: float(a == b),
    "!=": lambda a, b: float(a != b),
    "&": lambda a, b: float(a != 0.0 and b != 0.0),
    "|": lambda a, b: float(a != 0.0 or b != 0.0),
}


class Expression:
    """A number that depends on the marking. Build it from places; see the module for what may be written.

    A division by zero gives no number (NaN), and whoever uses the result refuses it by name.
    """

    __slots__ = ()

    def value(self, marking: Mapping[str, int]) -> float:
        """What it is worth in a marking, place by name."""
        raise NotImplementedError

    def parts(self) -> "tuple[Expression, ...]":
        """The expressions it is made of."""
        return ()

    def places(self) -> Iterator[str]:
        """Names of the places it reads, each as often as it is read."""
        for part in self.parts():
            yield from part.places()

    def renamed(self, rename: Callable[[str], str]) -> "Expression":
        """The same expression over places of other names."""
        return self

    def __add__(self, other: "Number") -> "Expression":
        return Binary(sign="+", left=self, right=expression(other))

    def __radd__(self, other: "Number") -> "Expression":
        return Binary(sign="+", left=expression(other), right=self)

    def __sub__(self, other: "Number") -> "Expression":
        return Binary(sign="-", left=self, right=expression(other))

    def __rsub__(self, other: "Number") -> "Expression":
        return Binary(sign="-", left=expression(other), right=self)

    def __mul__(self, other: "Number") -> "Expression":
        return Binary(sign="*", left=self, right=expression(other))

    def __rmul__(self, other: "Number") -> "Expression":
        return Binary(sign="*", left=expression(other), right=self)

    def __truediv__(self, other: "Number") -> "Expression":
        return Binary(sign="/", left=self, right=expression(other))

    def __rtruediv__(self, other: "Number") -> "Expression":
        return Binary(sign="/", left=expression(other), right=self)

    def __floordiv__(self, other: "Number") -> "Expression":
        return Binary(sign="//", left=self, right=expression(other))

    def __neg__(self) -> "Expression":
        return Unary(sign="-", of=self)

    def __lt__(self, other: "Number") -> "Expression":
        return Binary(sign="<", left=self, right=expression(other))

    def __le__(self, other: "Number") -> "Expression":
        return Binary(sign="<=", left=self, right=expression(other))

    def __gt__(self, other: "Number") -> "Expression":
        return Binary(sign=">", left=self, right=expression(other))

    def __ge__(self, other: "Number") -> "Expression":
        return Binary(sign=">=", left=self, right=expression(other))

    def __eq__(self, other: "Number") -> "Expression":  # type: ignore[override]
        return Binary(sign="==", left=self, right=expression(other))

    def __ne__(self, other: "Number") -> "Expression":  # type: ignore[override]
        return Binary(sign="!=", left=self, right=expression(other))

    # A comparison makes an expression, so two expressions are the same key only if they are the same object.
    __hash__ = object.__hash__

    def __and__(self, other: "Number") -> "Expression":
        return Binary(sign="&", left=self, right=expression(other))

    def __rand__(self, other: "Number") -> "Expression":
        return Binary(sign="&", left=expression(other), right=self)

    def __or__(self, other: "Number") -> "Expression":
        return Binary(sign="|", left=self, right=expression(other))

    def __ror__(self, other: "Number") -> "Expression":
        return Binary(sign="|", left=expression(other), right=self)

    def __invert__(self) -> "Expression":
        return Unary(sign="~", of=self)

    def __bool__(self) -> bool:
        raise ModelError(
            f"{self} depends on the marking and is neither true nor false yet; use &, | and ~, or where()."
        )


Number = Expression | int | float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constant(Expression):
    """A number that is always the same."""

    number: float

    def value(self, marking: Mapping[str, int]) -> float:
        return self.number

    def __str__(self) -> str:
        return f"{self.number:g}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens(Expression):
    """How many tokens a place holds, by the place's name. A `Place` is one of these."""

    name: str

    def value(self, marking: Mapping[str, int]) -> float:
        return float(marking[self.name])

    def places(self) -> Iterator[str]:
        yield self.name

    def renamed(self, rename: Callable[[str], str]) -> Expression:
        return Tokens(name=rename(self.name))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unary(Expression):
    """A function of one expression; `UNARY` says which."""

    sign: str
    of: Expression

    def value(self, marking: Mapping[str, int]) -> float:
        return UNARY[self.sign](self.of.value(marking))

    def parts(self) -> tuple[Expression, ...]:
        return (self.of,)

    def renamed(self, rename: Callable[[str], str]) -> Expression:
        return Unary(sign=self.sign, of=self.of.renamed(rename))

    def __str__(self) -> str:
        return f"{self.sign}({self.of})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Binary(Expression):
    """A function of two expressions; `BINARY` says which."""

    sign: str
    left: Expression
    right: Expression

    def value(self, marking: Mapping[str, int]) -> float:
        return BINARY[self.sign](self.left.value(marking), self.right.value(marking))

    def parts(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    def renamed(self, rename: Callable[[str], str]) -> Expression:
        return Binary(sign=self.sign, left=self.left.renamed(rename), right=self.right.renamed(rename))

    def __str__(self) -> str:
        if self.sign.isalpha():
            return f"{self.sign}({self.left}, {self.right})"
        return f"({self.left} {self.sign} {self.right})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice(Expression):
    """One of two expressions, as a third one is true (not 0) or not; `where()` makes it."""

    condition: Expression
    then: Expression
    otherwise: Expression

    def value(self, marking: Mapping[str, int]) -> float:
        return (self.then if self.condition.value(marking) != 0.0 else self.otherwise).value(marking)

    def parts(self) -> tuple[Expression, ...]:
        return (self.condition, self.then, self.otherwise)

    def renamed(self, rename: Callable[[str], str]) -> Expression:
        condition, then, otherwise = (part.renamed(rename) for part in self.parts())
        return Choice(condition=condition, then=then, otherwise=otherwise)

    def __str__(self) -> str:
        return f"where({self.condition}, {self.then}, {self.otherwise})"


def expression(number: object) -> Expression:
    """A number as an expression, an expression as it is; anything else is refused."""
    if isinstance(number, Expression):
        return number
    if isinstance(number, int | float) and not math.isnan(number):
        return Constant(number=float(number))
    raise ModelError(f"A number, a place or an expression of them is wanted; got {number!r}.")


def where(condition: Number, then: Number, otherwise: Number) -> Expression:
    """`then` where the condition holds, `otherwise` where it does not; only the chosen one matters."""
    return Choice(condition=expression(condition), then=expression(then), otherwise=expression(otherwise))


def minimum(first: Number, *others: Number) -> Expression:
    """The least of them."""
    return _folded("min", first, others)


def maximum(first: Number, *others: Number) -> Expression:
    """The greatest of them."""
    return _folded("max", first, others)


def floor(number: Number) -> Expression:
    """The whole number at or below."""
    return Unary(sign="floor", of=expression(number))


def ceil(number: Number) -> Expression:
    """The whole number at or above."""
    return Unary(sign="ceil", of=expression(number))


def all_of(first: Number, *others: Number) -> Expression:
    """1 if none of them is 0."""
    return _folded("&", first, others)


def any_of(first: Number, *others: Number) -> Expression:
    """1 if one of them is not 0."""
    return _folded("|", first, others)


def total(first: Number, *others: Number) -> Expression:
    """Their sum."""
    return _folded("+", first, others)


def _folded(sign: str, first: Number, others: tuple[Number, ...]) -> Expression:
    result = expression(first)
    for other in others:
        result = Binary(sign=sign, left=result, right=expression(other))
    return result
