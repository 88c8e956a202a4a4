"""Applications whose operators can be jobs of their own, as seed 003 has them: each fails and starts again alone."""

from spillway.apps.app import Option
from spillway.graph.graph import Graph
from spillway.graph.nodes import Exit, Source
from spillway.graph.protections import Protection

JOBS = Option(
    name="jobs", default=0, meaning="1: each operator is a job of its own, of its name; 0: all are one", least=0, most=1
)


def cut_into_jobs(graph: Graph, protect: Protection | None) -> None:
    """Have each operator of a graph run as a job of its name, under this protection if it is one of jobs."""
    whole = protect if protect is not None and protect.of_job else None
    for name in [name for name, node in graph.nodes.items() if not isinstance(node, Source | Exit)]:
        graph.job(name, [name], protect=whole)
