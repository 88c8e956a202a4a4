"""Jobs that are saved together and go back alone: whatever is lost or killed, they give what the graph gives as one."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.local.test_jobs import as_one, fork, line, loop, results, windows
from tests.local.test_losses import CutShortError

import spillway as sw
from spillway.backup.keeper import SHARD_STEPS, Step
from spillway.engine import coordinating
from spillway.engine.job_logs import LogStep
from spillway.engine.sending_back import StoppedJob
from spillway.errors import BackupError, GraphError, RunError
from spillway.graph.graph import Graph
from spillway.graph.protections import JobProtection
from spillway.local.jobs import LOGS, LocalJobs
from spillway.records.checkpointed import Checkpointed
from spillway.seeds import generator

EVERY_TWO = sw.Coordinated(batches=2)
EXTENDED = sw.Coordinated(batches=3, extended=True)
ALONE = sw.Uncoordinated(batches=2)
LINES = [(graph, protect) for graph in (line, fork, windows) for protect in (EVERY_TWO, EXTENDED, ALONE)]
STEPS: list[Step | LogStep] = [*SHARD_STEPS, *LogStep]
CASES = [*LINES, (loop, EXTENDED), (loop, ALONE)]


def protected(graph: Callable[..., Graph], protect: JobProtection) -> Graph:
    drawn = graph(protect)
    drawn.protect = protect  # of jobs that keep no state
    return drawn


class Life:
    """The jobs of a graph, run to their end through whatever comes; a job that dies is started again."""

    def __init__(self, graph: Callable[..., Graph], protect: JobProtection, folder: Path, seed: int) -> None:
        self._random = generator(seed, "jobs")
        self._cut: list[Step | LogStep] = []
        self._folder = folder
        self.drawn = protected(graph, protect)
        self.kills = self.losses = 0
        self.steps: set[Step | LogStep] = set()
        self.jobs = LocalJobs(
            self.drawn,
            state=folder / "state",
            backups=str(folder / "backups"),
            observe=lambda step, operator, shard, batch: self._pass(step),
            observe_logs=lambda step, stream, batch: self._pass(step),
            seed=seed,
        )

    def live(self) -> None:
        random, more = self._random, True
        while more:
            if random.random() < 0.3:
                self._cut[:] = [STEPS[int(random.integers(len(STEPS)))]]
            job = str(random.choice(list(self.jobs.jobs)))
            died: tuple[str, ...] = (job,)
            try:
                if not self.jobs.turn(job):
                    died = self.jobs.jobs  # whichever it is
                    more = self.jobs.step()
            except CutShortError:
                for each in died:
                    self._again(each)
            else:
                if more:
                    self._be_disturbed(job)
        self.jobs.close()

    def _be_disturbed(self, job: str) -> None:
        random, state = self._random, self._folder / "state"
        chance = random.random()
        if chance < 0.1:
            self._lose(state / job)
        elif chance < 0.15:
            self._lose(state / LOGS)
        elif chance < 0.20:
            streams = sorted((state / LOGS).glob("*.*"))
            if streams:
                self._lose(streams[int(random.integers(len(streams)))])
        elif chance < 0.25:
            for each in (*self.jobs.jobs, LOGS):
                self._lose(state / each)
            if chance < 0.22:
                for each in self.jobs.jobs:
                    self._again(each)
        elif chance < 0.35:
            self._again(job)

    def _lose(self, folder: Path) -> None:
        self.losses += 1
        shutil.rmtree(folder, ignore_errors=True)

    def _again(self, job: str) -> None:
        self.kills += 1
        try:
            self.jobs.restart(job)
        except CutShortError:
            self._again(job)

    def _pass(self, step: Step | LogStep) -> None:
        self.steps.add(step)
        if self._cut and self._cut[0] is step:
            self._cut.clear()
            raise CutShortError


@pytest.mark.parametrize("seed", [0, 100])
@pytest.mark.parametrize(("graph", "protect"), CASES, ids=[f"{graph.__name__}-{one.protocol}" for graph, one in CASES])
def test_whatever_happens_the_output_is_that_of_the_graph_as_one(
    graph: Callable[..., Graph], protect: JobProtection, seed: int, tmp_path: Path
) -> None:
    life = Life(graph, protect, tmp_path, seed)
    life.live()
    assert life.losses and life.kills, "nothing was shown"
    assert results(life.jobs, life.drawn) == as_one(graph), f"seed {seed}"


def run_through(graph: Graph, folder: Path, **options: Any) -> tuple[LocalJobs, dict[str, list[Checkpointed]]]:
    with LocalJobs(graph, state=folder / "state", backups=str(folder / "backups"), **options) as jobs:
        jobs.run()
        return jobs, {job: [one for one in jobs.checkpoints() if one.job == job] for job in jobs.jobs}


def test_coordinated_checkpoints_have_no_log_and_uncoordinated_ones_do(tmp_path: Path) -> None:
    _, together = run_through(protected(line, EVERY_TWO), tmp_path / "together")
    _, alone = run_through(protected(line, ALONE), tmp_path / "alone")
    for job in ("line", "middle"):
        assert [one.batch for one in together[job]] == [1, 3, 5, 7] == [one.batch for one in alone[job]]
        assert all(one.log_bytes == 0 for one in together[job]) and all(one.log_bytes > 0 for one in alone[job])
    assert [one.state_bytes for one in together["line"]] == [one.state_bytes for one in alone["line"]]


def test_around_a_cycle_a_part_of_the_log_takes_the_place_of_a_checkpoint(tmp_path: Path) -> None:
    _, found = run_through(protected(loop, EXTENDED), tmp_path)
    assert found["loop"] and found["back"]
    assert any(one.log_bytes for one in found["back"])


def test_checkpoints_that_would_wait_for_themselves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="is part of a cycle of jobs and its checkpoints are coordinated"):
        LocalJobs(protected(loop, EVERY_TWO), backups=str(tmp_path))


def test_a_job_that_reads_from_others_leaves_the_schedule_to_them(tmp_path: Path) -> None:
    drawn = line(sw.Coordinated(every=240))  # of the tuples of 8 batches of 60; behind the first job there are fewer
    drawn.protect = sw.Coordinated(every=240)
    _, found = run_through(drawn, tmp_path)
    assert [one.batch for one in found["line"]] == [4]
    assert found["middle"][0].batch == found["last"][0].batch == 4


def test_tuples_are_counted_also_where_they_come_from_a_log(tmp_path: Path) -> None:
    drawn = line(sw.Uncoordinated(every=60))
    drawn.protect = sw.Uncoordinated(every=60)
    _, found = run_through(drawn, tmp_path)
    assert [one.batch for one in found["line"]] == [1, 3, 5, 7]  # 60 a batch, looked at when the next begins
    assert found["middle"]  # which reads nothing else


def test_jitter_moves_checkpoints_and_the_same_again(tmp_path: Path) -> None:
    def batches(folder: Path, jitter: float) -> dict[str, list[int]]:
        drawn = line(sw.Uncoordinated(batches=3, jitter=jitter))
        drawn.protect = sw.Uncoordinated(batches=3, jitter=jitter)
        return {job: [one.batch for one in ones] for job, ones in run_through(drawn, folder)[1].items()}

    assert batches(tmp_path / "0", 0.0) == {"line": [2, 5], "middle": [2, 5], "last": [2, 5]}
    drawn = batches(tmp_path / "1", 0.7)
    assert drawn == batches(tmp_path / "2", 0.7)
    assert len({tuple(one) for one in drawn.values()}) > 1


def test_small_logs_ask_for_checkpoints_that_nobody_planned(tmp_path: Path) -> None:
    seldom = sw.Coordinated(batches=900)
    jobs, found = run_through(protected(line, seldom), tmp_path, log_bytes_max=4_000)
    assert results(jobs, protected(line, seldom)) == as_one(line)
    assert found["line"] or found["middle"], "what was read was held back until there was no room"


def test_a_job_never_gets_so_far_ahead_that_nobody_knows_the_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinating, "batches_kept", lambda protection: 3)
    with LocalJobs(protected(line, EVERY_TWO), state=tmp_path / "s", backups=str(tmp_path / "b")) as jobs:
        while jobs.turn("line"):
            pass
        assert jobs.job("line").batch == 3
        jobs.run()
        assert results(jobs, protected(line, EVERY_TWO)) == as_one(line)


def test_without_a_folder_for_checkpoints_they_are_refused() -> None:
    with pytest.raises(GraphError, match=r"Job 'line' is protected by Coordinated\(every 2 batches\), which needs a"):
        LocalJobs(protected(line, EVERY_TWO))


def test_a_graph_that_is_cut_otherwise_is_refused(tmp_path: Path) -> None:
    run_through(protected(line, EVERY_TWO), tmp_path)
    other = protected(line, EVERY_TWO)
    del other._jobs["middle"]  # which is then part of the first
    with pytest.raises(BackupError, match=r"Job 'line' has another part in its graph .* are new or gone"):
        LocalJobs(other, state=tmp_path / "state", backups=str(tmp_path / "backups"), batches={"line": 8, "last": 8})


def test_one_job_of_several_is_not_sent_back_by_hand(tmp_path: Path) -> None:
    run_through(protected(line, EVERY_TWO), tmp_path)
    with pytest.raises(RunError, match="is one job of several, which count on it never to go back"):
        StoppedJob(graph="line-line", backups=str(tmp_path / "backups"), checkpoint=str(tmp_path)).checkpoints()
