"""A graph as a picture: Mermaid for documents, SVG for notebooks, plain text for terminals."""

from spillway.graph.boxes import Arrow, Box, draw_graph
from spillway.graph.jobs import job_of_nodes
from spillway.graph.nodes import Drawn, Edge, Exit, Node, Source

_MERMAID_ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\n": " "}


def draw_mermaid(graph: Drawn) -> str:
    """A Mermaid flowchart: sources and sinks rounded, operators with state doubled, feedback dotted, jobs in boxes."""
    lines = ["flowchart LR"]
    # Mermaid gives a meaning to words like "end", so nodes are numbered, and named in their labels.
    named = [*graph.nodes, *(end for edge in graph.edges for end in (edge.stream.node, edge.node))]
    ids = {name: f"n{i}" for i, name in enumerate(dict.fromkeys(named))}
    jobs = job_of_nodes(graph) if graph.jobs else {}
    for number, job in enumerate(dict.fromkeys([*jobs.values()] or [""])):
        if jobs:
            lines.append(f'  subgraph j{number}["{_mermaid_text(job)}"]')
        for name, node in graph.nodes.items():
            if jobs.get(name, "") == job:
                label = "<br/>".join(map(_mermaid_text, _label(node)))
                left, right = _mermaid_shape(node)
                lines.append(f'  {ids[name]}{left}"{label}"{right}')
        if jobs:
            lines.append("  end")
    for name in [name for name in ids if name not in graph.nodes]:
        lines.append(f'  {ids[name]}["{_mermaid_text(name)} (not in the graph)"]')
    for edge in graph.edges:
        arrow = "-.->" if edge.feedback else "-->"
        lines.append(f"  {ids[edge.stream.node]} {arrow}{_mermaid_port(graph, edge)} {ids[edge.node]}")
    return "\n".join(lines) + "\n"


def draw_svg(graph: Drawn) -> str:
    """Boxes from top to bottom, as Mermaid would shape them; what has no room in a box is told on hovering."""
    jobs = job_of_nodes(graph) if graph.jobs else {}
    boxes = [_box(node, jobs.get(name, "")) for name, node in graph.nodes.items()]
    missing = dict.fromkeys(end for edge in graph.edges for end in (edge.stream.node, edge.node))
    boxes += [Box(name=name, lines=("not in the graph", "")) for name in missing if name not in graph.nodes]
    arrows = [
        Arrow(source=edge.stream.node, target=edge.node, label=_port_to_tell(graph, edge), back=edge.feedback)
        for edge in graph.edges
    ]
    return draw_graph(boxes, arrows, title=f"Graph {graph.name}")


def draw_text(graph: Drawn) -> str:
    """One line per node, indented below what it reads from, with what it keeps, how it is protected, and its job."""
    lines = [graph.name]
    jobs = job_of_nodes(graph) if graph.jobs else {}
    seen: set[str] = set()

    def visit(name: str, depth: int, via: str) -> None:
        node = graph.nodes.get(name)
        if node is None:
            lines.append("  " * depth + f"{via}{name} (not in the graph)")
            return
        if name in seen:
            lines.append("  " * depth + f"{via}{name} (above)")
            return
        seen.add(name)
        job = [f"(job {jobs[name]})"] if jobs else []
        lines.append("  " * depth + via + "  ".join([*_label(node), *job]))
        for edge in graph.edges:
            if edge.stream.node == name:
                arrow = "~> " if edge.feedback else "-> "
                port = _port_to_tell(graph, edge)
                visit(edge.node, depth + 1, arrow + (f"[{port}] " if port else ""))

    for name, node in graph.nodes.items():
        if isinstance(node, Source):
            visit(name, 0, "")
    for name in graph.nodes:
        if name not in seen:
            visit(name, 0, "(no input) ")
    return "\n".join(lines) + "\n"


def _label(node: Node) -> list[str]:
    if isinstance(node, Source):
        kind = type(node.data).__name__ if node.log is None else f"stream log of {node.log.producer}"
        return [node.name, f"source {kind}"]
    if isinstance(node, Exit):
        promised = [] if node.contract is None else [node.contract.describe()]
        return [node.name, f"sink {node.sink.describe()}", *promised]
    label = [node.name, type(node).__name__]
    if node.key:
        label.append(f"by {', '.join(node.key)}")
    if node.stateful:
        label += [node.describe_state(), node.protect.describe()]
    return label


def _box(node: Node, job: str) -> Box:
    label = _label(node)
    of_job = [f"job {job}"] if job else []
    if isinstance(node, Source | Exit):
        kind, told, doubled = label[1], label[2:], False
    else:
        kind, told, doubled = type(node).__name__, [], node.stateful
        if node.key:
            kind += f" by {', '.join(node.key)}"
        if node.stateful:
            told = [node.protect.describe()]
    return Box(
        name=node.name,
        lines=(kind, "".join([*told, *of_job][:1])),
        rounded=isinstance(node, Source | Exit),
        doubled=doubled,
        note="\n".join([*label, *of_job]),
    )


def _mermaid_shape(node: Node) -> tuple[str, str]:
    if isinstance(node, Source | Exit):
        return "([", "])"
    return ("[[", "]]") if node.stateful else ("[", "]")


def _mermaid_port(graph: Drawn, edge: Edge) -> str:
    port = _port_to_tell(graph, edge)
    return f'|"{_mermaid_text(port)}"|' if port else ""


def _mermaid_text(text: str) -> str:
    """Text for between double quotes, where Mermaid reads HTML, Markdown, and entities that begin with ``#``.

    >>> _mermaid_text('a "b" <c> #1')
    'a #quot;b#quot; #lt;c#gt; #35;1'
    """
    return "".join(_MERMAID_ENTITIES.get(character, character) for character in text)


def _port_to_tell(graph: Drawn, edge: Edge) -> str:
    """The port's name where there is more than one to tell apart."""
    node = graph.nodes.get(edge.node)
    if node is None or isinstance(node, Source | Exit) or (len(node.inputs) == 1 and not edge.feedback):
        return ""
    return edge.port
