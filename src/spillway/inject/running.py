"""A campaign being run: keep every answer, and leave one result however often it was interrupted."""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from spillway.errors import InputError, RunError
from spillway.inject.planning import Planned
from spillway.inject.tasks import Answer, Task, keep, kept, perform
from spillway.inject.trial_maker import GoldenResult, TrialResult
from spillway.parallel.pool import Pool
from spillway.records.campaign import CampaignRecords, CampaignWriter
from spillway.records.campaign_rows import AffectedKey, AffectedRow, GoldenRow, TrialRow
from spillway.score import evaluate, local_errors, local_impact

_RUNS_PER_TASK = 10
_WORK = "work"

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a campaign is, in runs: trials and golden runs."""

    done: int
    total: int
    doing: str


Observer = Callable[[Progress], None]


def run_campaign(
    planned: Planned, directory: Path, *, pool: Pool, observe: Observer = lambda progress: None
) -> CampaignRecords:
    """Run what is not done yet of a campaign and write its result into ``directory``.

    Interrupted or killed at any moment, it goes on where it was when it is called again, and leaves the same result.
    """
    started_s = time.monotonic()
    with CampaignWriter(directory, declaration=planned.declaration, graph=planned.graph) as writer:
        if not writer.finished:
            told = _Run(planned, writer, pool, observe).run()
            metrics = evaluate(writer.records()) if told else ()
            writer.finish(metrics, timing={"seconds": time.monotonic() - started_s})
        shutil.rmtree(directory / _WORK, ignore_errors=True)
        return writer.records()


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoldenMeans:
    """What is right on average: the score of each place's affected section, and of each section of the output."""

    affected: dict[AffectedKey, float]
    local: Floats


class _Run:
    def __init__(self, planned: Planned, writer: CampaignWriter, pool: Pool, observe: Observer) -> None:
        self._planned = planned
        self._declared = planned.declaration
        self._writer = writer
        self._pool = pool
        self._perform = partial(perform, planned.campaign)
        self._observe = observe
        self._rates = tuple(planned.declaration.rates.items())
        self._folder = str(writer.path / _WORK)
        self._places = planned.places()
        self._done = 0
        self._total = 0

    def run(self) -> bool:
        """Whether the quality of all trials can be told in proportion to golden scores."""
        struck, golden, others = self._longest_tasks(), self._golden_tasks(), self._other_tasks()
        self._total = sum(task.runs for task in [*struck, *golden, *others])
        tried: list[TrialResult] = []
        sections: dict[AffectedKey, Int64s] = {}
        for task, answer in self._answers("trials of the longest outage", struck):
            assert answer.affected is not None
            tried += answer.tried
            sections[self._places[task.number]] = answer.affected
        runs = [run for _, answer in self._answers("golden runs", golden) for run in answer.golden]
        runs.sort(key=lambda run: run.number)
        right = self._right(runs)
        self._append(runs, sections, tried, right)
        finished = self._writer.finished_trials()
        left = [task for task in others if not set(task.keys) <= finished]
        self._progress("trials", sum(task.runs for task in others) - sum(task.runs for task in left))
        for task, answer in self._performed(left):
            rows = [self._row(one, right) for one in answer.tried if one.key not in finished]
            self._writer.append(trials=rows)
            self._progress("trials", task.runs)
        return bool(all(right.affected.values()))

    def _longest_tasks(self) -> list[Task]:
        longest = [self._declared.outage_max_s]
        return [
            Task(kind="affected", number=i, keys=self._planned.trials(where, longest), rates=self._rates,
                 folder=self._folder)
            for i, where in enumerate(self._places)
        ]  # fmt: skip

    def _golden_tasks(self) -> list[Task]:
        numbers = range(self._declared.golden_repetitions)
        return [
            Task(kind="golden", number=i, golden=tuple(part), places=tuple(self._places), rates=self._rates,
                 folder=self._folder)
            for i, part in enumerate(_cut(numbers))
        ]  # fmt: skip

    def _other_tasks(self) -> list[Task]:
        """Trials of shorter outages; under a protection the longest is enough."""
        shorter = [outage for outage in self._declared.outages_s if outage != self._declared.outage_max_s]
        return [
            Task(kind="trials", number=i, keys=tuple(part), places=(where,), rates=self._rates, folder=self._folder)
            for i, where in enumerate(self._places) if not where.plan
            for part in _cut(self._planned.trials(where, shorter))
        ]  # fmt: skip

    def _answers(self, doing: str, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        """Answers kept by an earlier run first; new ones are kept before they are given."""
        left = []
        for task in tasks:
            answer = kept(task)
            if answer is None:
                left.append(task)
            else:
                self._progress(doing, task.runs)
                yield task, answer
        for task, answer in self._performed(left):
            keep(task, answer)
            self._progress(doing, task.runs)
            yield task, answer

    def _performed(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Answer]]:
        try:
            yield from self._pool.completed(self._perform, tasks)
        except RunError as error:
            raise RunError(f"{error} What was done is kept in {self._writer.path}: resume it.") from error

    def _right(self, runs: Sequence[GoldenResult]) -> _GoldenMeans:
        means = np.array([run.affected_osf for run in runs]).mean(axis=0)
        for where, mean in zip(self._places, means, strict=True):
            if mean == 0 and not self._planned.campaign.local_only:
                raise InputError(
                    f"The golden score {self._declared.score} is zero over the part of the output that "
                    f"{where.target!r} affects at offset {where.offset_seq:,}, so no quality can be told in proportion "
                    f"to it. Use another score, a longer outage, or an offset at which there is output."
                )
        local = np.array([run.local_osf for run in runs]).mean(axis=0)
        return _GoldenMeans(affected=dict(zip(self._places, means.tolist(), strict=True)), local=local)

    def _append(
        self,
        runs: Sequence[GoldenResult],
        sections: dict[AffectedKey, Int64s],
        tried: Sequence[TrialResult],
        right: _GoldenMeans,
    ) -> None:
        """Record the golden runs, the affected sections and the trials of the longest outage, once."""
        golden, affected, trials = (
            self._writer.finished_golden(), self._writer.finished_affected(), self._writer.finished_trials()
        )  # fmt: skip
        scores = np.array([run.affected_osf for run in runs])  # (golden runs, places)
        self._writer.append(
            golden=[
                GoldenRow(repetition=run.number, seed=run.seed, local_osf=tuple(run.local_osf.tolist()))
                for run in runs if run.number not in golden
            ],
            affected=[
                _affected_row(where, sections[where], scores[:, i])
                for i, where in enumerate(self._places) if where not in affected
            ],
            trials=[self._row(one, right) for one in tried if one.key not in trials],
        )  # fmt: skip

    def _row(self, tried: TrialResult, right: _GoldenMeans) -> TrialRow:
        declared, key = self._declared, tried.key
        golden = right.local[tried.section_first :]
        local = golden.copy()
        local[: tried.local_osf.size] = tried.local_osf
        errors = local_errors(local, golden)
        impact = local_impact(errors, threshold=declared.threshold, percentile=declared.percentile)
        return TrialRow(
            **key._asdict(),
            offset_s=key.offset_seq / declared.rates[key.rate],
            offset_tuples=tried.offset_tuples,
            outage_tuples=tried.outage_tuples,
            seed=tried.seed,
            golden=key.repetition,
            osf=tried.osf,
            qs=tried.osf / (right.affected[AffectedKey(*key[:4])] or 1.0),
            ilq=impact.ilq,
            rlq_sections=impact.rlq,
            rejoined_seq=tried.rejoined_seq,
            section_first=tried.section_first,
            local_osf=tuple(tried.local_osf.tolist()),
            contract_held=tried.contract_held,
        )

    def _progress(self, doing: str, runs: int) -> None:
        self._done += runs
        self._observe(Progress(done=self._done, total=self._total, doing=doing))


def _affected_row(where: AffectedKey, seqs: Int64s, scores: Floats) -> AffectedRow:
    return AffectedRow(
        **where._asdict(),
        tuples=int(seqs.size),
        seq_first=int(seqs[0]) if seqs.size else -1,
        seq_last=int(seqs[-1]) if seqs.size else -1,
        golden_osf=tuple(scores.tolist()),
    )


def _cut(values: Sequence[T]) -> list[Sequence[T]]:
    return [values[i : i + _RUNS_PER_TASK] for i in range(0, len(values), _RUNS_PER_TASK)]
