"""Whether stages run a graph as it was drawn (seed 003, section 2.4): every operator and every stream exactly once.

1. Each operator has exactly one running instance: it is in one stage, whose tasks are exactly its shards or more.
2. Each stream has exactly one: it leaves every stage from that of its producer to the one before its reader's, once,
   and arrives at every stage after; one that stays within a stage is not carried. Feedback does not cross stages.

Stages are made by us, so that this fails only by a fault of ours, or of whoever changes how they are made. It is asked
when a run starts, since a graph of which a part does not run may still look well from outside.
"""

from collections import Counter
from collections.abc import Sequence

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.nodes import Edge
from spillway.graph.stages import Stage


def check_activated(graph: CheckedGraph, stages: Sequence[Stage], *, to_sinks: Sequence[Edge] | None = None) -> None:
    """Refuse stages that do not run every operator and carry every stream once; ``to_sinks`` if those are bound."""
    _check_running(graph, stages)
    stage_of = {name: stage.index for stage in stages for name in stage.operators}
    edges = [edge for edge in graph.edges if not edge.feedback]
    edges += [edge for name in graph.order for edge in graph.marks_into(name)]
    for edge in edges:
        first, last = stage_of.get(edge.stream.node, 0), stage_of.get(edge.node, len(stages))
        for stage in stages:
            _check_carried(graph, edge, "leaves", stage.leaving, stage.index, wanted=first <= stage.index < last)
            _check_carried(graph, edge, "arrives at", stage.arriving, stage.index, wanted=first < stage.index <= last)
    if to_sinks is not None:
        bound = Counter(edge.node for edge in to_sinks)
        for name in graph.exits:
            if bound[name] != 1:
                raise _fault(graph, f"sink {name!r} is fed by {bound[name]} streams, 1 is wanted")


def _check_running(graph: CheckedGraph, stages: Sequence[Stage]) -> None:
    running = Counter(name for stage in stages for name in stage.operators)
    for name in graph.operators:
        if running[name] != 1:
            raise _fault(graph, f"operator {name!r} has {running[name]} running instances, 1 is wanted")
    for place, stage in enumerate(stages):
        if stage.index != place:
            raise _fault(graph, f"stage {stage.index} stands at place {place}")
        stateful = [name for name in stage.operators if graph.operators[name].stateful]
        shards = max((graph.shards_of(name) for name in stateful), default=0)
        if stage.partitions != shards:
            raise _fault(graph, f"stage {place} has {stage.partitions} tasks for {shards} shards")


def _check_carried(
    graph: CheckedGraph, edge: Edge, does: str, edges: tuple[Edge, ...], stage: int, *, wanted: bool
) -> None:
    if edges.count(edge) != wanted:
        what = "punctuation of stream" if edge.marks else "stream"
        times = {0: "not at all", 1: "once"}.get(edges.count(edge), f"{edges.count(edge)} times")
        should = "once is wanted" if wanted else "it should not"
        raise _fault(graph, f"{what} {edge.stream} to {edge.node!r} {does} stage {stage} {times}, {should}")


def _fault(graph: CheckedGraph, what: str) -> GraphError:
    return GraphError(
        f"Graph {graph.name!r} would not run as it was drawn: {what}. This is a fault of Spillway, not of the graph: "
        f"please report it with the graph."
    )
