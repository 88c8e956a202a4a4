"""Spark's Python processes: those that died are told to Spark before it trips over them, those that idle are let go.

For every kind of Python work Spark keeps a *daemon*, from which it forks workers, and workers that are idle. When they
are all killed, by a system short of memory for example, Spark notices as follows (4.3, ``PythonWorkerFactory`` and
``PythonPlannerRunner``):

* A task that is given a dead worker fails, is tried again, and the daemon is started anew. A run under way goes on.
* The driver's own calls to Python, which make a data source and plan its reading, are tried once. Given a dead worker
  they fail, and what is raised is not even that, but ``Stream closed``: Spark tells the dead daemon to stop the worker.
  This happens once for each kind of call and each idle worker, so several runs fail one after the other.

Stopping the daemon that is dead anyway lets Spark start another for the next call. Spark has a public method for that
on an object it does not hand out; the version of PySpark is pinned, and where the fields below are not found nothing is
mended and nothing harmed.

Those that only plan are idle once a query has started. Spark ends idle workers after a minute by closing their sockets,
and over a Unix socket each dies of that with a traceback on the user's screen. Their daemons are told to stop before.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_FACTORY = "org.apache.spark.api.python.PythonWorkerFactory"
_RETIRED_AFTER_S = 30.0  # well before the minute after which Spark ends them
_RETIRING: weakref.WeakKeyDictionary[SparkSession, threading.Timer] = weakref.WeakKeyDictionary()
_TASKS = "pyspark.worker"  # the kind of Python work that tasks do, for which Spark helps itself


def mend_daemons(spark: SparkSession) -> int:
    """Let Spark start the driver's Python processes anew where they died; returns of how many kinds."""
    mended = 0
    with suppress(Py4JError):
        for factory in _factories(spark):
            if _died(spark, factory):
                factory.stop()
                mended += 1
    return mended


def retire_later(spark: SparkSession) -> None:
    """A query starts: what plans is needed now, and let go when no other query has started for a while."""
    before = _RETIRING.pop(spark, None)
    if before is not None:
        before.cancel()
    timer = _RETIRING[spark] = threading.Timer(_RETIRED_AFTER_S, retire_planners, [spark])
    timer.daemon = True
    timer.start()


def retire_planners(spark: SparkSession) -> int:
    """Stop the daemons whose workers all are idle and do not run tasks; returns how many."""
    retired = 0
    with suppress(Exception):  # the session may have ended, and then so have they
        for factory in _factories(spark):
            plans = _field(spark, _FACTORY, "workerModule").get(factory) != _TASKS
            if plans and _field(spark, _FACTORY, "daemon").get(factory) is not None and not _busy(spark, factory):
                factory.stop()
                retired += 1
    return retired


def _busy(spark: SparkSession, factory: Any) -> bool:
    """Whether one of its workers lives and is at work; those of daemons that are gone stay listed for a while."""
    idle = factory.idleWorkers()
    workers = _field(spark, _FACTORY, "daemonWorkers").get(factory).iterator()
    while workers.hasNext():
        worker = workers.next()
        if worker._2().isAlive() and not idle.contains(worker._1()):
            return True
    return False


def _factories(spark: SparkSession) -> Iterator[Any]:
    """What starts Python processes: one for each kind of work."""
    context: Any = spark.sparkContext
    # Methods of this object cannot be called from here: among their types are some that are not on Spark's class path,
    # and looking for a method makes the JVM load them all. Its fields can be read.
    environment = context._jsc.sc().env()
    factories = _field(spark, "org.apache.spark.SparkEnv", "pythonWorkers").get(environment).values().iterator()
    while factories.hasNext():
        yield factories.next()


def _died(spark: SparkSession, factory: Any) -> bool:
    daemon = _field(spark, _FACTORY, "daemon").get(factory)
    if daemon is None:
        return False
    if not daemon.isAlive():
        return True
    if _field(spark, _FACTORY, "workerModule").get(factory) == _TASKS:
        return False
    handles = _field(spark, _FACTORY, "daemonWorkers").get(factory)
    idle = factory.idleWorkers().iterator()
    while idle.hasNext():
        handle = handles.get(idle.next())
        if handle.isDefined() and not handle.get().isAlive():
            return True
    return False


def _field(spark: SparkSession, owner: str, name: str) -> Any:
    jvm: Any = spark.sparkContext._jvm
    field = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(owner).getDeclaredField(name)
    field.setAccessible(True)
    return field
