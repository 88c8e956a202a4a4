"""Made-up electrocardiograms of which it is known where their beats are.

Beat k of a patient has its R at

    r(k) = (k + 1/2 + breath · sin(2π k / 5) / 2π + jitter(k)) · 60 s / rate

with a jitter of at most ``jitter`` either way: so any piece can be made without those before it. A beat is five waves
P, Q, R, S and T, each a bell curve in time; its height differs from beat to beat, and a part of the beats, ``weak``,
is less than half as high. On top come the wandering of the baseline with breathing and slower, and noise.

Samples of several patients take turns: sample n of patient p is tuple n · patients + p.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.apps.app import Option
from spillway.apps.making import Pieces
from spillway.graph.feeds import SEQ_FIELD, Generator
from spillway.seeds import generator

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_TIME = pa.field("time", pa.float64(), nullable=False)  # in seconds
_VOLTAGE = pa.field("voltage", pa.float64(), nullable=False)  # in millivolts
SAMPLES = pa.schema([SEQ_FIELD, _TIME, _VOLTAGE])
"""Of one signal: as in seed 003 (5.3), a time and a voltage for each sample."""

SAMPLES_OF_PATIENTS = pa.schema([SEQ_FIELD, pa.field("patient", pa.int64(), nullable=False), _TIME, _VOLTAGE])
"""Of several signals."""

RATE = Option(
    name="samples_per_s", default=200.0, meaning="samples of a signal in a second", least=100.0, most=10_000.0
)
OPTIONS = (
    RATE,
    Option(name="patients", default=1, meaning="how many signals there are, each with its key if several", least=1),
    Option(name="beats_per_minute", default=70.0, meaning="how fast hearts beat", least=20.0, most=180.0),
    Option(name="breath", default=0.2, meaning="how much beats follow breathing, in intervals", least=0, most=0.5),
    Option(name="jitter", default=0.03, meaning="how far beats are off their place, in intervals", least=0, most=0.1),
    Option(name="weak", default=0.0, meaning="the part of all beats that are less than half as high", least=0, most=1),
    Option(name="noise", default=0.03, meaning="the standard deviation of noise, in mV", least=0, most=10),
    Option(name="wander", default=0.3, meaning="how far the baseline wanders, in mV", least=0, most=10),
)

# Of P, Q, R, S and T: how long after R, how wide (both in seconds), how high in mV.
_WAVES = ((-0.17, 0.025, 0.12), (-0.028, 0.009, -0.12), (0.0, 0.011, 1.1), (0.03, 0.01, -0.25), (0.26, 0.045, 0.28))
_WEAK = 0.4
_BREATH_BEATS = 5.0
_REACH = 2  # beats before and after the nearest one whose waves may still be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearts:
    """When and how high the hearts of some patients beat."""

    seed: int
    beats_per_minute: float
    breath: float
    jitter: float
    weak: float

    def times_s(self, patients: Int64s, beats: Int64s) -> Float64s:
        """When R of each beat is."""
        offset = self.jitter * (2.0 * _uniform(self.seed, 1, patients, beats) - 1.0)
        offset += self.breath * np.sin(2 * np.pi * beats / _BREATH_BEATS) / (2 * np.pi)
        return np.asarray((beats + 0.5 + offset) * (60.0 / self.beats_per_minute))

    def heights(self, patients: Int64s, beats: Int64s) -> Float64s:
        """How high each beat is, 1 being usual."""
        heights = 0.85 + 0.3 * _uniform(self.seed, 2, patients, beats)
        return np.where(_uniform(self.seed, 3, patients, beats) < self.weak, _WEAK, heights)

    def beats_s(self, patient: int, *, until_s: float) -> Float64s:
        """The truth: when the heart of a patient beats before a time."""
        beats = np.arange(int(until_s * self.beats_per_minute / 60.0) + 2)
        times = self.times_s(np.full(beats.size, patient), beats)
        return times[times < until_s]

    def voltages(self, patients: Int64s, times_s: Float64s) -> Float64s:
        """What an electrode would show if nothing else were there."""
        total = np.zeros(times_s.size)
        if not total.size:
            return total
        nearest = np.floor(times_s * self.beats_per_minute / 60.0).astype(np.int64)
        beats = np.arange(nearest.min() - _REACH, nearest.max() + _REACH + 1)
        different, numbers = np.unique(patients, return_inverse=True)
        every = np.broadcast_to(different[:, None], (different.size, beats.size))
        times, heights = self.times_s(every, beats), self.heights(every, beats) * (beats >= 0)  # (patients, beats)
        for step in range(-_REACH, _REACH + 1):
            place = nearest + step - beats[0]
            after, height = times_s - times[numbers, place], heights[numbers, place]
            for late, width, high in _WAVES:
                total += height * high * np.exp(-0.5 * ((after - late) / width) ** 2)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One piece of generated samples: a function of its number."""

    hearts: Hearts
    cut: Pieces
    samples_per_s: float
    patients: int
    noise: float
    wander: float

    def __call__(self, piece: int) -> pa.RecordBatch:
        seqs = self.cut.seqs(piece)
        numbers, patients = np.divmod(np.asarray(seqs), self.patients)
        times = numbers / self.samples_per_s
        phases = 2 * np.pi * _uniform(self.hearts.seed, 4, patients, np.zeros_like(patients))
        baseline = 0.7 * np.sin(2 * np.pi * 0.23 * times + phases) + 0.3 * np.sin(2 * np.pi * 0.05 * times - phases)
        random = generator(self.hearts.seed, "samples", piece)
        voltages = self.hearts.voltages(patients, times) + self.wander * baseline
        voltages += self.noise * random.standard_normal(len(seqs))
        columns: list[Any] = [seqs, pa.array(times), pa.array(voltages)]
        if self.patients == 1:
            return pa.RecordBatch.from_arrays(columns, schema=SAMPLES)
        columns.insert(1, pa.array(patients))
        return pa.RecordBatch.from_arrays(columns, schema=SAMPLES_OF_PATIENTS)


def generate_samples(
    *,
    seed: int,
    tuples: int,
    tuples_per_batch: int,
    pieces_per_batch: int,
    samples_per_s: float,
    patients: int,
    beats_per_minute: float,
    breath: float,
    jitter: float,
    weak: float,
    noise: float,
    wander: float,
) -> Generator:
    """Electrocardiograms; ``feed.make.hearts`` knows their beats."""
    cut = Pieces.of(tuples=tuples, tuples_per_batch=tuples_per_batch, pieces_per_batch=pieces_per_batch)
    hearts = Hearts(seed=seed, beats_per_minute=beats_per_minute, breath=breath, jitter=jitter, weak=weak)
    samples = Samples(
        hearts=hearts, cut=cut, samples_per_s=samples_per_s, patients=patients, noise=noise, wander=wander
    )
    schema = SAMPLES if patients == 1 else SAMPLES_OF_PATIENTS
    return Generator(make=samples, schema=schema, pieces=cut.count, pieces_per_batch=pieces_per_batch)


def _uniform(seed: int, kind: int, patients: Int64s, beats: Int64s) -> Float64s:
    """Numbers in [0, 1) that depend on the arguments alone: the mixing of splitmix64."""
    salt = generator(seed, "hearts", kind).integers(2**63, dtype=np.uint64)
    word = salt + patients.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03)
    word = word + beats.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return np.asarray((word >> np.uint64(11)) / 9007199254740992.0)
