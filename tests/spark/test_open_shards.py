"""What a Python worker keeps mapped from batch to batch, and what it lets go of."""

import gc
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.local.test_handles import build

from spillway.backup.keeper import ignore
from spillway.graph.stages import stages
from spillway.operators.operator import Operator
from spillway.spark import task as tasks
from spillway.spark.leaving import ToSinks
from spillway.spark.memory_place import MemoryPlace
from spillway.spark.task import RunContext, StageTask, open_shard, portable
from spillway.spark.telling import Told


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A worker that has nothing open, in which garbage is not collected."""
    monkeypatch.setattr(tasks, "_OPEN", type(tasks._OPEN)())
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def no_task_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "told_here", lambda operator, shard: Told())


def mapped(folder: Path) -> int:
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            targets.append(os.readlink(descriptor))
        except FileNotFoundError:
            continue  # the one we list the folder with
    return sum(target.startswith(str(folder)) for target in targets)


def stage_task(folder: Path, *, run: str) -> StageTask:
    graph = build().checked()
    operators = {name: operator for name, operator in graph.operators.items() if isinstance(operator, Operator)}
    context = RunContext(
        run=run,
        graph=portable(graph),
        operators=operators,
        memory=MemoryPlace(root=str(folder / run), name=""),
        several=False,
        backups=str(folder / "backups"),
        checkpoint=str(folder / "checkpoint"),
        observe=ignore,
        report=lambda rows: None,
    )
    stage = stages(graph)[1]
    return StageTask(context=context, stage=stage, leaving=ToSinks(destinations={}))


def open_all(task: StageTask) -> None:
    for operator in task.context.operators.values():
        open_shard(task.context, task.stage, operator, 0)


def test_memory_of_runs_that_are_gone_is_let_go(tmp_path: Path) -> None:
    open_all(stage_task(tmp_path, run="first"))
    one_run = mapped(tmp_path)
    assert one_run > 0
    shutil.rmtree(tmp_path / "first")
    open_all(stage_task(tmp_path, run="second"))
    assert mapped(tmp_path) == one_run


def test_memory_made_anew_replaces_what_was_lost(tmp_path: Path) -> None:
    task = stage_task(tmp_path, run="first")
    open_all(task)
    one_run = mapped(tmp_path)
    shutil.rmtree(tmp_path / "first")
    open_all(task)
    assert mapped(tmp_path) == one_run


def test_what_was_used_longest_ago_is_let_go_when_it_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_OPEN_MAX", 2)
    for run in ("first", "second", "third"):
        open_all(stage_task(tmp_path, run=run))
    assert mapped(tmp_path / "first") == mapped(tmp_path / "second") == 0
    assert mapped(tmp_path / "third") > 0


def test_a_stage_of_many_operators_keeps_all_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_OPEN_MAX", 1)
    task = stage_task(tmp_path, run="first")
    whole = replace(task, stage=replace(task.stage, operators=tuple(task.context.operators)))
    opened = [open_shard(whole.context, whole.stage, operator, 0) for operator in whole.context.operators.values()]
    assert [one.shard.version for one in opened] == [-1, -1]
