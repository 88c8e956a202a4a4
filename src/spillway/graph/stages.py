"""How a graph is cut into stages: what can run in one call, and where tuples must be exchanged between shards.

Tuples pass the stages one after the other. Stage 0 is as parallel as its input and holds stateless operators only; a
stateful operator begins a later stage, because its tuples must first reach their shard. Stateless operators run in the
stage of what they read. All streams go through the same chain of stages, even those that only pass by: so every shard
of every operator sees every batch, and "the last batch a shard contains" is one number. Punctuation travels with the
tuples, on edges of its own. Feedback does not cross stages: it waits for the next batch (see ``engine.feedback``).
"""

from dataclasses import dataclass

from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Operators that run in one call, and the edges that enter and leave it."""

    index: int
    operators: tuple[str, ...]  # in the order in which tuples reach them
    partitions: int  # tasks of this stage, one per shard; 0 in stage 0, which takes its input as it comes
    arriving: tuple[Edge, ...]  # edges crossing into this stage from the one before, some only passing by
    leaving: tuple[Edge, ...]  # edges crossing to the next stage, or to sinks


def stages(graph: CheckedGraph) -> list[Stage]:
    """The stages of a graph, first to last."""
    level = stage_of(graph)
    last = max(level.values(), default=0)
    edges = [edge for edge in graph.edges if not edge.feedback]
    edges += [edge for name in graph.order for edge in graph.marks_into(name)]

    def leaves(edge: Edge, index: int) -> bool:
        """Whether the edge's tuples are on their way when stage ``index`` ends."""
        consumer = level.get(edge.node, last + 1)  # a sink comes after every stage
        return level.get(edge.stream.node, 0) <= index < consumer

    result = []
    for index in range(last + 1):
        operators = tuple(name for name in graph.order if level[name] == index)
        stateful = [name for name in operators if graph.operators[name].stateful]
        result.append(
            Stage(
                index=index,
                operators=operators,
                partitions=max((graph.shards_of(name) for name in stateful), default=0),
                arriving=tuple(edge for edge in edges if index > 0 and leaves(edge, index - 1)),
                leaving=tuple(edge for edge in edges if leaves(edge, index)),
            )
        )
    return result


def stage_of(graph: CheckedGraph) -> dict[str, int]:
    """The stage in which each operator runs."""
    level: dict[str, int] = {}
    for name in graph.order:
        reads = [level.get(edge.stream.node, 0) for edge in graph.into(name)]
        level[name] = max(reads, default=0) + graph.operators[name].stateful
    return level
