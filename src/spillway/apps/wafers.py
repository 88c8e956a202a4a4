"""Wafers of a semiconductor line: what sensors read of each, and later what part of it turned out well.

A reading has the wafer's number, the place in its carrier, and the values of all sensors, null where one gave none. A
measurement has the same number and place, and the yield in per cent. Carriers go round: a place has one wafer at a
time, which leaves it when it has been measured, so what waits to be measured is never more than there are places.

Made-up wafers. Sensors follow a few causes that they have in common, and each wanders slowly. The yield is

    y(w) = 85 + Σ_j (b_j + drift · a_j sin(2π w / period + p_j)) x_j(w) + noise

with x_j the deviation of sensor j from its middle, in its standard deviations: what a sensor means for the yield drifts
as the line ages, and a model has to go on learning. The measurement of a wafer comes ``lag`` wafers after its reading;
those of the first come from wafers that were read before the stream began.

Files. A folder with ``secom.data`` and ``secom_labels.data`` as the UCI repository has them is read as a line whose
wafers pass (a yield of 100) or fail (0); anything else is Parquet or Arrow with the columns of ``WAFERS``.
"""

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spillway.apps.app import Option
from spillway.apps.making import Pieces
from spillway.errors import InputError
from spillway.graph.feeds import SEQ, SEQ_FIELD, Feed, Generator, Trace
from spillway.seeds import generator

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

READING, MEASUREMENT = "reading", "measurement"

WAFERS = pa.schema(
    [
        SEQ_FIELD,
        pa.field("kind", pa.string(), nullable=False),
        pa.field("wafer", pa.int64(), nullable=False),
        pa.field("place", pa.int64(), nullable=False),
        pa.field("time", pa.float64(), nullable=False),  # in seconds
        pa.field("values", pa.list_(pa.float64())),  # of a reading
        pa.field("yield", pa.float64()),  # of a measurement, in per cent
    ]
)

SENSORS = Option(name="sensors", default=24, meaning="how many sensors there are", least=1, most=2_000)
LAG = Option(name="lag", default=50, meaning="wafers between a reading and its measurement", least=0, most=10**6)
PLACES = Option(name="places", default=500, meaning="places of wafers in carriers, more than lag", least=1, most=10**6)
OPTIONS = (
    SENSORS,
    LAG,
    PLACES,
    Option(name="wafers_per_s", default=3.0, meaning="wafers read in a second", least=1e-6, most=1e9),
    Option(name="drift", default=0.3, meaning="how far what sensors mean drifts, beside what stays", least=0, most=100),
    Option(name="period", default=4_000.0, meaning="wafers after which drift comes round", least=1, most=1e9),
    Option(name="noise", default=2.0, meaning="what no sensor tells of the yield, in points", least=0, most=100),
    Option(name="missing", default=0.02, meaning="the part of sensor values that is missing", least=0, most=1),
)

_MEAN = 85.0  # per cent
_SPREAD = 6.0  # points that sensors explain, about
_CAUSES = 4
_WANDER = 0.5  # standard deviations that a sensor wanders
_BLOCK = 256  # wafers that are made together


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Made-up wafers, each a function of its number; those read before the stream began are numbered below zero."""

    seed: int
    sensors: int
    lag: int
    drift: float
    period: float
    noise: float
    missing: float

    def read(self, wafers: Int64s) -> tuple[Float64s, Float64s]:
        """What sensors have to say of each wafer, in standard deviations, (wafers, sensors); and its yield."""
        if not wafers.size:
            return np.empty((0, self.sensors)), np.empty(0)
        shifted = wafers + self.lag
        blocks = np.unique(shifted // _BLOCK)
        drawn = np.concatenate([_drawn(self.seed, self.sensors, int(block)) for block in blocks])
        own = drawn[np.searchsorted(blocks, shifted // _BLOCK) * _BLOCK + shifted % _BLOCK]
        always = _always(self.seed, self.sensors)
        turns = 2 * np.pi * (wafers[:, None] / self.period + always[:, 0])
        causes, noises, noise = np.split(own, [_CAUSES, _CAUSES + self.sensors], axis=1)
        read = causes @ always[:, 1 : 1 + _CAUSES].T + 0.6 * noises + _WANDER * np.sin(0.37 * turns)
        means = always[:, -2] + self.drift * always[:, -1] * np.sin(turns)
        explained = (means * read).sum(axis=1) * _SPREAD / np.sqrt(self.sensors)
        return read, _MEAN + explained + self.noise * noise[:, 0]

    def values(self, wafers: Int64s) -> pa.Array:
        """The readings as they are sent: a list for each wafer, null where a sensor gave none."""
        read, _ = self.read(wafers)
        units = _units(self.seed, self.sensors)
        sent = units[0] + units[1] * read
        salt = int(generator(self.seed, "missing").integers(2**31))
        places = wafers[:, None] * self.sensors + np.arange(self.sensors)
        lost = _uniform(places, salt) < self.missing
        ends = np.arange(0, sent.size + 1, self.sensors, dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(ends), pa.array(sent.ravel(), mask=lost.ravel()))


@lru_cache(maxsize=32)
def _drawn(seed: int, sensors: int, block: int) -> Float64s:
    return generator(seed, "wafers", block).standard_normal((_BLOCK, _CAUSES + sensors + 1))


@lru_cache(maxsize=4)
def _always(seed: int, sensors: int) -> Float64s:
    """Of each sensor: its phase, how it follows each cause, what it means for the yield, and how that drifts."""
    random = generator(seed, "line")
    follows = random.standard_normal((sensors, _CAUSES)) * 0.8 / np.sqrt(_CAUSES)
    return np.column_stack([random.random(sensors), follows, random.standard_normal((sensors, 2))])


@lru_cache(maxsize=4)
def _units(seed: int, sensors: int) -> Float64s:
    """Of each sensor, its middle and its standard deviation, as sensors of different kinds have them."""
    random = generator(seed, "units")
    spread = 10.0 ** random.uniform(-2, 3, sensors)
    return np.stack([spread * random.uniform(-10, 10, sensors), spread])


def _uniform(numbers: Int64s, salt: int) -> Float64s:
    """Numbers from 0 to 1 that depend on each number alone."""
    words = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (words >> np.uint64(11)).astype(np.float64) / 2.0**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Wafers:
    """One piece of a made-up line: a function of its number. Readings and measurements take turns."""

    line: Line
    cut: Pieces
    places: int
    wafers_per_s: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        numbers, measured = np.divmod(np.asarray(seqs), 2)
        wafers = numbers - measured * self.line.lag
        yields = np.zeros(wafers.size)
        _, yields[measured == 1] = self.line.read(wafers[measured == 1])
        values = self.line.values(wafers[measured == 0])
        times = numbers / self.wafers_per_s + measured * 0.5 / self.wafers_per_s
        return _tuples(seqs, measured == 1, wafers, self.places, times, values, yields)


def generate_wafers(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    sensors: int,
    lag: int,
    places: int,
    wafers_per_s: float,
    drift: float,
    period: float,
    noise: float,
    missing: float,
) -> Generator:
    """Readings and measurements of a line that ages."""
    _check_places(lag, places)
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    line = Line(seed=seed, sensors=sensors, lag=lag, drift=drift, period=period, noise=noise, missing=missing)
    wafers = Wafers(line=line, cut=cut, places=places, wafers_per_s=wafers_per_s)
    return Generator(make=wafers, schema=WAFERS, pieces=cut.count, pieces_per_batch=pieces_per_batch)


def _check_places(lag: int, places: int) -> None:
    if places <= lag:
        raise InputError(
            f"App 'fab': a wafer keeps its place until it is measured, so more than {lag:,} places (lag) are wanted; "
            f"got {places:,}."
        )


def _tuples(
    seqs: pa.Array, measured: npt.NDArray[np.bool_], wafers: Int64s, places: int, times: Float64s, values: pa.Array,
    yields: Float64s,
) -> pa.RecordBatch:  # fmt: skip
    """Tuples of ``WAFERS``; ``values`` are those of the readings alone, in their order."""
    kinds = pa.array([READING, MEASUREMENT]).take(pa.array(measured.astype(np.int8)))
    which = pa.array(np.cumsum(~measured) - 1, mask=measured)
    columns = [
        seqs,
        kinds,
        pa.array(wafers),
        pa.array(wafers % places),
        pa.array(times),
        values.take(which),
        pa.array(yields, mask=~measured),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=WAFERS)


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Secom:
    """Wafers in the files of the UCI repository's SECOM set, in the order of their lines."""

    folder: str
    cut: Pieces
    lag: int
    places: int
    pieces_per_batch: int

    @property
    def schema(self) -> pa.Schema:
        return WAFERS

    @property
    def pieces(self) -> int:
        return self.cut.count

    def read(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        values, yields, times = _secom(self.folder)
        numbers, measured = np.divmod(np.asarray(seqs), 2)
        wafers = numbers - measured * self.lag
        there = (wafers >= 0) & (wafers < len(yields))
        seqs, wafers, measured = seqs.filter(pa.array(there)), wafers[there], measured[there] == 1
        own = values.take(pa.array(wafers[~measured]))
        # A measurement is told when the wafer is read that makes it due; the last ones all come after the end.
        told = times[np.minimum(numbers[there], len(times) - 1)]
        return _tuples(seqs, measured, wafers, self.places, told, own, yields[wafers])


@lru_cache(maxsize=2)
def _secom(folder: str) -> tuple[pa.Array, Float64s, Float64s]:
    """The sensor values of each wafer, its yield, and when it was measured, in seconds from the first on."""
    path = Path(folder)
    parsed = pa.csv.ParseOptions(delimiter=" ")
    unnamed = pa.csv.ReadOptions(autogenerate_column_names=True)
    try:
        sensors = pa.csv.read_csv(path / "secom.data", unnamed, parsed)
        labels = pa.csv.read_csv(path / "secom_labels.data", unnamed, parsed)
        rows = np.column_stack([column.cast(pa.float64()).to_numpy() for column in sensors.columns])
        passed = labels.columns[0].cast(pa.int64()).to_numpy()
        moments = pc.strptime(labels.columns[1].cast(pa.string()), "%d/%m/%Y %H:%M:%S", "s").cast(pa.int64())
    except (pa.ArrowException, IndexError) as error:
        raise InputError(f"{path}: these are no files of the SECOM set ({error}).") from error
    if len(rows) != len(passed) or not np.isin(passed, (-1, 1)).all():
        raise InputError(
            f"{path}: a label of -1 or 1 for each of {len(rows):,} wafers is wanted; there are {len(passed):,} labels."
        )
    times = moments.to_numpy().astype(np.float64)
    ends = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
    values = pa.ListArray.from_arrays(pa.array(ends), pa.array(rows.ravel(), mask=np.isnan(rows).ravel()))
    return values, np.where(passed < 0, 100.0, 0.0), times - times.min()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferFiles:
    """Files of tuples as ``WAFERS`` has them; types are cast where that loses nothing."""

    trace: Trace
    schema: pa.Schema = WAFERS

    @property
    def pieces(self) -> int:
        return self.trace.pieces

    @property
    def pieces_per_batch(self) -> int:
        return self.trace.pieces_per_batch

    def read(self, piece: int) -> pa.RecordBatch:
        batch = self.trace.read(piece)
        try:
            columns = [batch[field.name].cast(field.type) for field in WAFERS]
        except pa.ArrowException as error:
            raise InputError(f"{self.trace.paths}: a column does not fit ({error}).") from error
        for field, column in zip(WAFERS, columns, strict=True):
            if column.null_count and not field.nullable:
                raise InputError(
                    f"{self.trace.paths}: column {field.name!r} must not be null. Drop or fill such rows first."
                )
        return pa.RecordBatch.from_arrays(columns, schema=WAFERS)


def read_wafers(
    path: str | os.PathLike[str], *, rows_per_piece: int, pieces_per_batch: int, lag: int, places: int
) -> Feed:
    """The SECOM set, or Parquet or Arrow with the columns of ``WAFERS``, whose lag and places are their own."""
    folder = Path(path)
    if (folder / "secom.data").is_file() and (folder / "secom_labels.data").is_file():
        _check_places(lag, places)
        _, yields, _ = _secom(str(folder))
        cut = Pieces(tuples=2 * (len(yields) + lag), tuples_per_piece=rows_per_piece)
        return Secom(folder=str(folder), cut=cut, lag=lag, places=places, pieces_per_batch=pieces_per_batch)
    trace = Trace(path, rows_per_piece=rows_per_piece, pieces_per_batch=pieces_per_batch)
    names = [name for name in WAFERS.names if name != SEQ]
    missing = [name for name in names if name not in trace.schema.names]
    if missing:
        raise InputError(
            f"{path}: columns {', '.join(names)} are wanted; {', '.join(missing)} not found among "
            f"{', '.join(trace.schema.names)}."
        )
    return WaferFiles(trace=replace(trace, columns=names))
