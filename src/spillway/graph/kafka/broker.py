"""The servers of Kafka as far as a source needs them: what they have of a topic, and the records of a range.

The library is ``confluent-kafka``, which is librdkafka's. Whoever plans batches keeps one connection; a task opens one
of its own, which takes some milliseconds. There is no consumer group: which task reads what, and how far all have come,
is decided by whoever drives the batches, and nothing is committed to a server.

All waiting is bounded: whoever hears nothing for ``patience_s`` gives up and says so in one sentence.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from spillway.clock import Clock, SystemClock
from spillway.errors import InputError, RunError, SetupError
from spillway.graph.kafka.offsets import Held, TopicRange

_BEGINNING, _END = -2, -1  # as times at which to look for an offset
_ASK_S = 2.0  # to be told in other words what is wrong
_LOOK_S = 0.1  # the library waits until it has as many records as it was asked for, or so long
_RECORDS_FIRST, _RECORDS_MAX = 16, 10_000  # at once, before it is known how large they are and then
_BYTES_MAX = 1 << 24  # at once, about
_FETCHED_KB_MAX = 1 << 14  # ahead of who reads: a range is often not much more
_OURS: Mapping[str, Any] = {
    "group.id": "spillway",  # has to be named, and is not used
    "enable.auto.commit": False,
    "enable.partition.eof": True,  # says so where offsets at the end of a range have no records
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
_UNSAID: Mapping[str, Any] = {
    "log_level": 0,
    "queued.max.messages.kbytes": _FETCHED_KB_MAX,
    "fetch.queue.backoff.ms": 5,  # once it has fetched enough; after a second, as it is otherwise, we have long waited
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Which topic, and how to reach it."""

    servers: str
    topic: str
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)  # passwords among them
    patience_s: float = 30.0


class Broker:
    """A connection to the servers of one topic."""

    def __init__(self, link: Link, *, clock: Clock | None = None) -> None:
        self._link = link
        self._library = library()
        self._clock = clock or SystemClock()
        self._said = ""
        about = {**_UNSAID, **link.options, **_OURS, "bootstrap.servers": link.servers, "error_cb": self._hear}
        try:
            self._consumer: Any = self._library.Consumer(about)
        except self._library.KafkaException as error:
            raise RunError(f"kafka: an option was refused: {_told(error)}. Mend options= of {_who(link)}.") from error

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def held(self) -> dict[int, Held]:
        """What there is of every partition."""
        until_s = self._clock.monotonic_s() + self._link.patience_s
        while True:
            with self._spoken_to():
                try:
                    partitions = self._partitions(max(_LOOK_S, until_s - self._clock.monotonic_s()))
                    begins, ends = (self._offsets(partitions, at) for at in (_BEGINNING, _END))
                    return {each: Held(begin=begins[each], end=ends[each]) for each in partitions}
                except self._library.KafkaException as error:
                    # A partition that is being handed from one server to another has no leader for a moment.
                    if self._clock.monotonic_s() >= until_s or not error.args[0].retriable():
                        raise
            self._consumer.poll(_LOOK_S)

    def rest(self, seconds: float) -> None:
        """Ask nothing for a while."""
        self._consumer.poll(seconds)  # which gives nothing: nobody has said what to read

    def read(self, part: TopicRange, *, passed: Callable[[int], None] | None = None) -> Iterator[list[Any]]:
        """The records of a range, some at a time.

        If the first of them have expired ``passed`` is told how many, and the rest are read; they are refused without.
        """
        at, count = part.begin, _RECORDS_FIRST
        until_s = self._clock.monotonic_s() + self._link.patience_s
        self._go_to(part.partition, at)
        while at < part.end:
            with self._spoken_to():
                found = self._consumer.consume(min(count, part.end - at), timeout=_LOOK_S)
            records = [message for message in found if message.error() is None]
            offsets = [message.offset() for message in records]
            if offsets and not at <= offsets[0] <= offsets[-1] < part.end:
                records = [each for each, offset in zip(records, offsets, strict=True) if at <= offset < part.end]
            at = max([at, *(offset + 1 for offset in offsets[-1:])])
            if len(offsets) < len(found):
                at = self._after_others(found, part, at, passed)
            if found:
                until_s = self._clock.monotonic_s() + self._link.patience_s
            elif self._clock.monotonic_s() >= until_s:
                with self._spoken_to():
                    self._partitions(_ASK_S)  # the library waits for a topic that is gone, and says nothing
                raise self._silent(f"sent the records of partition {part.partition} from offset {at:,} on")
            if records:
                size = sum(map(len, records)) // len(records)
                count = max(1, min(_RECORDS_MAX, 10 * count, _BYTES_MAX // max(1, size)))
                yield records

    def _go_to(self, partition: int, at: int) -> None:
        with self._spoken_to():
            self._consumer.assign([self._library.TopicPartition(self._link.topic, partition, at)])

    def _after_others(self, found: list[Any], part: TopicRange, at: int, passed: Callable[[int], None] | None) -> int:
        """Where to go on after what came that are no records: the partition's end, or what the server has to say."""
        kinds = self._library.KafkaError
        for message in found:
            error = message.error()
            if error is None:
                continue
            if error.code() == kinds._PARTITION_EOF:
                at = max(at, message.offset())
            elif error.code() == kinds._AUTO_OFFSET_RESET:
                at = self._after_expired(part, at, passed)
                self._go_to(part.partition, at)
            else:
                with self._spoken_to():
                    raise self._library.KafkaException(error)
        return at

    def _after_expired(self, part: TopicRange, at: int, passed: Callable[[int], None] | None) -> int:
        """Where to go on in a range whose records are not there at an offset."""
        there = self.held().get(part.partition, Held(begin=0, end=0))
        if passed is None or there.begin <= at:
            raise InputError(
                f"kafka: records of partition {part.partition} of topic {self._link.topic!r} were to be read from "
                f"offset {at:,} on, and it now has those from {there.begin:,} up to {there.end:,}: they have expired, "
                f"or the topic was made anew. Say expired='skip' to go on with those that are there and count the "
                f"others, or begin anew with another checkpoint."
            )
        begin = min(there.begin, part.end)
        passed(begin - at)
        return begin

    def _partitions(self, timeout_s: float) -> list[int]:
        topic = self._consumer.list_topics(self._link.topic, timeout=timeout_s).topics[self._link.topic]
        if topic.error is not None:
            raise self._library.KafkaException(topic.error)
        return sorted(topic.partitions)

    def _offsets(self, partitions: list[int], at: int) -> dict[int, int]:
        asked = [self._library.TopicPartition(self._link.topic, each, at) for each in partitions]
        found = self._consumer.offsets_for_times(asked, timeout=self._link.patience_s)
        for each in found:
            if each.error is not None:
                raise self._library.KafkaException(each.error)
        return {each.partition: each.offset for each in found}

    def _hear(self, error: Any) -> None:
        """What the library says of its own accord; that all servers are gone says less than why one is."""
        if error.code() != self._library.KafkaError._ALL_BROKERS_DOWN:
            self._said = error.str()

    @contextmanager
    def _spoken_to(self) -> Iterator[None]:
        """What the library raises in one sentence of ours."""
        kinds = self._library.KafkaError
        try:
            yield
        except self._library.KafkaException as error:
            code = error.args[0].code()
            if code in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC, kinds._UNKNOWN_PARTITION):
                raise InputError(
                    f"kafka: there is no topic {self._link.topic!r} at {self._link.servers}, or it was removed. Make "
                    f"it first, or name another."
                ) from error
            if code in (kinds._TRANSPORT, kinds._TIMED_OUT, kinds._ALL_BROKERS_DOWN, kinds._RESOLVE):
                raise self._silent("answered") from error
            raise RunError(f"kafka: {_who(self._link)} cannot be read: {_told(error)}.") from error

    def _silent(self, wanted: str) -> RunError:
        self._consumer.poll(0)  # has the library say why
        why = f" ({self._said})" if self._said else ""
        return RunError(
            f"kafka: no server of {self._link.servers} has {wanted} within {self._link.patience_s:g} s{why}. Start "
            f"it, or mend servers= or options= of topic {self._link.topic!r}; nothing is lost."
        )


def library() -> Any:
    """The library, or one sentence on how to have it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise SetupError(
            "sw.kafka reads with the package confluent-kafka, which is not installed: pip install 'spillway[kafka]', "
            "or confluent-kafka."
        ) from error
    return confluent_kafka


def _who(link: Link) -> str:
    return f"topic {link.topic!r} at {link.servers}"


def _told(error: Any) -> str:
    return str(error.args[0].str()).rstrip(".")
