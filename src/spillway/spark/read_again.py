"""Whether a source gives the same tuples again, as a graph that goes back to its last checkpoint needs it.

Feeds and folders of files do. Of a streaming DataFrame Spark does not tell; most sources that people use can be read
again from an offset (Kafka, files, Delta), and those that are known not to are refused.
"""

import re

from spillway.errors import GraphError
from spillway.graph.nodes import Source

RECEIVED = "spillway-received-"
"""How the format of a receiver's items begins."""

_ONCE_ONLY = {
    RECEIVED: "A receiver forgets items once Spark has committed the batch that has them",
    "TextSocket": "What came over a socket is gone once Spark has committed the batch that has it",
}
_FOUND = re.compile("|".join(_ONCE_ONLY))


def check_readable_again(source: Source) -> None:
    """Refuse a source that is known to give its tuples only once."""
    if not source.by_spark:
        return
    found = _FOUND.search(source.frame._jdf.queryExecution().analyzed().toString())
    if found:
        raise GraphError(
            f"Source {source.name!r} cannot be read again from an earlier batch, and under a protection of the whole "
            f"job it must be. {_ONCE_ONLY[found[0]]}. Protect each operator by Exact or Approximate instead, or write "
            f"the items to files first and read those."
        )
