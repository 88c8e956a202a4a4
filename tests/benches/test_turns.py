"""Systems that take turns: who runs when, what is measured, and that nobody waits for ever."""

import threading
from collections.abc import Callable

from spillway.benches.turns import Turns
from spillway.clock import ManualClock

NAMES = ["a", "b", "c"]


def drive(turns: Turns, name: str, batches: int, work: Callable[[str, int], None]) -> threading.Thread:
    """A system that runs so many batches on a thread of its own."""

    def run() -> None:
        for batch in range(batches):
            work(name, batch)
            turns.ended(name, batch)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def finish(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "it waits for a turn that does not come"


def test_one_batch_each_and_another_order_in_every_round() -> None:
    clock, ran = ManualClock(), []
    turns = Turns(NAMES, batches=4, clock=clock)

    def work(name: str, batch: int) -> None:
        ran.append((batch, name))
        if batch:  # the first ones are run all at once
            clock.advance(1 + NAMES.index(name))

    finish([drive(turns, name, 4, work) for name in NAMES])
    assert {*ran[:3]} == {(0, "a"), (0, "b"), (0, "c")}
    assert ran[3:] == [
        *[(1, "c"), (1, "b"), (1, "a")],
        *[(2, "b"), (2, "c"), (2, "a")],
        *[(3, "a"), (3, "c"), (3, "b")],
    ]
    # What the others took is not counted.
    assert turns.batches_s("a") == {1: 1, 2: 1, 3: 1}
    assert turns.batches_s("c") == {1: 3, 2: 3, 3: 3}
    assert turns.done("b") == 4


def test_nobody_waits_for_who_has_left() -> None:
    ran: list[tuple[int, str]] = []
    turns = Turns(NAMES, batches=3, clock=ManualClock())
    threads = [drive(turns, name, 3, lambda name, batch: ran.append((batch, name))) for name in ("a", "c")]
    turns.leave("b")  # which never started
    finish(threads)
    assert ran[2:] == [(1, "c"), (1, "a"), (2, "c"), (2, "a")]


def test_abandoned_all_run_on() -> None:
    turns = Turns(NAMES, batches=3, clock=ManualClock())
    threads = [drive(turns, name, 3, lambda name, batch: None) for name in ("a", "b")]
    turns.abandon()  # although c has not come
    finish(threads)
    assert (turns.done("a"), turns.done("b"), turns.done("c")) == (3, 3, 0)
