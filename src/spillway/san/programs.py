"""Expressions as op codes: what the event loop interprets.

An accumulator machine. A leaf on the right of an operator is part of the instruction, so `(a + b) > 0` is three
instructions: LOAD a, ADD-PLACE b, GREATER-NUMBER 0. Anything deeper is pushed on a small stack. What no longer
matters is skipped: the right side of an `and` whose left side is false, of an `or` whose left side is true, and the
branch of a choice that is not taken.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spillway.errors import ModelError
from spillway.san.compiled import inlined
from spillway.san.derived import Derived
from spillway.san.expressions import Binary, Choice, Constant, Expression, Tokens, Unary

NONE = -1  # in place of a program's number: there is none
DEPTH_MAX = 64

# How an instruction gets its right operand, added to its operation.
STACKED, NUMBER, PLACE = 0, 32, 64
# Operations of two operands.
ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, LEAST, MOST = range(7)
LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL = range(7, 13)
# Operations of their own.
LOAD_NUMBER, LOAD_PLACE, PUSH, NEGATE, NOT, TRUTH, FLOOR, CEIL, END = range(96, 105)
# Jumps: to the instruction in place of the place, always, or if the value is true or false, which it then is.
JUMP, JUMP_IF_TRUE, JUMP_IF_FALSE = 105, 106, 107

_BINARY = {
    "+": ADD,
    "-": SUBTRACT,
    "*": MULTIPLY,
    "/": DIVIDE,
    "//": FLOOR_DIVIDE,
    "min": LEAST,
    "max": MOST,
    "<": LESS,
    "<=": LESS_EQUAL,
    ">": GREATER,
    ">=": GREATER_EQUAL,
    "==": EQUAL,
    "!=": NOT_EQUAL,
}
_UNARY = {"-": NEGATE, "~": NOT, "floor": FLOOR, "ceil": CEIL}


@dataclass(slots=True, kw_only=True)
class Programs:
    """A growing table of programs over numbered places."""

    places: dict[str, int]
    code: list[tuple[int, int]] = field(default_factory=list)  # operation, place
    numbers: list[float] = field(default_factory=list)
    derived: Derived | None = None
    depth: int = 1

    def add(self, expression: Expression, *, as_it_is: bool = False) -> int:
        """Compile an expression; returns its program: the number of its first instruction.

        It reads derived places where it can, unless it is to be taken as it is.
        """
        first = len(self.code)
        self._compile(expression if as_it_is or self.derived is None else self.derived.within(expression), 0)
        self._emit(END)
        return first

    def _compile(self, expression: Expression, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise ModelError(
                f"An expression is nested more than {DEPTH_MAX} deep; assign a part of it to a place first."
            )
        self.depth = max(self.depth, depth + 1)
        match expression:
            case Constant(number=number):
                self._emit(LOAD_NUMBER, number=number)
            case Tokens(name=name):
                self._emit(LOAD_PLACE, place=self.places[name])
            case Unary(sign="~", of=Unary(sign="~", of=of)):
                self._compile_truth(of, depth)
            case Unary(sign=sign, of=of):
                self._compile(of, depth)
                self._emit(_UNARY[sign])
            case Binary(sign="&" | "|" as sign, left=left, right=right):
                self._compile_truth(left, depth)
                jump = self._emit(JUMP_IF_FALSE if sign == "&" else JUMP_IF_TRUE)
                self._compile_truth(right, depth)
                self._land(jump)
            case Binary(sign=sign, left=left, right=Constant(number=number)):
                self._compile(left, depth)
                self._emit(_BINARY[sign] + NUMBER, number=number)
            case Binary(sign=sign, left=left, right=Tokens(name=name)):
                self._compile(left, depth)
                self._emit(_BINARY[sign] + PLACE, place=self.places[name])
            case Binary(sign="+" | "*" | "==" | "!=" as sign, left=Tokens() | Constant() as leaf, right=right):
                # Either side may come first, and a leaf that comes second needs no stack.
                self._compile(Binary(sign=sign, left=right, right=leaf), depth)
            case Binary(sign=sign, left=left, right=right):
                self._compile(left, depth)
                self._emit(PUSH)
                self._compile(right, depth + 1)
                self._emit(_BINARY[sign] + STACKED)
            case Choice(condition=condition, then=then, otherwise=otherwise):
                self._compile(condition, depth)
                aside = self._emit(JUMP_IF_FALSE)
                self._compile(then, depth)
                past = self._emit(JUMP)
                self._land(aside)
                self._compile(otherwise, depth)
                self._land(past)
            case _:
                raise AssertionError(type(expression))

    def _compile_truth(self, expression: Expression, depth: int) -> None:
        """1 or 0, whether the expression is anything but 0."""
        self._compile(expression, depth)
        match expression:
            case Unary(sign="~") | Binary(sign="<" | "<=" | ">" | ">=" | "==" | "!=" | "&" | "|"):
                pass
            case _:
                self._emit(TRUTH)

    def _emit(self, operation: int, *, place: int = 0, number: float = 0.0) -> int:
        self.code.append((operation, place))
        self.numbers.append(number)
        return len(self.code) - 1

    def _land(self, jump: int) -> None:
        """Let a jump go to the next instruction to come."""
        self.code[jump] = (self.code[jump][0], len(self.code))


@inlined
def evaluate(  # noqa: PLR0912 - one branch per operation
    code: Any, numbers: Any, program: int, marking: Any, stack: Any
) -> float:
    """Run one program on a marking."""
    value = 0.0
    depth = 0
    i = program - 1
    while True:
        i += 1
        operation = code[i, 0]
        if operation >= LOAD_NUMBER:
            if operation == LOAD_PLACE:
                value = np.float64(marking[code[i, 1]])
            elif operation == LOAD_NUMBER:
                value = numbers[i]
            elif operation == PUSH:
                stack[depth] = value
                depth += 1
            elif operation == NOT:
                value = 1.0 if value == 0.0 else 0.0
            elif operation == NEGATE:
                value = -value
            elif operation == FLOOR:
                value = np.floor(value)
            elif operation == CEIL:
                value = np.ceil(value)
            elif operation == END:
                return value
            elif operation == TRUTH:
                value = 1.0 if value != 0.0 else 0.0
            elif operation == JUMP or (operation == JUMP_IF_TRUE) == (value != 0.0):
                i = code[i, 1] - 1
            continue
        left, right = value, value
        if operation >= PLACE:
            right = np.float64(marking[code[i, 1]])
            operation -= PLACE
        elif operation >= NUMBER:
            right = numbers[i]
            operation -= NUMBER
        else:
            depth -= 1
            left = stack[depth]
        value = combined(operation, left, right)


@inlined
def combined(operation: int, left: float, right: float) -> float:
    """One operation of two operands; a division by zero is no number."""
    if operation == ADD:
        return left + right
    if operation == SUBTRACT:
        return left - right
    if operation == MULTIPLY:
        return left * right
    if operation == GREATER:
        return 1.0 if left > right else 0.0
    if operation == GREATER_EQUAL:
        return 1.0 if left >= right else 0.0
    if operation == EQUAL:
        return 1.0 if left == right else 0.0
    if operation == LESS:
        return 1.0 if left < right else 0.0
    if operation == LESS_EQUAL:
        return 1.0 if left <= right else 0.0
    if operation == NOT_EQUAL:
        return 1.0 if left != right else 0.0
    if operation == LEAST:
        return right if right < left else left
    if operation == MOST:
        return right if right > left else left
    if right == 0.0:
        return math.nan
    return left / right if operation == DIVIDE else np.floor(left / right)
