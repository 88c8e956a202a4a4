"""Servers of Kafka in this process: those that librdkafka brings for tests, on loopback, and what they are given."""

import ctypes
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_new": (ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_conf_new": (ctypes.c_void_p, ()),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t),
    ),
    "rd_kafka_mock_cluster_new": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
    "rd_kafka_mock_cluster_destroy": (None, (ctypes.c_void_p,)),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, (ctypes.c_void_p,)),
    "rd_kafka_mock_topic_create": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)),
    "rd_kafka_mock_topic_delete": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)),
    "rd_kafka_mock_partition_delete_records": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64),
    ),
    "rd_kafka_mock_partition_set_leader": (
        ctypes.c_int,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32),
    ),
    "rd_kafka_mock_broker_set_down": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32)),
    "rd_kafka_mock_broker_set_up": (ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32)),
}
_PRODUCER = 0
_FLUSH_S = 20.0

Record = bytes | str | Mapping[str, Any] | None


class Servers:
    """A cluster; its records live in this process and end with it."""

    def __init__(self, count: int = 1) -> None:
        self._library = _library()
        said = ctypes.create_string_buffer(512)
        options = self._library.rd_kafka_conf_new()
        for name, value in ((b"log_level", b"0"), (b"bootstrap.servers", b"127.0.0.1:1")):
            assert self._library.rd_kafka_conf_set(options, name, value, said, len(said)) == 0, said.value
        self._handle = self._library.rd_kafka_new(_PRODUCER, options, said, len(said))
        assert self._handle, said.value
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, count)
        self.address: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = confluent_kafka.Producer({"bootstrap.servers": self.address, "log_level": 0, "linger.ms": 1})

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)

    def make(self, topic: str, *, partitions: int = 1) -> None:
        self._do("topic_create", topic.encode(), partitions, 1)

    def remove(self, topic: str) -> None:
        self._do("topic_delete", topic.encode())

    def expire(self, topic: str, partition: int, *, before: int) -> None:
        """Have the records of a partition gone whose offset is lower."""
        self._do("partition_delete_records", topic.encode(), partition, before)

    def lead(self, topic: str, partition: int, server: int) -> None:
        """Have another server lead a partition."""
        self._do("partition_set_leader", topic.encode(), partition, server)

    def fail(self, server: int) -> None:
        """Have a server answer nobody."""
        self._do("broker_set_down", server)

    def put(self, topic: str, records: Iterable[Record], *, partition: int = 0, key: bytes | None = None) -> None:
        """Add records; they are there when this returns."""
        for record in records:
            value = json.dumps(record) if isinstance(record, Mapping) else record
            self._producer.produce(topic, value=value, key=key, partition=partition)
        assert self._producer.flush(_FLUSH_S) == 0

    def spread(self, topic: str, records: Sequence[Record], *, partitions: int) -> None:
        """Add records to several partitions in turn."""
        for partition in range(partitions):
            self.put(topic, records[partition::partitions], partition=partition)

    def _do(self, what: str, *given: Any) -> None:
        assert getattr(self._library, f"rd_kafka_mock_{what}")(self._cluster, *given) == 0, what


@contextmanager
def serving(count: int = 1) -> Iterator[Servers]:
    servers = Servers(count)
    try:
        yield servers
    finally:
        servers.close()


def _library() -> Any:
    """The library inside the package, by more names than the package has in Python."""
    package = Path(confluent_kafka.__file__).parent
    found = [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/librdkafka*")]
    library = ctypes.CDLL(str(found[0])) if found else ctypes.CDLL("librdkafka.so.1")
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
