"""Heartbeats in electrocardiograms: stream process SP1 of seed 003 (5.3, figure 12(a)), under its names.

    Recording -> ECGSensor -> DSPFilter -> QRSDetector -> out

``ECGSensor`` reads out the electrode and drops what no heart gives: a lead that has come off. ``DSPFilter`` removes
noise and the wandering of the baseline, and ``QRSDetector`` finds the beats (``apps.qrs``). The seed tells what the
operators do and not how; filter and detector are those of Pan and Tompkins (1985). Their filter passes about 5 to
15 Hz, of finite impulse response and a delay that is the same for all frequencies:

    low-pass    the average of 30 ms, taken twice        high-pass   the sample less the average of the 160 ms around it

As in the seed a tuple has a time and a voltage, 200 a second. Input that also has a column ``patient`` is of several
signals, each with its own state.
"""

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spillway.apps.app import App
from spillway.apps.heart import OPTIONS, RATE, SAMPLES, SAMPLES_OF_PATIENTS, generate_samples
from spillway.apps.jobs import JOBS, cut_into_jobs
from spillway.apps.qrs import QRSDetector
from spillway.apps.reading import Files
from spillway.errors import InputError
from spillway.graph.feeds import SEQ_FIELD, Feed, Trace
from spillway.graph.graph import Graph
from spillway.graph.nodes import Source
from spillway.graph.protections import Protection
from spillway.graph.sinks import Sink
from spillway.operators.signals import SignalFilter
from spillway.operators.stateless import Where, field

Float64s = npt.NDArray[np.float64]

ELECTRODE_MAX_MV = 20.0
TOLERANCE_S = 0.15
"""How far a beat found may be from the true one: what ANSI/AAMI EC57 allows."""


def build(data: Any, *, protect: Protection | None, shards: int, sink: Sink, samples_per_s: float, jobs: int) -> Graph:
    """The three operators of seed 003, figure 12(a)."""
    graph = Graph("ecg", shards=shards)
    recording = graph.source("Recording", data)
    source = graph.nodes["Recording"]
    assert isinstance(source, Source)
    key = "patient" if "patient" in source.schema.names else None
    voltage = field("voltage")
    sensor = Where("ECGSensor", (voltage >= -ELECTRODE_MAX_MV) & (voltage <= ELECTRODE_MAX_MV))
    coefficients, delay = band_pass(samples_per_s)
    clean = SignalFilter("DSPFilter", value="voltage", coefficients=coefficients, key=key, protect=protect)
    beats = QRSDetector(
        "QRSDetector", value="voltage", samples_per_s=samples_per_s, delay=delay, key=key, protect=protect
    )
    graph.sink("out", graph.add(beats, graph.add(clean, graph.add(sensor, recording))), sink)
    if jobs:
        cut_into_jobs(graph, protect)
    return graph


def band_pass(samples_per_s: float) -> tuple[Float64s, int]:
    """The coefficients of the filter, and by how many samples it delays.

    >>> coefficients, delay = band_pass(200.0)
    >>> len(coefficients), delay, abs(round(float(sum(coefficients)), 9))
    (43, 21, 0.0)
    """
    short, half = max(round(0.03 * samples_per_s), 1), round(0.08 * samples_per_s)
    average = np.full(short, 1.0 / short)
    high = np.full(2 * half + 1, -1.0 / (2 * half + 1))
    high[half] += 1.0
    return np.convolve(np.convolve(average, average), high), short - 1 + half


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """A feed of voltages to which times at even distances are given."""

    files: Files
    samples_per_s: float
    schema: pa.Schema = SAMPLES

    @property
    def pieces(self) -> int:
        return self.files.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.files.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.files.read(piece)
        times = pc.divide(batch["seq"].cast(pa.float64()), self.samples_per_s)
        return pa.RecordBatch.from_arrays([batch["seq"], times, batch["voltage"]], schema=SAMPLES)


def read_samples(
    path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int, samples_per_s: float
) -> Feed:
    """Samples in Parquet or Arrow: ``voltage`` in mV, ``time`` in seconds, ``patient`` if there are several signals.

    Without ``time`` there is one signal, of ``samples_per_s``. ``lead1_mv`` does for ``voltage``: so records of the
    MIT-BIH Arrhythmia Database are named.
    """
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    stored = {"voltage": next((name for name in ("voltage", "lead1_mv") if name in trace.schema.names), "")}
    if not stored["voltage"]:
        raise InputError(f"{path}: a column 'voltage' is wanted; there are {', '.join(trace.schema.names)}.")
    timed = "time" in trace.schema.names
    schema = SAMPLES
    if timed:
        stored = {"time": "time", **stored}
        if "patient" in trace.schema.names:
            stored = {"patient": "patient", **stored}
            schema = SAMPLES_OF_PATIENTS
    elif "patient" in trace.schema.names:
        raise InputError(f"{path}: samples of several patients want a column 'time', in seconds.")
    fields = [SEQ_FIELD, *(schema.field(name) for name in stored)]
    files = Files(
        trace=replace(trace, columns=list(stored.values())), schema=pa.schema(fields), names=tuple(stored.items())
    )
    return files if timed else _Timed(files=files, samples_per_s=samples_per_s)


APP = App(
    name="ecg",
    description="heartbeats in electrocardiograms",
    graph=build,
    generated=generate_samples,
    read=read_samples,
    options=(RATE, JOBS),
    generator_options=OPTIONS,
    reader_options=(RATE,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """How well beats were found."""

    actual: int
    reported: int
    found: int  # true beats that have one reported near them, each its own

    @property
    def sensitivity(self) -> float:
        """Of the true beats, the part that was found; 1 if there are none."""
        return self.found / self.actual if self.actual else 1.0

    @property
    def predictivity(self) -> float:
        """Of the beats reported, the part that is true (positive predictivity); 1 if there are none."""
        return self.found / self.reported if self.reported else 1.0


def score(reported_s: Float64s, actual_s: Float64s, *, tolerance_s: float = TOLERANCE_S) -> Detection:
    """Beats of one signal beside the true ones, both ascending in seconds.

    >>> score(np.array([1.02, 1.9, 3.3]), np.array([1.0, 2.0, 3.0]))
    Detection(actual=3, reported=3, found=2)
    """
    found = mine = theirs = 0
    while mine < len(reported_s) and theirs < len(actual_s):
        apart = reported_s[mine] - actual_s[theirs]
        found += abs(apart) <= tolerance_s
        mine += apart <= tolerance_s
        theirs += apart >= -tolerance_s
    return Detection(actual=len(actual_s), reported=len(reported_s), found=int(found))
