"""Records a second from a topic of Kafka to a count, against the same records through files, and what limits it.

The broker is the one that librdkafka brings for tests, in this process and with nothing on a disk: with a real one a
network, a disk and other readers come on top. It keeps 5 MB of each of its four partitions, so records are compressed,
as they would be. Contenders take turns, a batch each: a topic of JSON, files of the same JSON lines, and Arrow files of
the same tuples. Each batch of files is four files, one for each partition.

What limits it is measured apart, by one reader: how fast the client takes records when nothing is done with them (the
broker gives them at the same time), how fast those are decoded, and how fast tuples are counted without Spark. The time
of the batches of a run of its own says which part of them is spent on what.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spillway.benches.bench import Bench, Notes, Tell, option
from spillway.benches.figures import median_interval, ratio_of_turns
from spillway.benches.side_by_side import Contender, side_by_side
from spillway.errors import RunError
from spillway.files.arrow_files import table_bytes
from spillway.files.durable import write_whole
from spillway.graph import Discard, Generator, Graph, Nothing
from spillway.graph.growing import files
from spillway.graph.kafka.broker import Broker, Link, library
from spillway.graph.kafka.decoding import decoded, decoding
from spillway.graph.kafka.offsets import TopicRange
from spillway.graph.kafka.topic import Topic, kafka
from spillway.local import LocalRun
from spillway.operators import Count
from spillway.records.bench import BenchRecords
from spillway.records.times import Work
from spillway.seeds import generator
from spillway.spark import session
from spillway.spark.timing import timed

SYSTEMS = ("kafka", "json_files", "arrow_files")
LIMITS = ("client", "decoding", "counting")
BROKER = "librdkafka's mock broker, in memory, in the process of the driver"
_PARTITIONS = 4  # as that broker makes topics
_TOPIC = "words"
_SCHEMA = pa.schema([("word", pa.string()), ("n", pa.int64())])
_FLUSH_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBench(Bench):
    """Subjects are what records come through, and what a core does of one thing alone."""

    NAME: ClassVar[str] = "kafka"
    MEANING: ClassVar[str] = "records a second from a topic of Kafka to a count, against files, and what limits it"

    records_per_batch: int = option(200_000, "records in a batch", least=_PARTITIONS)
    batches: int = option(5, "batches of a repetition that are measured")
    settle: int = option(2, "batches of a repetition before them", least=2)
    repetitions: int = option(3, "repetitions, after one that is not measured")
    keys: int = option(100_000, "different words")
    seed: int = option(1, "of the words", least=0)

    def measure(self, notes: Notes, tell: Tell) -> dict[str, Any]:
        client = library()
        tell("Starting Spark, the broker, and writing input.")
        spark = session()
        work = Path(tempfile.mkdtemp(prefix="spillway-bench-"))
        broker = client.Producer({"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0})
        try:
            found = broker.list_topics(timeout=_FLUSH_S).brokers.values()
            servers = ",".join(f"{each.host}:{each.port}" for each in found)
            words = self._words()
            self._produce(client, servers, words)
            self._write(work, words)
            topic = kafka(servers, _TOPIC, schema=_SCHEMA, records_per_batch=self.records_per_batch)
            self._measure_alone(notes, topic, tell)
            for turn in range(-1, self.repetitions):
                self._turn(Notes() if turn < 0 else notes, spark, work, topic, turn=turn)
                tell("warm." if turn < 0 else f"repetition {turn + 1}: {self._told(notes, turn)}")
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return {
            "master": spark.sparkContext.master,
            "broker": BROKER,
            "client": ".".join(map(str, client.libversion())),
        }

    @staticmethod
    def summary(records: BenchRecords) -> dict[str, Any]:
        batch = records.settings["records_per_batch"]
        turns = {name: records.turns(name, "batch_s") for name in SYSTEMS}
        ratios = {f"kafka_over_{name}": ratio_of_turns(turns[name], turns["kafka"]) for name in SYSTEMS[1:]}
        where = {str(work): fmean(records.values("kafka", f"{work}_s")) for work in Work}
        alone = {name: median(records.values(name, "records_per_s")) for name in LIMITS}
        return {
            "broker": records.about["broker"],
            "records_per_batch": batch,
            "records_per_s": {name: batch / median(records.values(name, "batch_s")) for name in SYSTEMS},
            "ratio": {of: median(each) for of, each in ratios.items()},
            "ratio_interval": {of: median_interval(each) for of, each in ratios.items()},
            "where_s": where,
            "most_time": max(where, key=lambda work: where[work]),
            "alone_records_per_s": alone,
            "batches_s": turns,
        }

    @property
    def _batches(self) -> int:
        return self.settle + self.batches

    def _words(self) -> list[int]:
        count = self.records_per_batch * self._batches
        words: list[int] = generator(self.seed, "bench", "kafka").integers(0, self.keys, count).tolist()
        return words

    def _produce(self, client: Any, servers: str, words: Sequence[int]) -> None:
        """Records to the partitions in turn, all of which must be there when this returns."""
        producer = client.Producer(
            {
                "bootstrap.servers": servers,
                "compression.type": "zstd",
                "linger.ms": 20,
                "batch.size": 1_000_000,
                "batch.num.messages": 100_000,
                "queue.buffering.max.messages": len(words) + 1,
            }
        )
        for n, word in enumerate(words):
            producer.produce(_TOPIC, value=_json(word, n), partition=n % _PARTITIONS)
        if producer.flush(_FLUSH_S):
            raise RunError("bench kafka: the broker did not take all records.")
        with Broker(Link(servers=servers, topic=_TOPIC)) as broker:
            kept = sum(held.end - held.begin for held in broker.held().values())
        if kept < len(words):
            raise RunError(
                f"bench kafka: of {len(words):,} records the broker, which keeps 5 MB of a partition, has {kept:,}. "
                f"Ask for fewer records or batches."
            )

    def _write(self, work: Path, words: Sequence[int]) -> None:
        """The same batches as files."""
        for name in SYSTEMS[1:]:
            (work / name).mkdir()
        for batch in range(self._batches):
            first = batch * self.records_per_batch
            for partition in range(_PARTITIONS):
                numbers = range(first + partition, first + self.records_per_batch, _PARTITIONS)
                name = f"{batch:04d}-{partition}"
                lines = b"\n".join(_json(words[n], n) for n in numbers) + b"\n"
                write_whole(work / "json_files" / f"{name}.jsonl", lines)
                table = pa.table({"word": [f"w{words[n]}" for n in numbers], "n": [*numbers]}, _SCHEMA)
                write_whole(work / "arrow_files" / f"{name}.arrow", table_bytes(table.to_batches()[0]))

    def _turn(self, notes: Notes, spark: Any, work: Path, topic: Topic, *, turn: int) -> None:
        place = Path(tempfile.mkdtemp(dir=work))
        sources = {"kafka": topic} | {
            name: files(work / name, schema=_SCHEMA, files_per_batch=_PARTITIONS) for name in SYSTEMS[1:]
        }
        contenders = {
            name: Contender(graph=_counting(name, source), backups=place / name) for name, source in sources.items()
        }
        try:
            found = side_by_side(contenders, spark, batches=self._batches, skip=self.settle)
            for name, timing in found.items():
                notes.add_all(name, "batch_s", timing.batches_s, turn=turn)
            alone = timed(_counting("alone", topic), spark, backups=place / "alone", skip=self.settle)
            for part in Work:
                notes.add_all("kafka", f"{part}_s", [batch.of(part) for batch in alone.times], turn=turn)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _measure_alone(self, notes: Notes, topic: Topic, tell: Tell) -> None:
        """How fast one reader is at one thing alone, with as many records as a batch has."""
        count = self.records_per_batch
        each = count * self._batches // _PARTITIONS
        part = TopicRange(number=0, partition=0, begin=0, end=min(each, count), first=0)
        decode = decoding("json", _SCHEMA, rows_max=1)
        for turn in range(self.repetitions):
            with Broker(topic.link) as broker:
                began_s = time.perf_counter()
                values = [[record.value() for record in records] for records in broker.read(part)]
                client_s = time.perf_counter() - began_s
            began_s = time.perf_counter()
            tuples = [some.tuples for lot in values for some in decoded(decode, lot)]
            decoding_s = time.perf_counter() - began_s
            table = pa.Table.from_batches(tuples).combine_chunks()
            counting_s = _counted_s(table)
            for name, seconds in zip(LIMITS, (client_s, decoding_s, counting_s), strict=True):
                notes.add(name, "records_per_s", part.end / seconds, turn=turn)
        tell(f"Measured alone: {', '.join(LIMITS)}.")

    def _told(self, notes: Notes, turn: int) -> str:
        found = {}
        for name in SYSTEMS:
            batches_s = [
                sample.value
                for sample in notes.samples
                if (sample.subject, sample.measure, sample.turn) == (name, "batch_s", turn)
            ]
            found[name] = self.records_per_batch / median(batches_s)
        return ", ".join(f"{name} {per_s / 1e6:.2f} M records/s" for name, per_s in found.items())


def _json(word: int, n: int) -> bytes:
    return json.dumps({"word": f"w{word}", "n": n}, separators=(",", ":")).encode()


def _counting(name: str, source: Any) -> Graph:
    graph = Graph(f"bench-{name.replace('_', '-')}")
    counted = graph.add(Count("count", key="word", protect=Nothing()), graph.source("words", source))
    graph.sink("out", counted, Discard())
    return graph


def _counted_s(table: pa.Table) -> float:
    """How long the local runtime, on one core, takes to count tuples that are in memory; the second batch of two."""
    words, half = table["word"].combine_chunks(), table.num_rows

    def make(piece: int) -> pa.RecordBatch:
        seqs = pa.array(np.arange(half) + piece * half)
        return pa.RecordBatch.from_arrays([seqs, words], schema=schema)

    schema = pa.schema([pa.field("seq", pa.int64(), nullable=False), ("word", pa.string())])
    source = Generator(make=make, schema=schema, pieces=2)
    with LocalRun(_counting("local", source)) as run:
        run.step()
        began_s = time.perf_counter()
        run.step()
        return time.perf_counter() - began_s
