"""The process from which Spark forks Python workers, with kernels loaded before the first fork.

Named by ``spark.python.daemon.module``. A worker forked from here starts at once; one forked from Spark's own daemon
spends over a second importing numba and loading compiled code.

After every task a worker collects garbage, and would look at every object there is for it: a tenth of a second for what
numba alone keeps, for each shard of each batch. What was loaded before the fork is no garbage, and is not looked at.
"""

import gc
from contextlib import suppress

from spillway.spark.warm import warm

if __name__ == "__main__":
    with suppress(Exception):  # a favour to the workers, who can do without
        warm()
    from pyspark.daemon import manager

    gc.collect()
    gc.freeze()
    manager()
