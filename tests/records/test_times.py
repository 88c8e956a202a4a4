"""Where the time of a batch goes: parts that add up, whatever tasks ran when."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.records.reading import read_times
from spillway.records.rundir import RunDirectory
from spillway.records.times import BatchTimes, TaskTimes, Work, at_work_s, average, batch_times, in_one_process, steady

seconds = st.floats(0.0, 100.0)
works = st.sampled_from([work for work in Work if work is not Work.SPARK])


def task(stage: int = 0, index: int = 0, *, began_s: float = 0.0, **parts: float) -> TaskTimes:
    return TaskTimes(
        batch=3, stage=stage, index=index, began_s=began_s, parts={Work(name): s for name, s in parts.items()}
    )


def test_tasks_side_by_side_take_the_time_of_one_and_stages_follow_each_other() -> None:
    tasks = [
        task(0, 0, reading=2.0, dividing=2.0),
        task(0, 1, reading=4.0),
        task(1, 0, began_s=5.0, carrying=1.0, applying=1.0, saving=1.0),
        task(1, 1, began_s=5.0, carrying=1.0, applying=2.0),
    ]
    found = batch_times(3, tasks, writing_s=0.5, total_s=9.0)
    assert (found.batch, found.total_s) == (3, 9.0)
    assert found.reading_s == pytest.approx(4.0 * 6 / 8)
    assert found.dividing_s == pytest.approx(4.0 * 2 / 8)
    assert found.applying_s == pytest.approx(3.0 * 3 / 6)
    assert found.saving_s == pytest.approx(3.0 * 1 / 6)
    assert found.writing_s == 0.5
    assert found.spark_s == pytest.approx(9.0 - 4.0 - 3.0 - 0.5)


def test_what_no_task_works_on_is_sparks_own() -> None:
    """Tasks one after the other, with a second between them in which Spark starts the next."""
    tasks = [task(0, 0, applying=1.0), task(0, 1, began_s=2.0, applying=1.0)]
    found = batch_times(0, tasks, writing_s=0.0, total_s=3.5)
    assert (found.applying_s, found.spark_s) == (2.0, 1.5)


def test_of_a_task_that_was_tried_again_the_last_counts() -> None:
    found = batch_times(0, [task(applying=5.0), task(applying=1.0)], writing_s=0.0, total_s=2.0)
    assert (found.applying_s, found.spark_s) == (1.0, 1.0)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), seconds, st.dictionaries(works, seconds)), max_size=6),
    seconds,
    seconds,
)
def test_parts_add_up_and_none_is_negative(
    tasks: list[tuple[int, int, float, dict[Work, float]]], writing_s: float, total_s: float
) -> None:
    made = [TaskTimes(batch=0, stage=s, index=i, began_s=began, parts=parts) for s, i, began, parts in tasks]
    found = batch_times(0, made, writing_s=writing_s, total_s=total_s)
    assert sum(found.of(work) for work in Work) == pytest.approx(total_s)
    assert all(found.of(work) >= -1e-9 for work in Work)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=6))
def test_being_at_work_is_being_in_any_interval(given: list[tuple[int, int]]) -> None:
    covered = {second for begin, length in given for second in range(begin, begin + length)}
    assert at_work_s([(begin, begin + length) for begin, length in given]) == len(covered)


def test_averages_add_up_and_the_first_batches_are_not_judged() -> None:
    times = [in_one_process(batch, {Work.APPLYING: float(batch), Work.READING: 1.0}) for batch in range(9)]
    assert [one.batch for one in steady(times)] == [3, 4, 5, 6, 7, 8]
    assert steady(times[:1]) == times[:1]
    assert [one.batch for one in steady(times[:4])] == [1, 2, 3]
    parts = average(steady(times))
    assert (parts[Work.APPLYING], parts[Work.READING], parts[Work.SPARK]) == (5.5, 1.0, 0.0)


def test_a_run_directory_keeps_times_and_of_a_batch_run_again_the_last(tmp_path: Path) -> None:
    def one(batch: int, reading: float) -> BatchTimes:
        return in_one_process(batch, {Work.READING: reading})

    directory = RunDirectory(tmp_path, graph="words")
    directory.add_times([one(0, 1.0), one(1, 2.0)])
    directory.add_times([])
    directory.close("stopped")
    again = RunDirectory(tmp_path, graph="words")
    again.add_times([one(1, 3.0)])
    again.close("finished")
    assert read_times(tmp_path) == [one(0, 1.0), one(1, 3.0)]
    assert read_times(tmp_path / "elsewhere") == []
