"""What a campaign asks of other processes, and what they answer.

There are three kinds of task. Trials of the longest outage at one place (a target, rate and offset) come first: they
say which part of the output is affected there. Golden runs then score all those parts, and the other trials follow.
Answers are flat arrays, so they can be kept in files that run no code when they are read.
"""

import io
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from spillway.files.durable import write_whole
from spillway.inject.campaign import Campaign
from spillway.inject.trial_maker import GoldenResult, TrialMaker, TrialResult
from spillway.records.campaign_rows import AffectedKey, TrialKey

Int64s = npt.NDArray[np.int64]

_HELD = (None, False, True)  # as numbers, in files


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One piece of work; ``runs`` counts trials or golden runs."""

    kind: Literal["affected", "golden", "trials"]
    number: int  # among those of its kind
    keys: tuple[TrialKey, ...] = ()
    golden: tuple[int, ...] = ()
    places: tuple[AffectedKey, ...] = ()  # whose affected sections are needed, in the order they are numbered
    rates: tuple[tuple[str, float], ...] = ()
    folder: str = ""  # where affected sections lie

    @property
    def runs(self) -> int:
        return len(self.keys) + len(self.golden)

    @property
    def file(self) -> Path:
        return Path(self.folder) / f"{self.kind}-{self.number:05d}.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a task."""

    tried: tuple[TrialResult, ...] = ()
    affected: Int64s | None = None
    golden: tuple[GoldenResult, ...] = ()


def perform(campaign: Campaign, task: Task) -> Answer:
    """Do the task, by this process's trial maker."""
    maker, rates = trial_maker_of(campaign), dict(task.rates)
    if task.kind == "affected":
        tried, affected = maker.try_affected(task.keys, rates)
        return Answer(tried=tuple(tried), affected=affected)
    sections = {place: affected_section(task.folder, place_number) for place_number, place in _numbered(task)}
    if task.kind == "golden":
        return Answer(golden=tuple(maker.golden(number, sections) for number in task.golden))
    (seqs,) = sections.values()
    return Answer(tried=tuple(maker.try_all(task.keys, rates, seqs)))


def trial_maker_of(campaign: Campaign) -> TrialMaker:
    """The trial maker of a campaign, built once per process."""
    return _trial_makers(_Same(campaign))


def keep(task: Task, answer: Answer) -> None:
    """Write an answer to the task's file; it appears whole or not at all."""
    tried, golden = answer.tried, answer.golden
    arrays = {
        "affected": answer.affected if answer.affected is not None else np.empty(0, np.int64),
        "figures": np.array(
            [[t.offset_tuples, t.outage_tuples, t.seed, t.rejoined_seq, t.section_first] for t in tried]
        ),
        "osf": np.array([t.osf for t in tried]),
        "held": np.array([_HELD.index(t.contract_held) for t in tried], np.int8),
        "ends": np.cumsum([t.local_osf.size for t in tried]),
        "local": np.concatenate([t.local_osf for t in tried]) if tried else np.empty(0),
        "seeds": np.array([run.seed for run in golden], np.int64),
        "golden_local": np.array([run.local_osf for run in golden]),
        "golden_affected": np.array([run.affected_osf for run in golden]),
    }
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    task.file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(task.file, buffer.getvalue())


def kept(task: Task) -> Answer | None:
    """The answer in the task's file; none if there is no such file, or not a whole one."""
    try:
        with np.load(task.file, allow_pickle=False) as found:
            arrays = dict(found)
        parts = np.split(arrays["local"], arrays["ends"][:-1]) if task.keys else []
        tried = tuple(
            TrialResult(
                key=key, osf=float(osf), local_osf=local, offset_tuples=int(row[0]), outage_tuples=int(row[1]),
                seed=int(row[2]), rejoined_seq=int(row[3]), section_first=int(row[4]), contract_held=_HELD[held],
            )
            for key, row, osf, held, local in zip(
                task.keys, arrays["figures"], arrays["osf"], arrays["held"], parts, strict=True
            )
        )  # fmt: skip
        golden = tuple(
            GoldenResult(number=number, seed=int(seed), local_osf=local, affected_osf=affected)
            for number, seed, local, affected in zip(
                task.golden, arrays["seeds"], arrays["golden_local"], arrays["golden_affected"], strict=True
            )
        )
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    return Answer(tried=tried, affected=arrays["affected"], golden=golden)


def affected_section(folder: str, number: int) -> Int64s:
    """The affected section of a place, as the task of that number left it."""
    with np.load(Task(kind="affected", number=number, folder=folder).file, allow_pickle=False) as found:
        seqs: Int64s = found["affected"]
    return seqs


def _numbered(task: Task) -> list[tuple[int, AffectedKey]]:
    first = task.number if task.kind == "trials" else 0
    return [(first + i, place) for i, place in enumerate(task.places)]


class _Same:
    """A campaign as a key: the same one again is known by what it says, however it came here."""

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign

    def __hash__(self) -> int:
        return hash(self.campaign.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.campaign == self.campaign


@lru_cache(maxsize=1)
def _trial_makers(same: _Same) -> TrialMaker:
    return TrialMaker(same.campaign)
