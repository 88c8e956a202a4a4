"""Whether what is declared upstream of a sink can keep its contract, said before anything runs.

Nothing here knows of any protection: each says what it keeps (``Protection.guarantee``), and so does each source. An
operator without state loses nothing, since a batch that fails is read and computed again. Feedback is state too, on its
way: it is kept if it is durable, or if all of its job goes back together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spillway.errors import GraphError
from spillway.graph.checked import CheckedGraph
from spillway.graph.contracts import Contract, Guarantee

_TITLES = ("operator", "protection", "keeps", "why not", "use instead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why something upstream cannot keep a contract."""

    operator: str
    protection: str
    keeps: str
    why: str
    instead: str

    def cells(self) -> tuple[str, ...]:
        return self.operator, self.protection, self.keeps, self.why, self.instead


def check_contracts(graph: CheckedGraph, sources: Mapping[str, Guarantee] | None = None) -> None:
    """Refuse a graph with a contract that cannot be kept; ``sources`` if more is known of some than they declare."""
    for name, exit in graph.exits.items():
        if exit.contract is None:
            continue
        found = list(obstacles(graph, name, exit.contract, sources or {}))
        if found:
            raise GraphError(
                f"Sink {name!r}: its contract ({exit.contract.describe()}) cannot be kept.\n\n{_table(found)}\n"
            )


def obstacles(
    graph: CheckedGraph, sink: str, contract: Contract, sources: Mapping[str, Guarantee]
) -> Iterator[Obstacle]:
    """What upstream of a sink stands in the way of its contract."""
    upstream = graph.upstream(sink)
    for name, source in graph.sources.items():
        if name in upstream:
            yield from _of_guarantee(name, "source", sources.get(name, source.guarantee), contract)
    for name in graph.order:
        operator = graph.operators[name]
        if name not in upstream or not operator.stateful:
            continue
        yield from _of_guarantee(name, operator.protect.describe(), operator.protect.guarantee, contract)
        late = graph.delay_max_of(name)
        if contract.delay_max is not None and late > contract.delay_max:
            yield Obstacle(
                operator=name,
                protection=operator.protect.describe(),
                keeps=f"at most {late.total_seconds():g} s late",
                why="so long its shards wait for a host that is gone",
                instead=f"delay_max of {contract.delay_max.total_seconds():g} s or less, of the operator or the graph",
            )
        for edge in graph.feedback_into(name):
            # What comes from another job is in its stream log until this one, which goes back with it, has it for good.
            sender = graph.operators.get(edge.stream.node, operator)
            kept = edge.durable or sender.protect.of_job
            if contract.lossless and not kept:
                yield Obstacle(
                    operator=name,
                    protection=f"feedback {edge.stream}",
                    keeps="nothing",
                    why="feedback that is on its way is lost with memory",
                    instead="connect(..., feedback=True, durable=True)",
                )


def _of_guarantee(name: str, protection: str, guarantee: Guarantee, contract: Contract) -> Iterator[Obstacle]:
    if contract.lossless and not guarantee.lossless:
        yield Obstacle(
            operator=name,
            protection=protection,
            keeps=guarantee.keeps(),
            why=guarantee.why,
            instead=guarantee.instead,
        )
    enough = (contract.order, "between")
    if contract.order is not None and guarantee.order not in enough:
        yield Obstacle(
            operator=name,
            protection=protection,
            keeps=guarantee.keeps(),
            why="tuples that come in one batch have one time"
            if contract.order == "between"
            else "tuples may come out of order",
            instead='order="stream", and spillway verify --order between on what came out'
            if contract.order == "between"
            else "no order",
        )


def _table(obstacles: list[Obstacle]) -> str:
    rows = [_TITLES, *(each.cells() for each in obstacles)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "  " + "  ".join("-" * width for width in widths), *lines[1:]])
