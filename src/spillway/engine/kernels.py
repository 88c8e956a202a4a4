"""The operators of a graph as kernels: what can be drawn but not run, or not run like this, is refused beforehand."""

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.declaration import Declaration
from spillway.operators.operator import Operator


def kernels(graph: CheckedGraph, *, backups: str | None) -> dict[str, Operator]:
    """The operators by name; refused if one cannot run, or wants a folder for backups and there is none."""
    found = {name: kernel(operator) for name, operator in graph.operators.items()}
    for operator in found.values():
        if operator.protect.keeps_backups:
            needed_backups(operator, backups)
    return found


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
