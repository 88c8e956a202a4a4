"""The process from which Spark forks Python workers, with kernels loaded before the first fork.

Named by ``spark.python.daemon.module``. A worker forked from here starts at once; one forked from Spark's own daemon
spends over a second importing numba and loading compiled code.

After every task a worker collects garbage, and would look at every object there is for it: a tenth of a second for what
numba alone keeps, for each shard of each batch. What was loaded before the fork is no garbage, and is not looked at.
"""

import gc
import socket
from contextlib import suppress

from pyspark import daemon

_work = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Work as Spark's own does, but end without a word when Spark has: over a Unix socket its end is an error."""
    try:
        return _work(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    with suppress(Exception):  # a favour to the workers, who can do without
        from spillway.engine.warm import warm

        warm()
    daemon.worker = worker
    gc.collect()
    gc.freeze()
    daemon.manager()
