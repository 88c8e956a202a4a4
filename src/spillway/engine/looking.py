"""Looking at one shard of a run from outside: what cannot be looked at is refused, and looking changes nothing."""

from collections.abc import Mapping
from pathlib import Path

from spillway.engine.opened import shard_folder
from spillway.errors import GraphError, StateError
from spillway.graph.checked import CheckedGraph
from spillway.operators.operator import Operator
from spillway.state.header import looks_new


def asked_for(graph: CheckedGraph, operators: Mapping[str, Operator], name: str, index: int) -> Operator:
    """The operator whose shard is asked for, if there is such a shard."""
    operator = operators.get(name)
    if operator is None:
        raise GraphError(f"Graph {graph.name!r} has no operator {name!r}; it has {', '.join(operators)}.")
    if not operator.stateful:
        keeping = ", ".join(one.name for one in operators.values() if one.stateful)
        raise GraphError(f"Operator {name!r} keeps no state, so it has no shards; {keeping or 'none here'} does.")
    shards = graph.shards_of(name)
    if index not in range(shards):
        raise GraphError(f"Operator {name!r} has {shards} shards, 0 to {shards - 1}; there is no shard {index!r}.")
    return operator


def check_memory(graph: CheckedGraph, name: str, index: int, *, state: Path) -> None:
    """Refuse a shard that has no memory: opening it would make an empty one and show that."""
    folder = shard_folder(state, graph.name, name, index)
    if looks_new(folder):
        raise StateError(
            f"Operator {name!r}, shard {index}, has no memory in {folder}: it was lost, or no batch has reached it "
            f"yet. The next batch makes it anew, from its backups if there are any."
        )
