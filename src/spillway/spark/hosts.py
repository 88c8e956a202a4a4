"""Which hosts there are, by the names Spark's scheduler gives them."""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as sql


def hosts_seen(context: SparkContext) -> frozenset[str]:
    """The hosts that show an executor now; in local mode, where the driver is the executor, its one host.

    The look costs the same for any number of hosts, and asks the scheduler's own books: those that Spark's pages and
    ``statusTracker`` read are behind them by whatever waits in its queue of events.
    """
    scala: Any = context._jsc.sc()
    shown = str(scala.getExecutorMemoryStatus().keys().mkString(" ")).split()
    if not scala.isLocal():
        driver = str(scala.statusStore().executorSummary("driver").hostPort())
        shown = [executor for executor in shown if executor != driver]
    return frozenset(executor.rpartition(":")[0] for executor in shown)


def driver_host() -> str:
    """The address by which executors reach the driver, in its process."""
    context = SparkContext._active_spark_context
    assert context is not None
    return str(context.getConf().get("spark.driver.host", "127.0.0.1"))


def this_host(context: SparkContext) -> Column:
    """The host of the executor that works this column out, by the name ``hosts_seen`` gives it.

    Only the executor knows: it is told by what starts it and takes that for its own name. A Python worker is not told,
    and its environment does not say (what the machine calls itself is often another name). In local mode nobody starts
    it, and the executor goes by another name than the driver; but then there is only one host.
    """
    scala: Any = context._jsc.sc()
    if scala.isLocal():
        return sql.lit(*hosts_seen(context))
    return sql.reflect(sql.lit("org.apache.spark.util.Utils"), sql.lit("localHostName"))
