"""The fault models by name, found where they are declared, and faults written in one line."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from spillway.errors import GraphError, InputError
from spillway.inject import faults
from spillway.inject.faults.fault import Fault


def _found() -> Mapping[str, type[Fault]]:
    """Every class in the files of ``inject/faults`` that says which model it is, by that name."""
    models: dict[str, type[Fault]] = {}
    for module in pkgutil.iter_modules(faults.__path__, f"{faults.__name__}."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, Fault) and "model" in vars(kind):
                assert models.get(kind.model, kind) is kind, f"two fault models are called {kind.model!r}"
                models[kind.model] = kind
    return MappingProxyType(models)


MODELS = _found()
"""The fault models by name."""

FORMS = "MODEL:OPERATOR[+OPERATOR],offset=N,length=N[,NAME=VALUE], such as outage:VWAP,offset=1000,length=200"
"""How a fault is written."""


def fault_model(name: str) -> type[Fault]:
    """The fault model of a name, or an InputError that says which there are."""
    if name not in MODELS:
        raise InputError(f"There is no fault model {name!r}; there are {', '.join(MODELS)}.")
    return MODELS[name]


def parse_fault(text: str) -> Fault:
    """A fault from one line.

    >>> parse_fault("outage:TradeFilter+Aggregator,offset=1e3,length=200")
    Outage(targets=('TradeFilter', 'Aggregator'), offset=1000, length=200, at='input', seed=0)
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
