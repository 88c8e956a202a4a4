"""Every Spark setting we rely on, in one place, with the reason."""

import atexit
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spillway.errors import RunError, SetupError
from spillway.given import VERBOSE_VARIABLE, is_verbose
from spillway.spark.launching import java_ends_if_cut_short
from spillway.spark.quieting import end_in_silence, quiet_start
from spillway.state.folders import default_root, look_at, make_temporary

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_PAYLOAD_BYTES = str(64 << 20)
_NO_LIMIT = str(2**31 - 1)  # which Spark takes for none

# Settings of a query; a query keeps those in force when it starts, so they need not stay set.
FOR_QUERY = {
    # A task is a shard. Adaptive execution merges and splits tasks as it sees fit.
    "spark.sql.adaptive.enabled": "false",
    # Strings arrive with 32-bit offsets, as the graph's schemas say.
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}

_IN_UTC = {
    # Arrow carries the session's time zone in its types, and types must match exactly.
    "spark.sql.session.timeZone": "UTC",
}

FOR_PAYLOADS = _IN_UTC | {
    # Fewer, larger Arrow batches: a kernel call costs the same for 10,000 tuples as for 200,000.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    # Tuples of our own travel as a few rows of megabytes each: not too many of those at once either.
    _BATCH_BYTES: _PAYLOAD_BYTES,
}

# The same, for a query that reads streaming DataFrames (see reading): a limit of bytes, which Spark checks after every
# row, is in force only for jobs in which there are payloads.
FOR_ROWS = _IN_UTC | {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    _BATCH_BYTES: _NO_LIMIT,
}

# The same, for one whose rows Spark adds up (see summing). What it reads and writes is a user's own query: its time
# zone stays as it is, and no timestamp comes to Python as such.
FOR_SUMMED = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    _BATCH_BYTES: _NO_LIMIT,
    # The one node with state that Spark may have in it (see protecting.closing) has none to speak of, and sees the
    # watermark of the query without there being one below it.
    "spark.sql.streaming.internal.stateStore.partitions": "1",
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",
}

# The same, for a query whose checkpoint is a local folder. By default Spark notes offsets and commits through a layer
# that starts ten processes for every note (chmod, readlink): 120 ms of a batch. This one starts none. It does not keep
# two drivers apart that have one checkpoint; our own claim on the folder does (see places).
FOR_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

# For how many batches Spark keeps what it needs to go back to one: by its own rule 100.
_BATCHES_KEPT = "spark.sql.streaming.minBatchesToRetain"

_SOCKETS_ENABLED = "spark.python.unix.domain.socket.enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting that makes batches quicker and cannot be changed once a session is there."""

    name: str
    value: str
    default: str  # Spark's own
    costs: str  # what going without costs, a sentence


FOR_SPEED = (
    Setting(
        name="spark.python.daemon.module",
        value="spillway.spark.daemon",
        default="pyspark.daemon",
        costs="every Python worker loads numba and Spillway by itself, over a second each, and after every task looks "
        "for garbage among all of it: a tenth of a second for each shard of each batch.",
    ),
    Setting(
        name="spark.python.worker.reuse",
        value="true",
        default="true",
        costs="every task starts a Python worker of its own, and maps its shard's memory anew.",
    ),
    Setting(
        name=_SOCKETS_ENABLED,
        value="true",
        default="false",
        costs="Spark and Python wait for each other's delayed acknowledgements: some 40 ms for every stage of a batch.",
    ),
)

# Settings of a session that we make ourselves, beside those.
FOR_SESSION = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # Commands of ours run for minutes; without this the JVM keeps asking the system for memory it then leaves idle.
    "spark.driver.memory": "2g",
    # What Spark gives to Python (a batch collected, accumulators) it offers at a socket for so long, by its own rule
    # for 15 seconds. On a machine with much else to do nobody may come in time, and a run would end for that.
    "spark.python.authenticate.socketTimeout": "120s",
}

# The same, if the master is on this machine: then nothing needs to be reachable from others.
FOR_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

# The same, if executors are not in this process. A host that hangs shows its executors until they have been silent for
# so long, by Spark's own rule for two minutes and up to one more: its shards could not be late before.
FOR_EXECUTORS = {
    "spark.executor.heartbeatInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "15s",
    "spark.network.timeoutInterval": "2s",
}

# How long a task waits for a place on the host that it is pinned to, before it runs on another, which has no memory of
# its shard. Spark's own 3 s are soon over: tasks before it on that host may take as long. It also is how long a task
# waits whose host has gone in the middle of a stage, if others of the stage are pinned to hosts that live. All tasks of
# the session wait so, those that read files too, and Spark knows no such setting for a single query.
_WAIT_FOR_HOST = "spark.locality.wait.node"
WAIT_FOR_HOST_S = 30.0

# Spark starts a task a second time where the first seems slow, and takes whichever ends first; the other it kills. A
# task changes its shard's memory in place. The second attempt would undo what the first has done in order to do it
# again, and be killed in the middle of that; on another host it is refused, and a batch may fail four times only.
_SPECULATION = "spark.speculation"

_SOCKETS = "sockets-"
# The system takes names of sockets up to 104 bytes (macOS) or 108; Spark's own part of them is 42.
_SOCKET_FOLDER_LENGTH_MAX = 60


def session(*, master: str | None = None, app: str = "spillway", ui: bool = False, **settings: str) -> SparkSession:
    """A Spark session, set up for Spillway; an existing one is returned as it is.

    The default master is this machine, with as many threads as cores, at most 4. It tries a failed task four times (a
    plain ``local[N]`` never tries again). Spark says nothing but errors while it starts, unless ``SPILLWAY_VERBOSE`` is
    set in the environment or it has a ``log4j2.properties`` of the user's.
    """
    cores = min(os.cpu_count() or 1, 4)
    # Workers must run in this Python, not in whichever comes first on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or f"local[{cores},4]"
    builder = SparkSession.builder.master(master).appName(app)
    ours = FOR_SESSION | (FOR_THIS_MACHINE if _on_this_machine(master) else {}) | session_settings(master=master)
    for name, value in {**ours, "spark.ui.enabled": str(ui).lower(), **settings}.items():
        builder = builder.config(name.replace("__", "."), value)
    try:
        with quiet_start(), java_ends_if_cut_short():
            spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise SetupError(
            f"Spark did not start: {str(error).strip().splitlines()[0]} 'spillway doctor' says whether its Java is "
            f"fit, and with --verbose ({VERBOSE_VARIABLE}=1) Spark tells more."
        ) from error
    end_in_silence(spark.sparkContext)
    # What stops a run is raised in the driver, in one sentence; Spark's log would say it four times over, at length.
    spark.sparkContext.setLogLevel("WARN" if is_verbose() else "FATAL")
    return spark


def active_session() -> SparkSession | None:
    """The session of this process, if it has one: a process has one Spark."""
    return SparkSession.getActiveSession()


def session_settings(*, master: str = "local") -> dict[str, str]:
    """What a Spark session of one's own should be built with, so that a batch costs no more than in ``sw.session()``.

    Spark and its Python workers then talk through sockets. Where the master is this machine, they are in a folder that
    only this user can enter, which is made by this call and removed when the process ends; on other machines they are
    among the temporary files, with the rights that files of the user have. On a cluster, executors that fall silent are
    noticed after 15 seconds. Once a session is there nothing of this can be set any more.
    """
    if active_session() is not None:
        return {}  # a session that is there stays as it is
    executors = {} if master.startswith("local[") or master == "local" else FOR_EXECUTORS
    sockets = _sockets() if _on_this_machine(master) else {}
    return {setting.name: setting.value for setting in FOR_SPEED} | executors | sockets


def wait_for_hosts(spark: SparkSession, *, seconds: float = WAIT_FOR_HOST_S) -> None:
    """Let tasks of all stages that begin from now on wait so long for the host they are pinned to, whatever was set.

    Spark's scheduler reads this setting anew for every stage, so that unlike others it can be changed in a session.
    """
    context: Any = spark.sparkContext
    context._jsc.sc().conf().set(_WAIT_FOR_HOST, f"{round(1000 * seconds)}ms")


def refuse_speculation(spark: SparkSession) -> None:
    """Refuse a session in which two attempts of a task may run at the same time; where Spark is local it never does."""
    context: Any = spark.sparkContext._jsc
    given = context.sc().conf().get(_SPECULATION, "false")
    if given.strip().lower() == "true" and not context.sc().isLocal():
        raise RunError(
            f"This session has {_SPECULATION}={given}: Spark would run a task a second time while the first still "
            f"runs, and both would change the memory of the same shard. Start the session without it."
        )


def missing_settings(found: Mapping[str, str]) -> list[Setting]:
    """Those that batches would be quicker with, of a session that has these settings.

    >>> [setting.name for setting in missing_settings({"spark.python.daemon.module": "spillway.spark.daemon"})]
    ['spark.python.unix.domain.socket.enabled']
    """
    return [setting for setting in FOR_SPEED if found.get(setting.name, setting.default) != setting.value]


def _sockets() -> dict[str, str]:
    for left in map(look_at, default_root().glob(f"{_SOCKETS}*")):
        # One without an owner is about to get one: its process has only just made it.
        if left.owner is not None and not left.in_use:  # its process was killed
            shutil.rmtree(left.path, ignore_errors=True)
    folder = make_temporary(_SOCKETS, graph="Spark's workers")
    if len(str(folder)) > _SOCKET_FOLDER_LENGTH_MAX:
        shutil.rmtree(folder, ignore_errors=True)
        return {_SOCKETS_ENABLED: "false"}
    atexit.register(_leave, folder)
    return {"spark.python.unix.domain.socket.dir": str(folder)}


def _on_this_machine(master: str) -> bool:
    return master.startswith(("local", "spark://localhost:", "spark://127."))


def _leave(folder: Path) -> None:
    """Stop what talks through the sockets, so that it need not find out by itself, and remove them."""
    spark = active_session()
    if spark is not None:
        with suppress(Exception):  # Java may be gone already
            spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


class QueryKind(Enum):
    """What a query reads: payloads of our own, rows of streaming DataFrames, or rows that Spark adds up."""

    PAYLOADS = "payloads"
    ROWS = "rows"
    SUMMED = "summed"


_FOR_KIND = {QueryKind.PAYLOADS: FOR_PAYLOADS, QueryKind.ROWS: FOR_ROWS, QueryKind.SUMMED: FOR_SUMMED}


@contextmanager
def query_settings(
    spark: SparkSession, *, local_checkpoint: bool, kind: QueryKind = QueryKind.PAYLOADS, batches_kept: int = 0
) -> Iterator[None]:
    """Have the query's settings in force while it starts, then put back what was there.

    It can be sent back by at least ``batches_kept`` batches.
    """
    wanted = FOR_QUERY | _FOR_KIND[kind] | (FOR_LOCAL_CHECKPOINT if local_checkpoint else {})
    if batches_kept > int(spark.conf.get(_BATCHES_KEPT) or 0):
        wanted |= {_BATCHES_KEPT: str(batches_kept)}
    with _in_force(spark, wanted):
        yield


@contextmanager
def payload_settings(spark: SparkSession) -> Iterator[None]:
    """Have the limit of payloads in force, in the session of a query that reads rows."""
    spark.conf.set(_BATCH_BYTES, _PAYLOAD_BYTES)
    try:
        yield
    finally:
        spark.conf.set(_BATCH_BYTES, FOR_ROWS[_BATCH_BYTES])


@contextmanager
def adding_settings(spark: SparkSession) -> Iterator[None]:
    """Have those in force, in the session of a query, that a batch is planned with whose tuples Spark adds up.

    Spark exchanges keys between as many tasks as its default says, often 200, and a task costs what 10,000 keys do.
    """
    with _in_force(spark, {"spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism)}):
        yield


@contextmanager
def summing_settings(spark: SparkSession, *, shards: int) -> Iterator[None]:
    """Have those in force, in the session of a query, that rows are added up with whose exchange is that of shards."""
    with _in_force(spark, {"spark.sql.shuffle.partitions": str(shards)}):
        yield


@contextmanager
def _in_force(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
