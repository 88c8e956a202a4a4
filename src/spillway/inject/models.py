"""The fault models by name, and faults written in one line."""

from dataclasses import fields
from typing import Any

from spillway.errors import GraphError, InputError
from spillway.inject.corruption import StateCorruption
from spillway.inject.faults import Duplication, Fault, Loss, Reordering, ValueCorruption

MODELS: dict[str, type[Fault]] = {
    kind.model: kind for kind in (Loss, Duplication, Reordering, ValueCorruption, StateCorruption)
}
"""The fault models by name."""

FORMS = "MODEL:OPERATOR[+OPERATOR],offset=N,length=N[,NAME=VALUE], such as loss:VWAP,offset=1000,length=200"
"""How a fault is written."""


def parse_fault(text: str) -> Fault:
    """A fault from one line.

    >>> parse_fault("loss:TradeFilter+Aggregator,offset=1e3,length=200")
    Loss(targets=('TradeFilter', 'Aggregator'), offset=1000, length=200, at='input', seed=0)
    """
    model, separator, rest = text.partition(":")
    if not separator or model not in MODELS:
        raise InputError(f"Fault {text!r}: {FORMS} is wanted, MODEL one of {', '.join(MODELS)}.")
    targets, *pairs = rest.split(",")
    known = {one.name for one in fields(MODELS[model])} - {"targets"}
    given: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or name not in known:
            raise InputError(f"Fault {text!r}: {pair!r} should be one of {', '.join(sorted(known))} with its value.")
        given[name] = _value(value)
    try:
        return MODELS[model](targets=tuple(targets.split("+")), **given)
    except TypeError as error:
        raise InputError(f"Fault {text!r}: {FORMS} is wanted ({error}).") from error
    except GraphError as error:
        raise InputError(f"Fault {text!r}: {error}") from error


def _value(text: str) -> int | float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number
