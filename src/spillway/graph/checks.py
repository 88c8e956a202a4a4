"""Whether a graph is well-formed (seed 003, section 2.3), said before anything runs.

1. Every input port has exactly one stream (``_check_ports``).
2. Every output port has at least one (``_check_ports``; ``Graph.add`` refuses an operator without any).
3. Schemas match along streams: an operator is given those that come and refuses what does not fit
   (``Declaration.output_schemas``, asked by ``_schemas``); keys and windows find their columns (``_check_operator``).
4. The outside world is not joined to itself: nothing leads into a source or out of a sink, which have no such ports
   (``_check_ends``). A source that leads straight to a sink is allowed here, as a graph that copies.
5. Delays are reasonable: no operator, and no path, is allowed less than it takes at least (``lateness.check_delays``).

Beyond the paper: names are known, keys can be hashed, cycles lead only through feedback (``_order``,
``_check_feedback``), and contracts of sinks can be kept (``keeping.check_contracts``).
"""

import math
from collections import Counter
from types import MappingProxyType

import pyarrow as pa

from spillway.errors import GraphError
from spillway.given import check_whole
from spillway.graph.checked import CheckedGraph
from spillway.graph.declaration import Declaration
from spillway.graph.feeds import SEQ
from spillway.graph.following import check_following, watermarks
from spillway.graph.keeping import check_contracts
from spillway.graph.key_types import KEY_TYPES, is_key_type
from spillway.graph.lateness import check_delays
from spillway.graph.nodes import Drawn, Edge, Exit, Source, Stream


def check(graph: Drawn) -> CheckedGraph:
    """The frozen graph, or a GraphError that names the operator, what was wanted and what came."""
    sources = {name: node for name, node in graph.nodes.items() if isinstance(node, Source)}
    exits = {name: node for name, node in graph.nodes.items() if isinstance(node, Exit)}
    operators = {name: node for name, node in graph.nodes.items() if not isinstance(node, Source | Exit)}
    if not sources:
        raise GraphError(f"Graph {graph.name!r} has no source.")
    if not exits:
        raise GraphError(f"Graph {graph.name!r} has no sink.")
    outputs = {Stream(name, "out") for name in sources}
    outputs |= {Stream(name, port) for name, node in operators.items() for port in node.outputs}
    inputs = {(name, "in") for name in exits}
    inputs |= {(name, port) for name, node in operators.items() for port in (*node.inputs, *node.feedback_inputs)}
    _check_ends(graph.edges, outputs, inputs)
    _check_ports(graph.edges, outputs, inputs)
    _check_feedback(graph.edges, operators, {name for name, source in sources.items() if source.log is not None})
    order = _order(graph.edges, operators)
    followed = watermarks(graph.edges, sources, operators)
    for name, watermark in followed.items():
        operators[name] = operators[name].following(watermark)
    schemas = _schemas(graph.edges, sources, operators, order)
    summed = {name for name, source in sources.items() if source.summed is not None}
    for name in order:
        _check_operator(operators[name], graph.edges, schemas, summed)
    for name, watermark in followed.items():
        came = {edge.port: schemas[edge.stream] for edge in graph.edges if edge.node == name and not edge.feedback}
        check_following(operators[name], watermark, sources, came)
    checked = CheckedGraph(
        name=graph.name,
        shards=graph.shards,
        delay_max=graph.delay_max,
        sources=MappingProxyType(sources),
        operators=MappingProxyType(operators),
        exits=MappingProxyType(exits),
        edges=graph.edges,
        schemas=MappingProxyType(schemas),
        order=tuple(order),
        delays=MappingProxyType(dict(graph.delays)),
        protect=graph.protect,
        watermarks=MappingProxyType(followed),
    )
    _check_limits(checked)
    check_delays(checked)
    check_contracts(checked)
    return checked


def _check_limits(graph: CheckedGraph) -> None:
    for stream in graph.delays:
        if stream not in graph.schemas:
            raise GraphError(f"Stream {stream} was given a delay_max, and nothing in the graph writes it.")


def _check_ends(edges: tuple[Edge, ...], outputs: set[Stream], inputs: set[tuple[str, str]]) -> None:
    for edge in edges:
        if edge.stream not in outputs:
            raise GraphError(f"Operator {edge.node!r} reads {edge.stream}, which nothing in the graph writes.")
        if (edge.node, edge.port) not in inputs:
            known = sorted(port for node, port in inputs if node == edge.node)
            raise GraphError(
                f"Stream {edge.stream} leads to port {edge.port!r} of {edge.node!r}, which has "
                + (f"ports {', '.join(known)}." if known else "no input ports or is not in the graph.")
            )


def _check_ports(edges: tuple[Edge, ...], outputs: set[Stream], inputs: set[tuple[str, str]]) -> None:
    streams_into = Counter((edge.node, edge.port) for edge in edges)
    for node, port in sorted(inputs):
        came = streams_into[node, port]
        if came != 1:
            raise GraphError(f"Operator {node!r}: input port {port!r} wants exactly one stream; got {came}.")
    read = {edge.stream for edge in edges}
    for stream in sorted(outputs, key=str):
        if stream not in read:
            raise GraphError(
                f"Operator {stream.node!r}: output port {stream.port!r} is read by nothing. Lead it to a sink."
            )


def _check_feedback(edges: tuple[Edge, ...], operators: dict[str, Declaration], logs: set[str]) -> None:
    """Feedback goes from operators to the ports made for it, of operators that can remember what it says.

    Where it comes from another job, by its log, that was checked before the graph was cut.
    """
    for edge in edges:
        operator = operators.get(edge.node)
        if operator is None:
            if edge.feedback:
                raise GraphError(f"Feedback {edge.stream} leads to {edge.node!r}, which is not an operator.")
            continue
        wanted = edge.port in operator.feedback_inputs
        if wanted != edge.feedback:
            kind = "feedback only: connect it with feedback=True" if wanted else "no feedback"
            raise GraphError(f"Operator {edge.node!r}: port {edge.port!r} takes {kind}; {edge.stream} leads to it.")
        if edge.feedback and not operator.stateful:
            raise GraphError(f"Operator {edge.node!r} keeps no state, so feedback on {edge.port!r} has no effect.")
        sender = operators.get(edge.stream.node)
        if edge.feedback and edge.stream.node not in logs and (sender is None or not sender.stateful):
            # Only of shards it is known how many there are, and so whether feedback is missing.
            raise GraphError(
                f"Operator {edge.node!r}: feedback comes from an operator that keeps state; {edge.stream} does not."
            )


def _order(edges: tuple[Edge, ...], operators: dict[str, Declaration]) -> list[str]:
    waiting = {
        name: {
            edge.stream.node for edge in edges
            if edge.node == name and not edge.feedback and edge.stream.node in operators
        }
        for name in operators
    }  # fmt: skip
    order: list[str] = []
    while waiting:
        ready = [name for name, needs in waiting.items() if needs <= set(order)]
        if not ready:
            raise GraphError(
                f"Operators {', '.join(sorted(_cycle(waiting)))} form a cycle. A stream that goes upstream must be "
                f"connected with feedback=True."
            )
        order += ready
        for name in ready:
            del waiting[name]
    return order


def _cycle(waiting: dict[str, set[str]]) -> set[str]:
    """Of operators that wait for each other, those on a cycle, without what merely reads from one."""
    name = next(iter(waiting))
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = next(needed for needed in waiting[name] if needed in waiting)
    return set(path[path.index(name) :])


def _schemas(
    edges: tuple[Edge, ...], sources: dict[str, Source], operators: dict[str, Declaration], order: list[str]
) -> dict[Stream, pa.Schema]:
    """What every stream carries; each of ``operators`` is replaced by itself as it is on its inputs."""
    schemas = {Stream(name, "out"): source.schema for name, source in sources.items()}
    for name in order:
        came = {edge.port: schemas[edge.stream] for edge in edges if edge.node == name and not edge.feedback}
        operator = operators[name] = operators[name].resolved(came)
        declared = operator.output_schemas(came)
        if set(declared) != set(operator.outputs):
            raise GraphError(
                f"Operator {name!r} has output ports {', '.join(operator.outputs)}; it gives schemas for "
                f"{', '.join(declared) or 'none'}."
            )
        for port, schema in declared.items():
            _check_output(name, port, schema)
            schemas[Stream(name, port)] = schema
    return schemas


def _check_output(name: str, port: str, schema: pa.Schema) -> None:
    for column, count in Counter(schema.names).items():
        if count > 1:
            raise GraphError(
                f"Operator {name!r}: output {port!r} has {count} columns named {column!r}; name them apart."
            )
    if SEQ not in schema.names or schema.field(SEQ).type != pa.int64():
        came = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise GraphError(f"Operator {name!r}: output {port!r} must keep the column 'seq' of int64; it has {came}.")


def _check_operator(
    operator: Declaration, edges: tuple[Edge, ...], schemas: dict[Stream, pa.Schema], summed: set[str]
) -> None:
    if operator.shards is not None:
        check_whole(f"Operator {operator.name!r}: shards", operator.shards, least=1)
    if operator.shards is not None and operator.shards > 1 and not operator.stateful:
        raise GraphError(
            f"Operator {operator.name!r} keeps no state, so {operator.shards} shards have no meaning for it."
        )
    if operator.windowing is not None and not operator.stateful:
        raise GraphError(f"Operator {operator.name!r} keeps no state, so a window has no meaning for it.")
    if operator.key and not operator.stateful:
        raise GraphError(f"Operator {operator.name!r} keeps no state, so a key has no meaning for it.")
    if not 0 <= operator.outputs_per_tuple_max < math.inf:
        raise GraphError(
            f"Operator {operator.name!r}: outputs_per_tuple_max must be a number, 0 or more; got "
            f"{operator.outputs_per_tuple_max!r}."
        )
    for edge in edges:
        if edge.node != operator.name or edge.feedback:
            continue
        schema = schemas[edge.stream]
        if operator.windowing is not None:
            operator.windowing.check(f"Operator {operator.name!r}, port {edge.port!r}", schema)
        for column in operator.key:
            if column not in schema.names:
                raise GraphError(
                    f"Operator {operator.name!r}: key column {column!r} is wanted on port {edge.port!r}; "
                    f"{edge.stream} has {', '.join(schema.names)}."
                )
            kind = schema.field(column).type
            if edge.stream.node in summed:
                continue  # whoever adds tuples up also brings them to their shards
            if not is_key_type(kind):
                raise GraphError(
                    f"Operator {operator.name!r}: key column {column!r} must be {KEY_TYPES}; it is {kind}."
                )
