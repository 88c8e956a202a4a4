"""The process from which Spark forks Python workers, with kernels loaded before the first fork.

Named by ``spark.python.daemon.module``. A worker forked from here starts at once; one forked from Spark's own daemon
spends over a second importing numba and loading compiled code.
"""

from contextlib import suppress

from spillway.spark.warm import warm

if __name__ == "__main__":
    with suppress(Exception):  # a favour to the workers, who can do without
        warm()
    from pyspark.daemon import manager

    manager()
