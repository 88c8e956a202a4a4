"""The operators of a graph as kernels: what can be drawn but not run, or not run like this, is refused beforehand."""

import math

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.declaration import Declaration
from spillway.operators.operator import Operator


def kernels(graph: CheckedGraph, *, backups: str | None) -> dict[str, Operator]:
    """The operators by name; refused if one cannot run, or wants a folder for backups and there is none."""
    found = {name: kernel(operator) for name, operator in graph.operators.items()}
    for operator in found.values():
        _check_all_tuples(operator)
        if operator.protect.keeps_backups:
            needed_backups(operator, backups)
    return found


def _check_all_tuples(operator: Operator) -> None:
    """Refuse a protection that loses tuples without a bound on one that is wrong for ever then (seed 004, 4)."""
    protect = operator.protect
    kept = protect.keeps_items or protect.loses_nothing or math.isfinite(protect.loss_max)
    if operator.needs_all_tuples and not kept:
        raise GraphError(
            f"Operator {operator.name!r} pairs tuples by their number, so that every tuple lost shifts all pairs after "
            f"it, and under {protect.describe()} nothing bounds what is lost with memory. Protect it with "
            f"UpstreamBackup(every=…), which keeps tuples until a backup contains them, or {protect.instead}."
        )


def kernel(operator: Declaration) -> Operator:
    """The operator, if it is one that runs."""
    if not isinstance(operator, Operator):
        raise GraphError(f"Operator {operator.name!r} can be drawn but not run: it is not a spillway.Operator.")
    return operator


def needed_backups(operator: Operator, backups: str | None) -> str:
    """The folder for backups, which the operator's protection needs."""
    if backups is None:
        raise GraphError(
            f"Operator {operator.name!r} is protected by {operator.protect.describe()}: name a durable folder with "
            f"backups=, or protect it with Nothing()."
        )
    return backups
