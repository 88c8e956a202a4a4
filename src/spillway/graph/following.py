"""Which operators' windows end by the watermark of which sources, and whether they can."""

from collections.abc import Mapping

import pyarrow as pa

from spillway.errors import GraphError
from spillway.graph.declaration import Declaration
from spillway.graph.nodes import Edge, Source, Stream
from spillway.graph.watermarks import Watermark
from spillway.graph.windows import Hopping


def watermarks(
    edges: tuple[Edge, ...], sources: Mapping[str, Source], operators: Mapping[str, Declaration]
) -> dict[str, Watermark]:
    """By operator; of those whose windows are of the time column of a source upstream, by its name."""
    found = {}
    for name, operator in operators.items():
        window = operator.windowing
        if not isinstance(window, Hopping) or window.time is None:
            continue
        clocks = [
            source.event_time.clock(source.name)
            for source in sources.values()
            if source.event_time is not None
            and source.event_time.column == window.time
            and source.name in _upstream(edges, name)
        ]
        if clocks:
            found[name] = Watermark(clocks=tuple(clocks))
    return found


def check_following(
    operator: Declaration, watermark: Watermark, sources: Mapping[str, Source], came: Mapping[str, pa.Schema]
) -> None:
    """Refuse an operator whose windows cannot end by this watermark."""
    window = operator.windowing
    assert isinstance(window, Hopping) and window.time is not None
    for clock in watermark.clocks:
        told = sources[clock.source].schema.field(window.time).type
        for port, schema in came.items():
            kind = schema.field(window.time).type if window.time in schema.names else told
            if pa.types.is_timestamp(kind) != pa.types.is_timestamp(told):
                raise GraphError(
                    f"Operator {operator.name!r}: its windows are of column {window.time!r}, which is {kind} on port "
                    f"{port!r} and {told} at source {clock.source!r}, whose watermark ends them. Give one of the two "
                    f"columns another name."
                )
    if not operator.windows_at_once and (watermark.lateness or len(watermark.clocks) > 1):
        why = (
            f"tuples may be late at source {watermark.clocks[0].source!r}"
            if len(watermark.clocks) == 1
            else "it follows several sources"
        )
        raise GraphError(
            f"Operator {operator.name!r}: {type(operator).__name__} keeps one window at a time, and several are open "
            f"at once, because {why}. Use one that keeps several, such as Count, or say lateness=0."
        )


def _upstream(edges: tuple[Edge, ...], node: str) -> set[str]:
    """Everything whose tuples reach a node, feedback aside."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        name = waiting.pop()
        new = {edge.stream.node for edge in edges if edge.node == name and not edge.feedback} - found
        found |= new
        waiting += new
    return found


def event_time_of_log(stream: Stream, who: str, followed: Mapping[str, Source], schema: pa.Schema) -> Source | None:
    """The source whose times a stream carries to another job; None if it carries none.

    ``followed`` are the sources upstream that have a clock. Of several the slowest would count, and a stream does not
    tell which of its tuples are whose.
    """
    carried = [source for source in followed.values() if source.event_time and source.event_time.column in schema.names]
    if len(carried) > 1:
        raise GraphError(
            f"{who}: {stream} carries the times of sources {' and '.join(repr(one.name) for one in carried)} to a job "
            f"in which windows end by them. Put the windows into the job of their sources."
        )
    return carried[0] if carried else None
