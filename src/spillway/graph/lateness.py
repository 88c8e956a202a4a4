"""Whether delays are reasonable (seed 003, section 2.3, constraint 5): nothing is allowed less than it takes at least.

What the paper calls the least delay of an operator type is ``delay_min`` of an operator, and its allowed delay of a
vertex or an edge is ``delay_max`` of an operator (or the graph) or of a stream. Least delays add up along a path. What
may be waited for does not: when a host is gone, all operators wait for it at once. So the tuples of a path may be as
late as the operator on it that may be latest, and no later than the contract of its sink says.
"""

from datetime import timedelta

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.delays import check_delay
from spillway.graph.nodes import Stream

Least = tuple[timedelta, tuple[str, ...]]
"""The least delay at the end of a path, and the path."""


def check_delays(graph: CheckedGraph) -> None:
    """Refuse an operator, a stream or a path to a sink that is allowed less than it takes at least."""
    least: dict[str, Least] = {name: (timedelta(0), (name,)) for name in graph.sources}
    allowed: dict[str, timedelta] = dict.fromkeys(graph.sources, timedelta(0))
    for name in graph.order:
        operator = graph.operators[name]
        check_delay(f"Operator {name!r}", operator.delay_min, what="delay_min")
        if operator.delay_max is not None and operator.delay_max < operator.delay_min:
            raise GraphError(
                f"Operator {name!r} takes at least {_said(operator.delay_min)}, and its delay_max allows "
                f"{_said(operator.delay_max)}. Allow it more."
            )
        before = [edge.stream.node for edge in graph.into(name)]
        latest = max((least[node] for node in before), default=(timedelta(0), ()))
        least[name] = latest[0] + operator.delay_min, (*latest[1], name)
        allowed[name] = max([graph.delay_max_of(name), *(allowed[node] for node in before)])
        for port in operator.outputs:
            _check(Stream(name, port), least[name], graph.delays.get(Stream(name, port)))
    for name, exit in graph.exits.items():
        node = graph.into(name)[0].stream.node
        late, path = least[node]
        whole = late, (*path, name)
        if exit.contract is not None and exit.contract.delay_max is not None:
            _refuse_less(whole, exit.contract.delay_max, f"the contract of sink {name!r}")
        if node in graph.operators:
            _refuse_less(whole, allowed[node], "the largest delay_max of its operators and of the graph")


def _check(stream: Stream, least: Least, limit: timedelta | None) -> None:
    if limit is not None:
        _refuse_less(least, limit, f"delay_max of stream {stream}")


def _refuse_less(least: Least, limit: timedelta, whose: str) -> None:
    if limit < least[0]:
        raise GraphError(
            f"Path {' -> '.join(least[1])} takes at least {_said(least[0])}, the sum of delay_min of its operators, "
            f"and {whose} allows {_said(limit)}. Allow it more, or take a shorter path."
        )


def _said(length: timedelta) -> str:
    return f"{length.total_seconds():g} s"
