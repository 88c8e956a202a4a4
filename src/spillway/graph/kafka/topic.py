"""A topic of Kafka, as the user declares it; where a batch of it ends, and what a task reads of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from spillway.errors import GraphError, InputError
from spillway.given import check_whole, is_name, is_number, is_whole
from spillway.graph.contracts import Guarantee
from spillway.graph.feeds import SEQ, SEQ_FIELD, Piece
from spillway.graph.kafka.broker import Broker, Link, library
from spillway.graph.kafka.decoding import (
    RAW,
    ROWS_MAX,
    Decoded,
    Decoder,
    RecordFormat,
    check_json,
    decoded,
    decoding,
)
from spillway.graph.kafka.offsets import Place, TopicRange, next_place, ranges
from spillway.records.ranges import Passed

About = Literal["key", "partition", "offset", "time"]
OnBroken = Literal["stop", "skip", "keep"]
OnExpired = Literal["stop", "skip"]
Begin = Literal["earliest", "latest"]

_NAME_LENGTH_MAX = 249  # as servers have it
_ABOUT: Mapping[str, pa.Field] = {
    "key": pa.field("key", pa.binary()),
    "partition": pa.field("partition", pa.int32(), nullable=False),
    "offset": pa.field("offset", pa.int64(), nullable=False),
    "time": pa.field("time", pa.timestamp("us", tz="UTC")),
}
_KEPT = (pa.field("broken", pa.string()), pa.field("record", pa.binary()))
"""What is wrong with a record that is kept though it is broken, and its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of Kafka, as ``kafka`` declares it."""

    link: Link
    format: RecordFormat | Decoder
    stored: pa.Schema  # of what is in a record
    about: tuple[About, ...] = ()
    begin: Begin = "earliest"
    records_per_batch: int = 500_000
    rows_max: int = 1
    broken: OnBroken = "stop"
    expired: OnExpired = "stop"
    schema: pa.Schema = field(init=False)
    """Of every tuple, ``seq`` included."""

    def __post_init__(self) -> None:
        kept = _KEPT if self.broken == "keep" else ()
        columns = [SEQ_FIELD, *self.stored, *(_ABOUT[name] for name in self.about), *kept]
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise GraphError(
                f"kafka: topic {self.link.topic!r} would have two columns {twice[0]!r}: of {', '.join(names)}, 'seq' "
                f"is made here, what about= names is added to the schema, and so are 'broken' and 'record' by "
                f"broken='keep'. Name the one in the schema otherwise."
            )
        object.__setattr__(self, "schema", pa.schema(columns))

    @property
    def guarantee(self) -> Guarantee:
        """What of a contract it keeps, whatever happens."""
        for name in ("expired", "broken"):
            if getattr(self, name) == "skip":
                return Guarantee(
                    lossless=False,
                    why=f"it goes on behind records of {self.link.topic!r} that are {name}",
                    instead=f"kafka(…, {name}='stop')",
                )
        return Guarantee(lossless=True, why="it can be read again")

    def next(self, broker: Broker, start: Place, *, most: int | None, upto: Mapping[int, int] | None = None) -> Place:
        """Where the batch behind ``start`` ends, at most so many records further."""
        return next_place(
            start,
            broker.held(),
            most=most,
            from_end=self.begin == "latest",
            skips=self.expired == "skip",
            upto=upto,
            topic=self.link.topic,
        )

    def open(self, part: TopicRange) -> Piece:
        """Some records of a partition, to be read; they are counted as far as they are passed over."""
        name = f"partition {part.partition} of topic {self.link.topic!r}, offsets {part.begin} to {part.end - 1}"
        passed = Passed()
        return Piece(number=part.number, name=name, batches=self._batches(part, passed), passed=passed)

    def now(self) -> "TopicNow":
        """What there is now, as a feed that ends with it."""
        found: list[TopicRange | None] = []
        with Broker(self.link) as broker:
            held = broker.held()
            place, width = Place(), max(1, len(held))
            upto = {partition: there.end for partition, there in held.items()}
            while True:
                after = self.next(broker, place, most=self.records_per_batch, upto=upto)
                if after == place:
                    break
                of_batch = ranges(place, after)
                # The pieces of a feed are as many in every batch.
                found += [*of_batch, *[None] * (width - len(of_batch))] if of_batch else []
                place = after
        return TopicNow(topic=self, parts=tuple(found), pieces_per_batch=width)

    def _batches(self, part: TopicRange, passed: Passed) -> Iterator[pa.RecordBatch]:
        decode = decoding(self.format, self.stored, rows_max=self.rows_max)
        expire = passed.expire if self.expired == "skip" else None
        with Broker(self.link) as broker:
            for records in broker.read(part, passed=expire):
                values = [record.value() for record in records]
                for some in decoded(decode, values):
                    whole = self._whole(part, records, some, passed)
                    if whole is not None:
                        yield whole

    def _whole(self, part: TopicRange, records: Sequence[Any], some: Decoded, passed: Passed) -> pa.RecordBatch | None:
        """Tuples with their numbers and whatever else is wanted of their records; none if these are passed over."""
        tuples, of = some.tuples, some.of
        if tuples is None:
            record = records[some.first]
            if self.broken != "keep":
                self._refuse(part, record.offset(), some.why, passed)
                return None
            tuples = pa.RecordBatch.from_arrays(
                [pa.nulls(1, column.type) for column in self.stored], schema=self.stored
            )
        if of is None:
            of = np.arange(tuples.num_rows)
        offsets = np.fromiter(
            (record.offset() for record in records[some.first : some.first + int(of[-1]) + 1]) if of.size else (),
            np.int64,
        )[of]
        within = np.arange(of.size) - np.searchsorted(of, of)  # among those of its record
        seqs = (part.first + (offsets - part.begin)) * self.rows_max + within
        about = [self._told(name, part, records, offsets, some.first + of) for name in self.about]
        columns = [pa.array(seqs), *tuples.columns, *about]
        if self.broken == "keep":
            bad = some.tuples is None
            why, value = (some.why, records[some.first].value()) if bad else (None, None)
            columns += [
                pa.repeat(pa.scalar(why, pa.string()), of.size),
                pa.repeat(pa.scalar(value, pa.binary()), of.size),
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _refuse(self, part: TopicRange, offset: int, why: str, passed: Passed) -> None:
        where = f"partition {part.partition}, offset {offset:,} of topic {self.link.topic!r}"
        if self.broken == "skip":
            passed.spoil(f"{where}: {why}")
            return
        raise InputError(
            f"kafka: the record at {where} is broken: {why}. Say broken='skip' to pass over it and count it, or "
            f"broken='keep' to have it in columns of its own."
        )

    @staticmethod
    def _told(name: About, part: TopicRange, records: Sequence[Any], offsets: Any, which: Any) -> pa.Array:
        match name:
            case "partition":
                return pa.array(np.full(len(which), part.partition, np.int32))
            case "offset":
                return pa.array(offsets)
            case "key":
                return pa.array([records[index].key() for index in which], pa.binary())
            case "time":
                times_us = [1_000 * at if (at := records[index].timestamp()[1]) >= 0 else None for index in which]
                return pa.array(times_us, pa.int64()).cast(_ABOUT["time"].type)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNow:
    """What a topic had at one time, as a feed: a batch is a piece of each partition, as on Spark."""

    topic: Topic
    parts: tuple[TopicRange | None, ...]
    pieces_per_batch: int

    @property
    def schema(self) -> pa.Schema:
        return self.topic.schema

    @property
    def pieces(self) -> int:
        return len(self.parts)

    def open(self, piece: int) -> Piece:
        part = self.parts[piece]
        return Piece(number=piece, name="nothing", batches=iter(())) if part is None else self.topic.open(part)

    def read(self, piece: int) -> pa.RecordBatch:
        """A whole piece."""
        table = pa.Table.from_batches(self.open(piece).batches, self.schema)
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def kafka(
    servers: str | Sequence[str],
    topic: str,
    *,
    format: RecordFormat | Decoder = "json",
    schema: pa.Schema | None = None,
    about: Sequence[About] = (),
    begin: Begin = "earliest",
    records_per_batch: int = 500_000,
    rows_max: int | None = None,
    broken: OnBroken = "stop",
    expired: OnExpired = "stop",
    patience_s: float = 30.0,
    options: Mapping[str, str | int | float | bool] | None = None,
) -> Topic:
    """A source that reads a topic of Kafka, and goes on with the records that come: in ``graph.source``.

    servers            ``"host:port"``, several of them in a list or with commas between
    format             what a record's value is. ``"json"``: an object with the columns of ``schema`` as its keys;
                       others are left out, and one that is missing is null. ``"arrow"``: an IPC stream of up to
                       ``rows_max`` rows, 65,536 by default, that has the columns of ``schema``. ``"raw"``: bytes, in
                       a column ``value``. Or a function of your own, which is given a list of bytes, returns a record
                       batch of ``schema`` with a row for each, and raises if it cannot read one
    schema             columns and types, a pyarrow schema; not for ``"raw"``
    about              what else of a record to have as columns: ``"key"``, ``"partition"``, ``"offset"``, ``"time"``
    begin              where a run without a checkpoint begins: with the ``"earliest"`` record there is, or behind the
                       ``"latest"``
    records_per_batch  at most so many are read in a batch; each partition is read by a task of its own
    broken             records that cannot be read: ``"stop"`` with a sentence that says which, ``"skip"`` and count
                       them, or ``"keep"`` them: they have null in all columns of the schema, what is wrong in a column
                       ``broken``, and their bytes in a column ``record``
    expired            records the topic no longer has when they were to be read: ``"stop"``, or ``"skip"`` and count
    patience_s         how long servers may be silent before the run stops
    options            more options of librdkafka, as for TLS and passwords (``security.protocol``, ``sasl.…``)

    Tuples are numbered by partition and offset, batch by batch (``seq``). Spark notes the offsets of every batch before
    it runs, in the checkpoint: a run that is started again, or sent back under ``Coordinated``, goes on with exactly
    the record behind the last that counts. Partitions that are added to the topic are read from their beginning.
    The local runtime reads what there is when the run is made. Wants the extra ``spillway[kafka]``.
    """
    library()
    given = [servers] if isinstance(servers, str) else list(servers)
    names = [name.strip() for each in given for name in str(each).split(",")]
    if not names or not all(names):
        raise GraphError(f"kafka: servers must be 'host:port', one or several; got {servers!r}.")
    if not is_name(topic, length_max=_NAME_LENGTH_MAX, allows=str.isprintable):
        raise GraphError(f"kafka: the name of a topic is wanted, as text; got {topic!r}.")
    check_whole("kafka: records_per_batch", records_per_batch, least=1)
    if not is_number(patience_s, above=0):
        raise GraphError(f"kafka: patience_s must be a number above 0; got {patience_s!r}.")
    _check_one_of("broken", broken, get_args(OnBroken))
    _check_one_of("expired", expired, get_args(OnExpired))
    _check_one_of("begin", begin, get_args(Begin))
    for name in about:
        _check_one_of("about", name, tuple(_ABOUT))
    if not callable(format):
        _check_one_of("format", format, get_args(RecordFormat))
    kind = "own" if callable(format) else format
    if rows_max is not None and (kind != "arrow" or not is_whole(rows_max, least=1, most=1 << 24)):
        raise GraphError(f"kafka: rows_max is a whole number up to 16,777,216, for format='arrow'; got {rows_max!r}.")
    return Topic(
        link=Link(servers=",".join(names), topic=topic, options=dict(options or {}), patience_s=patience_s),
        format=format,
        stored=_stored(kind, schema, keeps=broken == "keep"),
        about=tuple(dict.fromkeys(about)),
        begin=begin,
        records_per_batch=records_per_batch,
        rows_max=rows_max or ROWS_MAX.get(kind, 1),
        broken=broken,
        expired=expired,
    )


def _stored(kind: str, schema: pa.Schema | None, *, keeps: bool) -> pa.Schema:
    if kind == "raw":
        if schema is not None:
            raise GraphError("kafka: format='raw' gives the bytes of records in a column 'value': leave out schema=.")
        return RAW
    if not isinstance(schema, pa.Schema) or not schema.names:
        raise GraphError(f"kafka: schema= is wanted, a pyarrow schema of at least one column; got {schema!r}.")
    if SEQ in schema.names:
        raise GraphError("kafka: column 'seq' is made of partition and offset: leave it out of the schema.")
    if kind == "json":
        check_json(schema)
    if keeps:
        missing = [column.name for column in schema if not column.nullable]
        if missing:
            raise GraphError(
                f"kafka: broken='keep' has null in all columns for records that are broken, and {missing[0]!r} is "
                f"declared as not null. Declare it as nullable, or say broken='skip'."
            )
    return schema


def _check_one_of(what: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise GraphError(f"kafka: {what} is one of {', '.join(allowed)}; got {value!r}.")
