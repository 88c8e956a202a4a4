"""Something is asked of every host: one task for each, pinned to it, and what each answers.

Which host answered is what Spark told the executor of that task, never what the task makes of itself. Locations are
hints, so a task may be computed elsewhere: then that host has answered, perhaps twice, and those that have not are
asked again, as long as there is time: one that is only busy has its tasks taken by others again and again (a soak on a
machine that did too much else saw a host miss four in a row). Where tasks fail, or hosts show no executor, a few
attempts are enough.
Answers come one by one, by an accumulator, so that a host that is silent does not cost those of others.

Whatever is asked may thus be done twice, and on hosts that were not meant.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spillway.clock import Clock, SystemClock
from spillway.spark.hosts import hosts_seen, this_host
from spillway.spark.pinning import pinned
from spillway.spark.raised import CANCELLATION, as_ours

_ROUNDS_MIN = 4
_PAUSE_S = 0.1  # before those that have not answered are asked again

Asked = Callable[[str], Any]
"""What a host is asked, given its name; whatever it returns must be plain data."""


@dataclass(slots=True, kw_only=True)
class Answers:
    """What came back."""

    of: dict[str, Any] = field(default_factory=dict)  # by host
    silent: str = ""  # why others did not answer: a sentence


def ask_hosts(
    spark: SparkSession,
    hosts: Iterable[str],
    ask: Asked,
    *,
    seconds_max: float,
    clock: Clock | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> Answers:
    """The answers of these hosts that come in time."""
    clock = clock or SystemClock()
    wanted = frozenset(hosts)
    until_s = clock.monotonic_s() + seconds_max
    answers, failed, rounds = Answers(), "", 0
    while (silent := wanted - answers.of.keys()) and (left_s := until_s - clock.monotonic_s()) > 0:
        if rounds >= _ROUNDS_MIN and (failed or not silent & hosts_seen(spark.sparkContext)):
            break
        if rounds:
            pause(_PAUSE_S)
        came, failed = _asked(spark, sorted(silent), ask, left_s)
        answers.of |= {host: answer for host, answer in came if host in wanted}
        rounds += 1
    late = clock.monotonic_s() >= until_s
    how = f"within {seconds_max:g} s" if late else f"in {rounds} attempts"
    why = failed or "Its executor may be busy or gone: look at its log, or start again without it."
    answers.silent = f"did not answer {how}. {why}"
    return answers


class _Answered(AccumulatorParam[list[tuple[str, Any]]]):
    """Answers of tasks, appended in the driver."""

    def zero(self, value: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return []

    def addInPlace(  # noqa: N802
        self, value1: list[tuple[str, Any]], value2: list[tuple[str, Any]]
    ) -> list[tuple[str, Any]]:
        value1.extend(value2)
        return value1


def _asked(spark: SparkSession, hosts: list[str], ask: Asked, seconds_max: float) -> tuple[list[tuple[str, Any]], str]:
    """The answers that come in time, of these hosts or of others that tasks were computed on; and why one failed."""
    context = spark.sparkContext
    answers = context.accumulator([], _Answered())

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for host in batch.column("host").to_pylist():
                answers.add([(host, ask(host))])
        yield from ()

    count = len(hosts)
    frame = pinned(spark.range(0, count, 1, count), hosts).select(this_host(context).alias("host"))
    tag = f"spillway-{uuid.uuid4().hex}"
    in_time = threading.Timer(math.ceil(seconds_max), context.cancelJobsWithTag, [tag])
    in_time.daemon = True
    # A tag, and not a group of jobs: where this is a batch of a query, the group is the query's.
    context.addJobTag(tag)
    in_time.start()
    failed = ""
    try:
        frame.mapInArrow(task, "host string").collect()
    except (PySparkException, Py4JError) as error:
        # Who has not answered is asked again, or told.
        if CANCELLATION not in str(error):
            failed = str(as_ours(error, "Spark said"))
    finally:
        in_time.cancel()
        context.removeJobTag(tag)
    return list(answers.value), failed
