"""A run from start to end in this process that leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from spillway.clock import Clock
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.local.run import LocalRun
from spillway.state.folders import default_root


@contextmanager
def full_run(graph: Graph, *, clock: Clock | None = None) -> Iterator[LocalRun]:
    """A run of a graph whose operators may be protected: backups lie in memory, and go with the run."""
    default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
    with (
        TemporaryDirectory(prefix="backups-", dir=default_root()) as backups,
        LocalRun(graph, backups=backups, clock=clock) as run,
    ):
        yield run


def batches_of(graph: CheckedGraph) -> int:
    """How many batches the input of a graph has."""
    feeds = [source.feed for source in graph.sources.values() if source.feed is not None]
    return max((-(-feed.pieces // feed.pieces_per_batch) for feed in feeds), default=0)
