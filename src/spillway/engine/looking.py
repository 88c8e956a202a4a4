"""Looking at one shard of a run from outside: what cannot be looked at is refused, and looking changes nothing."""

from collections.abc import Mapping
from pathlib import Path

from spillway.engine.epochs import shard_folder
from spillway.engine.opened import OpenOperator
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


def check_memory(graph: CheckedGraph, name: str, index: int, *, state: Path, epoch: int = 0) -> None:
    """Refuse a shard that has no memory: opening it would make an empty one and show that."""
    folder = shard_folder(state, graph.name, name, index, epoch=epoch)
    if looks_new(folder):
        raise StateError(
            f"Operator {name!r}, shard {index}, has no memory in {folder}: it was lost, or no batch has reached it "
            f"yet. The next batch makes it anew, from its backups if there are any."
        )


def look_at_shard(
    kernel: Operator, *, graph: CheckedGraph, index: int, state: Path, backups: str | None, epoch: int = 0
) -> Operator:
    """The operator at work on one shard, whose memory is here; refused in the middle of a batch."""
    check_memory(graph, kernel.name, index, state=state, epoch=epoch)
    opened = OpenOperator(kernel, graph=graph, index=index, state=state, backups=backups, epoch=epoch)
    if opened.shard.changing:
        opened.close()
        raise StateError(
            f"Operator {kernel.name!r}, shard {index}, is in the middle of a batch, so what it holds is neither from "
            f"before it nor from after. Look again when the batch is done; if the run has failed, resume it, which "
            f"undoes the batch."
        )
    return opened.operator
