"""Two sensors joined and averaged: stream processes SP2, SP3 and SP4 of seed 003 (5.3 and 5.6), under its names.

    Readings -+-> TestSensor1 -+-> TestJoin -> TestAvg -+-> out
              +-> TestSensor2 -+                        |
                  ^                                     |
                  +--------------- feedback ------------+        SP3: to TestSensor1    SP4: to both    SP2: to none

Think of blood pressure and pulse. ``TestJoin`` puts out, with each element of either stream, the sum of the last 100 of
both; ``TestAvg`` the average of the last 100 of these. A sensor that gets the averages back attenuates what it reads
while the newest it has heard is above a threshold: as always feedback comes with the next batch. As in the seed an
element has a time and a value, 200 a second from each sensor.

What the seed leaves open, and how it is read here: whether a window of 100 elements is one of each stream or of both
together (of each); which sensor has the feedback of SP3 (the first); by how much a value is attenuated and above what.
The seed's sensors make their values up; here a generator does, so that they can be read again, and the sensor takes
those with its number.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import App, Option
from spillway.apps.jobs import JOBS, cut_into_jobs
from spillway.apps.making import Pieces
from spillway.apps.reading import Files
from spillway.errors import InputError
from spillway.given import check_whole
from spillway.graph.feeds import SEQ, SEQ_FIELD, Feed, Generator, Trace
from spillway.graph.graph import Graph
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.keyed import Int64s, float_column, want_number
from spillway.operators.merging import Merging
from spillway.operators.operator import Operator, Out
from spillway.operators.signals import SignalFilter
from spillway.seeds import generator
from spillway.state.compiled import compiled
from spillway.state.primitives import Number
from spillway.state.window import Window

_TIME = pa.field("time", pa.float64(), nullable=False)  # in seconds
_VALUE = pa.field("value", pa.float64(), nullable=False)
READINGS = pa.schema([SEQ_FIELD, pa.field("sensor", pa.int64(), nullable=False), _TIME, _VALUE])
ELEMENTS = pa.schema([SEQ_FIELD, _TIME, _VALUE])

SENSORS = ("TestSensor1", "TestSensor2")
_THE_ONE = np.zeros(1, np.int64)  # windows are of the whole stream


class Sensor(Operator):
    """The readings with a sensor's number; with a ``threshold``, attenuated while the average fed back is above it."""

    schema = ELEMENTS
    parameters = ("number",)

    def __init__(
        self,
        name: str,
        *,
        number: int,
        threshold: float | None = None,
        attenuation: float = 1.0,
        protect: Protection | None = None,
    ) -> None:
        super().__init__(name, protect=protect)
        self.number = number
        self.threshold, self.attenuation = threshold, attenuation
        if threshold is not None:
            self.feedback_inputs = ("average",)
            self.heard = Number(metric="max")

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        self.want(inputs, "in", sensor=pa.int64(), time=pa.float64(), value=pa.float64())
        return super().output_schemas(inputs)

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        if port == "average":
            if batch.num_rows:
                self.heard.write(batch["value"][-1].as_py())
            return
        own = batch.filter(pc.equal(batch["sensor"], self.number))
        if not own.num_rows:
            return
        values = float_column(self, own, "value")
        if self.threshold is not None and self.heard.read() > self.threshold:
            values = values * self.attenuation
        yield self.out(seq=own[SEQ], time=own["time"], value=values)


class WindowSum(Merging):
    """With each element of either stream, the sum of the last ``size`` of both, oldest first, those of the left first.

    The divergence is the number of elements that the backup lacks.
    """

    inputs = ("left", "right")
    schema = ELEMENTS

    def __init__(self, name: str, *, size: int, protect: Protection | None = None) -> None:
        super().__init__(name, protect=protect)
        check_whole(f"Operator {name!r}: size", size, least=1)
        self.left_recent, self.right_recent = Window(size, 1), Window(size, 1)

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        for port in self.inputs:
            want_number(self, inputs, port, "value")
            want_number(self, inputs, port, "time")
        return super().output_schemas(inputs)

    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        lefts, rights = (
            float_column(self, batches[port], "value") if port in batches else np.empty(0) for port in self.inputs
        )
        left, right = self.left_recent, self.right_recent
        for window in (left, right):
            window.enter(_THE_ONE)
        sums = np.empty(ports.size)
        _sum_both(left.rings[0], left.counts, right.rings[0], right.counts, ports, lefts, rights, sums)
        # Ports one after the other, put into the order of arrival: which element of its port is the i-th to arrive.
        order = np.argsort(np.argsort(ports, kind="stable"), kind="stable")
        came = [batches[port] for port in self.inputs if port in batches]
        columns = {name: np.concatenate([np.asarray(batch[name]) for batch in came])[order] for name in (SEQ, "time")}
        yield self.out(**columns, value=sums)


@compiled
def _sum_both(
    left: Any, left_counts: Any, right: Any, right_counts: Any, ports: Any, lefts: Any, rights: Any, out: Any
) -> None:
    i = j = 0
    for k in range(ports.size):
        if ports[k] == 0:
            left[left_counts[0] % left.shape[0], 0] = lefts[i]
            left_counts[0] += 1
            i += 1
        else:
            right[right_counts[0] % right.shape[0], 0] = rights[j]
            right_counts[0] += 1
            j += 1
        out[k] = _sum(left, left_counts[0], 0.0)
        out[k] = _sum(right, right_counts[0], out[k])


@compiled
def _sum(ring: Any, count: int, total: float) -> float:
    rows = ring.shape[0]
    for number in range(max(count - rows, 0), count):
        total += ring[number % rows, 0]
    return total


def build(
    data: Any,
    *,
    protect: Protection | None,
    shards: int,
    sink: Sink,
    feedback: int,
    threshold: float,
    attenuation: float,
    window: int,
    jobs: int,
) -> Graph:
    """SP2, and with ``feedback`` to one or both sensors SP3 or SP4; ``data`` is for both, or a pair, one for each."""
    graph = Graph("vitals", shards=shards)
    if isinstance(data, tuple):
        read = [graph.source(f"Readings{number}", own) for number, own in enumerate(data, start=1)]
    else:
        read = [graph.source("Readings", data)] * len(SENSORS)
    sensors = []
    for number, (name, readings) in enumerate(zip(SENSORS, read, strict=True), start=1):
        limit = threshold if number <= feedback else None
        sensor = Sensor(name, number=number, threshold=limit, attenuation=attenuation, protect=protect)
        sensors.append(graph.add(sensor, readings))
    joined = graph.add(WindowSum("TestJoin", size=window, protect=protect), *sensors)
    coefficients = np.full(window, 1.0 / window)
    average = graph.add(SignalFilter("TestAvg", value="value", coefficients=coefficients, protect=protect), joined)
    for name in SENSORS[:feedback]:
        # As with online learning: where nothing may be lost, feedback must be durable, which costs a write per batch.
        durable = protect is None or protect.loses_nothing
        graph.connect(average, name, "average", feedback=True, durable=durable)
    graph.sink("out", average, sink)
    if jobs:
        cut_into_jobs(graph, protect)
    return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """One piece of generated readings, the sensors taking turns: a function of its number."""

    seed: int
    cut: Pieces
    elements_per_s: float
    noise: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        ticks, which = np.divmod(np.asarray(seqs), len(SENSORS))
        times = ticks / self.elements_per_s
        phases = generator(self.seed, "phases").random(len(SENSORS)) * 2 * np.pi
        # Blood pressure in mmHg and pulse per minute, each slowly up and down.
        middle, swing, period_s = np.array([[100.0, 20.0, 60.0], [75.0, 15.0, 47.0]]).T
        values = middle[which] + swing[which] * np.sin(2 * np.pi * times / period_s[which] + phases[which])
        values += self.noise * generator(self.seed, "readings", piece).standard_normal(len(seqs))
        columns = [seqs, pa.array(which + 1), pa.array(times), pa.array(values)]
        return pa.RecordBatch.from_arrays(columns, schema=READINGS)


def generate_readings(
    *, seed: int, tuples: int, tuples_per_batch: int, pieces_per_batch: int, elements_per_s: float, noise: float
) -> Generator:
    """Readings of two sensors."""
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    readings = Readings(seed=seed, cut=cut, elements_per_s=elements_per_s, noise=noise)
    return Generator(make=readings, schema=READINGS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfOne:
    """Of each piece, the readings of one sensor."""

    make: Callable[[int], pa.RecordBatch]
    number: int

    def __call__(self, piece: int) -> pa.RecordBatch:
        batch = self.make(piece)
        return batch.filter(pc.equal(batch["sensor"], self.number))


def readings_apart(both: Generator) -> tuple[Generator, ...]:
    """The same readings as a feed for each sensor: so each can be read by a job of its own."""
    return tuple(replace(both, make=_OfOne(make=both.make, number=number)) for number, _ in enumerate(SENSORS, start=1))


def read_readings(path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int) -> Feed:
    """Readings in Parquet or Arrow: ``sensor`` (1 or 2), ``time`` in seconds and ``value``."""
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    names = [name for name in READINGS.names if name != SEQ]
    missing = [name for name in names if name not in trace.schema.names]
    if missing:
        raise InputError(
            f"{path}: columns {', '.join(names)} are wanted; {', '.join(missing)} not found among "
            f"{', '.join(trace.schema.names)}."
        )
    return Files(trace=replace(trace, columns=names), schema=READINGS, names=tuple((name, name) for name in names))


APP = App(
    name="vitals",
    description="two sensors joined and averaged, with feedback or without",
    graph=build,
    generated=generate_readings,
    read=read_readings,
    options=(
        Option(name="feedback", default=0, meaning="how many sensors get the average back", least=0, most=2),
        Option(name="threshold", default=18_500.0, meaning="the average above which these attenuate"),
        Option(name="attenuation", default=0.5, meaning="what a value is multiplied by then", least=0, most=1),
        Option(name="window", default=100, meaning="elements that are summed, and averaged", least=1, most=10_000),
        JOBS,
    ),
    generator_options=(
        Option(name="elements_per_s", default=200.0, meaning="elements of a sensor in a second", least=1e-3, most=1e6),
        Option(name="noise", default=2.0, meaning="the standard deviation of noise", least=0, most=1e6),
    ),
)
