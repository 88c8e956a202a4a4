"""Every moment of a task belongs to one part."""

from collections.abc import Iterator

import pytest
from tests.records.progressed import progress

from spillway.clock import ManualClock
from spillway.engine.stopwatch import Stopwatch, saving_s
from spillway.records.times import Work


def test_time_is_that_of_the_innermost() -> None:
    clock = ManualClock()

    def read() -> Iterator[int]:
        for i in range(2):
            clock.advance(1.0)
            yield i
        clock.advance(1.0)

    def apply(arriving: Iterator[int]) -> Iterator[int]:
        for i in arriving:
            clock.advance(10.0)
            yield i
            clock.advance(10.0)

    watch = Stopwatch(Work.CARRYING, clock)
    assert list(watch.over(Work.APPLYING, apply(watch.over(Work.READING, read())))) == [0, 1]
    clock.advance(100.0)
    assert watch.stopped(saving_s=15.0) == {
        Work.CARRYING: 100.0,
        Work.READING: 3.0,
        Work.APPLYING: 25.0,
        Work.SAVING: 15.0,
    }


def test_an_error_ends_a_part_too() -> None:
    clock = ManualClock()
    watch = Stopwatch(Work.CARRYING, clock)

    def fail() -> Iterator[int]:
        clock.advance(1.0)
        raise OSError("no")
        yield

    with pytest.raises(OSError, match="no"):
        list(watch.over(Work.APPLYING, fail()))
    clock.advance(2.0)
    assert watch.stopped() == {Work.CARRYING: 2.0, Work.APPLYING: 1.0}


def test_saving_is_never_more_than_applying_was() -> None:
    clock = ManualClock()
    watch = Stopwatch(Work.APPLYING, clock)
    clock.advance(1.0)
    assert watch.stopped(saving_s=1.5) == {Work.APPLYING: 0.0, Work.SAVING: 1.0}


def test_protection_is_backups_items_and_recoveries() -> None:
    assert saving_s([progress(backup_s=1.0, item_s=2.0), progress(recover_s=4.0, process_s=9.0)]) == 7.0
