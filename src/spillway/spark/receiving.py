"""The items of a receiver as a streaming source of Spark.

An offset is the receiver and the ``seq`` up to which items were read. The receiver makes durable how far it lets Spark
read before it says so, and forgets items once Spark commits the batch that has them; until then any batch can be read
again. A receiver serves one query.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from spillway.errors import InputError
from spillway.given import check_whole
from spillway.graph.checked import CheckedGraph
from spillway.graph.contracts import Guarantee
from spillway.graph.graph import Graph
from spillway.graph.keeping import check_contracts
from spillway.graph.spark_types import spark_schema
from spillway.receiver import ItemReader, ItemSchema
from spillway.spark.read_again import RECEIVED
from spillway.tls import TLS

_ALL = 1 << 40

_GUARANTEES: dict[str, Guarantee] = {}
"""What sources keep that this process made DataFrames of, by the names of their formats: a DataFrame forgets that."""


@dataclass
class Range(InputPartition):
    """The items with after < seq <= upto: one task of stage 0."""

    after: int
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How to reach the receiver, and how much to read at once."""

    address: str
    token: str
    schema: ItemSchema
    items_per_batch: int
    partitions: int
    patience_s: float
    tls: TLS | None


class ReceivedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one receiver; travels to the workers, which connect on their own."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._connected: tuple[ItemReader, str] | None = None
        self._target = _ALL

    def __getstate__(self) -> dict[str, Any]:
        return {"_link": self._link, "_connected": None, "_target": self._target}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        reader, receiver = self._reader()
        return {"receiver": receiver, "seq": reader.first()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._link.items_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        reader, receiver = self._reader()
        if start["receiver"] != receiver:
            raise InputError(
                f"The query has read from another receiver than the one at {self._link.address}, whose folder is new. "
                f"Start the query with a new checkpoint, or the receiver with its old folder."
            )
        items_max = _ALL if isinstance(limit, ReadAllAvailable) else self._link.items_per_batch
        # Items that are not wanted now are not planned either: they stay out of what a crash leaves in doubt.
        items_max = min(items_max, max(0, self._target - start["seq"]))
        return {"receiver": receiver, "seq": reader.latest(after=start["seq"], items_max=items_max)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._reader()[0].status()["position"]["admitted"]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        after, upto = start["seq"], end["seq"]
        size = max(1, -(-(upto - after) // self._link.partitions))
        return [Range(at, min(at + size, upto)) for at in range(after, upto, size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        schema = self._link.schema.handed_out
        with self._new_reader() as reader:
            for batch in reader.read(after=partition.after, upto=partition.upto):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def commit(self, end: dict[str, Any]) -> None:
        self._reader()[0].commit(upto=end["seq"])

    def stop(self) -> None:
        if self._connected is not None:
            self._connected[0].close()
            self._connected = None

    def _reader(self) -> tuple[ItemReader, str]:
        """The driver's own connection, and which receiver it leads to."""
        if self._connected is None:
            reader = self._new_reader()
            self._connected = reader, reader.greeting()[0]
        return self._connected

    def _new_reader(self) -> ItemReader:
        return ItemReader(self._link.address, self._link.token, patience_s=self._link.patience_s, tls=self._link.tls)


def received(
    spark: SparkSession,
    address: str,
    *,
    token: str,
    items_per_batch: int = 1_000_000,
    partitions: int = 2,
    patience_s: float = 60.0,
    tls: TLS | None = None,
) -> DataFrame:
    """The items of the receiver at HOST:PORT as a streaming DataFrame: ``seq``, ``punctuation``, and its columns.

    ``patience_s`` is how long the receiver may be away before the query fails. A receiver that was started with a
    certificate is reached with ``tls``, whose files are on the driver and on every host.
    """
    check_whole("received: items_per_batch", items_per_batch, least=1)
    check_whole("received: partitions", partitions, least=1)
    with ItemReader(address, token, patience_s=patience_s, tls=tls) as reader:
        _, schema = reader.greeting()
        items = reader.status().get("items_allowed")
    link = Link(
        address=address,
        token=token,
        schema=schema,
        items_per_batch=items_per_batch,
        partitions=partitions,
        patience_s=patience_s,
        tls=tls,
    )
    columns = spark_schema(schema.handed_out, f"Receiver at {address}")
    format_name = RECEIVED + "".join(c if c.isalnum() else "-" for c in address)
    promised(format_name, _guarantee(items))

    class ReceivedSource(DataSource):
        """Defined here so that it travels to the workers with its link inside."""

        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> str:
            return columns

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return ReceivedReader(link)

    spark.dataSource.register(ReceivedSource)
    return spark.readStream.format(format_name).load()


def promised(format_name: str, guarantee: Guarantee) -> None:
    """Remember what the source of this format keeps of a contract, for all that is made of its DataFrame."""
    _GUARANTEES[format_name] = guarantee


def checked(graph: Graph) -> CheckedGraph:
    """The frozen graph, its contracts checked by what its receivers keep too, whatever became of their DataFrames."""
    frozen = graph.checked()
    found: dict[str, Guarantee] = {}
    for name, source in frozen.sources.items():
        if source.by_spark:
            plan = source.frame._jdf.queryExecution().analyzed().toString()
            known = [guarantee for format_name, guarantee in _GUARANTEES.items() if format_name in plan]
            if known:
                found[name] = next((each for each in known if not each.lossless), known[0])
    check_contracts(frozen, found)
    return frozen


def _guarantee(items: float | None) -> Guarantee:
    if items == 0:
        return Guarantee(lossless=True, why="the receiver makes every item durable before it acknowledges it")
    most = "" if items is None else f"up to {items:,.6g} "
    return Guarantee(
        lossless=False,
        why=f"the receiver may lose {most}items that it acknowledged",
        instead="a receiver with items 0",
    )
