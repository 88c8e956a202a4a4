"""Pools: the same answers whoever performs the tasks, in the order asked for, and errors that say what happened."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.parallel.tasks import dead, halved, negated, once_there

from spillway.errors import RunError
from spillway.parallel import Pool, Processes, ThisProcess, open_pool


@pytest.fixture(scope="module", params=["this", "processes", pytest.param("spark", marks=pytest.mark.spark)])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    if request.param == "spark":
        from spillway.parallel.tasks_on_spark import SparkTasks

        yield SparkTasks(request.getfixturevalue("spark"))
    else:
        with open_pool(processes=1 if request.param == "this" else 2) as opened:
            yield opened


def test_answers_come_in_the_order_of_tasks(pool: Pool) -> None:
    assert list(pool.ordered(negated, range(9))) == [-number for number in range(9)]
    assert list(pool.ordered(negated, [])) == []


def test_every_task_comes_with_its_answer(pool: Pool) -> None:
    found = list(pool.completed(negated, range(9)))
    assert sorted(found) == [(number, -number) for number in range(9)]
    assert list(pool.completed(negated, [])) == []


def test_tasks_without_end_are_taken_as_they_are_needed(pool: Pool) -> None:
    taken = itertools.count(0, 2)
    found = list(itertools.islice(pool.completed(halved, taken), 20))
    assert len(found) == 20 and all(answer == task // 2 for task, answer in found)
    assert next(taken) <= 2 * (20 + 8 * pool.count)


def test_an_error_in_a_task_is_raised_where_its_answer_is_awaited(pool: Pool) -> None:
    for answers in (pool.ordered(halved, [4, 3]), pool.completed(halved, [4, 3])):
        with pytest.raises(Exception, match="3 is odd"):
            list(answers)
    assert list(pool.ordered(halved, [8])) == [4]  # and the pool goes on


def test_processes_give_answers_as_they_come_or_in_order(tmp_path: Path) -> None:
    late, early = tmp_path / "late", tmp_path / "early"
    early.touch()
    with Processes(2) as pool:
        answers = pool.completed(once_there, [late, early])
        assert next(answers) == (early, "early")
        late.touch()
        assert next(answers) == (late, "late")
        late.unlink()
        ordered = pool.ordered(once_there, [late, early])
        Timer(0.1, late.touch).start()
        assert list(ordered) == ["late", "early"]


def test_a_process_that_dies_is_told_of() -> None:
    with Processes(1) as pool:
        for _ in range(2):
            with pytest.raises(RunError, match="One of 1 processes ended before its task was done"):
                list(pool.completed(dead, [None]))


@pytest.mark.parametrize("count", [0, -1, 1025, True, 1.5])
def test_a_number_of_processes_that_makes_no_sense_is_refused(count: Any) -> None:
    with pytest.raises(RunError, match="From 1 to 1024 processes"):
        Processes(count)


def test_one_process_is_this_one() -> None:
    with open_pool(processes=1) as pool:
        assert isinstance(pool, ThisProcess)
