"""Parts of expressions that read only places which rarely change: worked out when those change, not when they are read.

**Theory.** What an operator does with a tuple depends on who is down and who speaks for whom. That changes a few times
an hour, and is read a thousand times a second. A place that is declared to change `rarely` makes every largest part of
an expression that reads only such places, and that is whole, a *derived* place: one behind the places of the net, which
no activity names. After a completion that writes a place it reads it is computed anew, before anything reads it; no
other completion looks at it. What is left of `lost = lost + 2 · (¬a ∧ ¬b)` is the addition of one place to another,
which needs no interpreter.

A completion that writes such places itself reads them as they are, since its assignments run one after the other. What
a jump changes are counts, and a count is never taken for rare.
"""

from dataclasses import dataclass, field, replace

from spillway.san.expressions import Binary, Choice, Constant, Expression, Tokens, Unary

_TRUTHS = ("<", "<=", ">", ">=", "==", "!=", "&", "|")
_NUMBERS = ("+", "-", "*", "min", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedPlace:
    """A part that has a place of its own."""

    number: int  # behind those of the net
    of: Expression


@dataclass(slots=True, kw_only=True)
class Derived:
    """The derived places of a net under flattening; `places` are all there are, by name, and grow."""

    rare: frozenset[str]
    places: dict[str, int]
    found: dict[str, DerivedPlace] = field(default_factory=dict)

    def within(self, expression: Expression) -> Expression:
        """The same expression that reads derived places where it can."""
        if isinstance(expression, Tokens | Constant) or not self.rare:
            return expression
        if all(place in self.rare for place in expression.places()) and is_whole(expression):
            return self._place(expression) if list(expression.places()) else expression
        match expression:
            case Unary(of=of):
                return replace(expression, of=self.within(of))
            case Binary(left=left, right=right):
                return replace(expression, left=self.within(left), right=self.within(right))
            case Choice(condition=condition, then=then, otherwise=otherwise):
                return replace(
                    expression,
                    condition=self.within(condition),
                    then=self.within(then),
                    otherwise=self.within(otherwise),
                )
        return expression

    def never_negative(self, place: str) -> bool:
        """Whether a place, derived or not, holds 0 or more whatever happens."""
        return place not in self.found or is_never_negative(self.found[place].of)

    def _place(self, expression: Expression) -> Tokens:
        name = f"\0{expression}"  # no place of a net has such a name
        if name not in self.found:
            self.places[name] = len(self.places)
            self.found[name] = DerivedPlace(number=self.places[name], of=expression)
        return Tokens(name=name)


def is_whole(expression: Expression) -> bool:
    """Whether the value is a whole number, whatever the marking; false if it cannot be told."""
    match expression:
        case Constant(number=number):
            return number == int(number) if abs(number) < 2**53 else False
        case Tokens() | Unary(sign="~"):
            return True
        case Unary(sign="-", of=of):
            return is_whole(of)
        case Binary(sign=sign) if sign in _TRUTHS:
            return True
        case Binary(sign=sign, left=left, right=right) if sign in _NUMBERS:
            return is_whole(left) and is_whole(right)
        case Choice(then=then, otherwise=otherwise):
            return is_whole(then) and is_whole(otherwise)
    return False


def is_never_negative(expression: Expression) -> bool:
    """Whether the value is 0 or more, whatever the marking; false if it cannot be told."""
    match expression:
        case Constant(number=number):
            return number >= 0
        case Tokens() | Unary(sign="~"):
            return True
        case Binary(sign=sign) if sign in _TRUTHS:
            return True
        case Binary(sign="+" | "*" | "min" | "max", left=left, right=right):
            return is_never_negative(left) and is_never_negative(right)
        case Choice(then=then, otherwise=otherwise):
            return is_never_negative(then) and is_never_negative(otherwise)
    return False
