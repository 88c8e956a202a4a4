"""Random queries, each run as ``sw.protect`` runs it and by Spark alone, batch after batch: results must be the same.

What is run here is everything but the stream: what Spark makes of a micro-batch, what is kept between them, what Spark
makes of that. Batches are rows that are there; after the last, Spark's answer is that of a plain query over all rows.
Where Spark refuses the rows, as it does when a sum does not fit, ours must too.
"""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from spillway.errors import InputError
from spillway.graph.feeds import SEQ_FIELD
from spillway.graph.spark_types import arrow_of, spark_schema
from spillway.graph.summed import When
from spillway.operators.aggregate import Mode
from spillway.operators.operator import Out
from spillway.soak.queries import COLUMNS, NUMBER, SCHEMA, VIEW, RandomQuery
from spillway.spark import session
from spillway.spark.catalyst import Catalyst
from spillway.spark.protecting.taken import Taken
from spillway.spark.protecting.taking_apart import taken_apart
from spillway.state.shard import Shard

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_NAMES = {**COLUMNS, NUMBER: "bigint"}
_TYPES = [arrow_of(kind) for kind in _NAMES.values()]
_TOO_LARGE = ("OVERFLOW", "overflow", "does not fit", "out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What came of one query."""

    groups: int
    refused: bool  # by both
    difference: str = ""


def compare(query: RandomQuery, spark: Any) -> Compared:
    """Run a query both ways, to the end of its batches."""
    wanted = _rows(lambda: _asked(spark, query.plain, [row for batch in query.batches for row in batch]))
    with tempfile.TemporaryDirectory(prefix="spillway-soak-") as folder:
        found = _rows(lambda: _ours(query, spark, Path(folder) / "shard"))
    groups = 0 if wanted is None else len(wanted)
    if wanted is None or found is None:
        told = "" if wanted is found else f"Spark {'refused' if wanted is None else 'did not refuse'} it"
        return Compared(groups=groups, refused=True, difference=told)
    told = "" if found == wanted else difference(spark=wanted, ours=found)
    return Compared(groups=groups, refused=False, difference=told)


def _ours(query: RandomQuery, spark: Any, folder: Path) -> Any:
    first, *others = query.batches
    frame = _asked(spark, query.sql, list(first))
    asked = taken_apart(frame.dropDuplicates(list(query.by)) if query.by else frame)
    kept = _Kept(asked, folder, mode="append" if query.by else "complete")
    kept.add(asked.entering, 0, at_once=query.at_once)
    for number, batch in enumerate(others, 1):
        kept.add(_of_others(asked.entering, _given(spark, list(batch))), number, at_once=query.at_once)
    return kept.results(spark)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVerdict:
    """What came of a query, as the soak tells it."""

    history: RandomQuery
    story: str
    seconds: float
    compared: Compared


@dataclass(slots=True, kw_only=True)
class QueryTotals:
    """What came of some queries."""

    histories: int = 0
    groups: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    broken: dict[int, str] = field(default_factory=dict)  # by seed: the whole story

    def count(self, verdict: QueryVerdict) -> None:
        self.histories += 1
        self.groups += verdict.compared.groups
        self.ends["refused by both" if verdict.compared.refused else "compared to the end"] += 1
        if verdict.story:
            self.broken[verdict.history.seed] = verdict.story


class QueryWorld:
    """A session for small queries; for the length of a ``with``."""

    def __init__(self, spark: Any | None = None) -> None:
        self._spark = spark

    def __enter__(self) -> Self:
        self._spark = self._spark or session()
        self._small = set_for_small_queries(self._spark)
        self._small.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._small.__exit__(*raised)

    def live(self, query: RandomQuery) -> QueryVerdict:
        """Compare one query."""
        began_s = time.monotonic()
        compared = compare(query, self._spark)
        story = f"{compared.difference}\n{query.sql}" if compared.difference else ""
        return QueryVerdict(history=query, story=story, seconds=time.monotonic() - began_s, compared=compared)


@contextmanager
def set_for_small_queries(spark: Any) -> Iterator[None]:
    """Settings for the length of a ``with``.

    It is Spark's answer that counts, not its speed: no query is compiled, which takes longer than running it.
    """
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


class _Kept:
    """What is kept of a query between batches."""

    def __init__(self, asked: Taken, folder: Path, *, mode: Mode) -> None:
        self._schema = asked.carried()
        operator = asked.operator("groups", mode=mode, told_by="", protection=None, thetas={}, shards=2, wraps=False)
        self._shard = Shard(folder, fingerprint=0, tracked=True)
        entering = pa.schema([SEQ_FIELD, *self._schema])
        self._operator = operator.opened(self._shard, operator.output_schemas({"in": entering}))
        self._asked = asked
        self._entering = entering
        self._mode = mode
        self._out: list[pa.RecordBatch] = []

    def add(self, entering: Any, batch: int, *, at_once: bool) -> None:
        """The rows of a batch."""
        brought = self._asked.added_up(entering, shards=2, when=When(), at_once=at_once)
        rows = brought.toArrow().cast(self._schema).combine_chunks()
        with self._shard.lock():
            self._shard.begin(batch)
            self._operator.begin()
            out: list[Out] = []
            for some in rows.to_batches(max_chunksize=7):
                columns = [pa.array(np.full(some.num_rows, batch)), *some.columns]
                out += self._operator.process("in", pa.RecordBatch.from_arrays(columns, schema=self._entering))
            out += self._operator.finish()
            found = [one.batch for one in out]
            self._out = found if self._mode == "complete" else self._out + found
            self._shard.settle(seq=batch, tuples=rows.num_rows)
            self._shard.commit()

    def results(self, spark: Any) -> Any:
        """What there is after the last batch."""
        out = self._operator.schemas["out"]
        # PySpark stumbles over lists in a table without any batch.
        batches = [*self._out, pa.RecordBatch.from_pylist([], out)]
        table = pa.Table.from_batches(batches, schema=out).drop_columns([SEQ_FIELD.name])
        return self._asked.result(spark.createDataFrame(table, spark_schema(table.schema, "groups")))


def _asked(spark: Any, query: str, rows: list[Any]) -> Any:
    _given(spark, rows).createOrReplaceTempView(VIEW)
    return spark.sql(query)


def _given(spark: Any, rows: list[Any]) -> Any:
    """The rows as a DataFrame. Given as Arrow, Spark has them; for rows of Python's it would ask a worker."""
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(_TYPES)]
    batch = pa.RecordBatch.from_arrays(columns, names=[*_NAMES])
    return spark.createDataFrame(pa.Table.from_batches([batch]), SCHEMA).coalesce(1)


def _of_others(frame: Any, rows: Any) -> Any:
    """The same DataFrame of other rows: taking a query apart again would cost more than running it."""
    catalyst = Catalyst(rows.sparkSession)
    nodes, fresh = [catalyst.analyzed(frame)], catalyst.analyzed(rows)
    while nodes[-1].children().size():
        nodes.append(nodes[-1].children().head())
    while fresh.children().size():
        fresh = fresh.children().head()
    plan = nodes.pop()
    plan = plan.copy(plan.output(), fresh.data(), plan.isStreaming(), plan.stream())
    for node in reversed(nodes):
        plan = catalyst.on(node, plan)
    return catalyst.frame(plan)


def _rows(make: Any) -> Counter[Any] | None:
    """The rows of a DataFrame, each as often as it occurs; None if it was refused."""
    try:
        return Counter(plain(tuple(row)) for row in make().collect())
    except Exception as error:
        sparks = isinstance(error, InputError) or type(error).__module__.startswith(("pyspark", "py4j"))
        if sparks and any(word in str(error) for word in _TOO_LARGE):
            return None
        raise


def plain(value: Any) -> Any:
    """A value that can be compared with ``==``: NaN equals itself, and -0.0 is another zero only where it is a key."""
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def difference(*, spark: Counter[Any], ours: Counter[Any]) -> str:
    """In words, of the first rows that differ."""
    return f"Spark has {_first(spark, ours)}, ours {_first(ours, spark)}"


def _first(some: Counter[Any], others: Counter[Any]) -> str:
    return repr(next(iter((some - others).elements()), "nothing else"))[:300]
