"""What sinks wrote beside what they should have, batch by batch."""

import pyarrow as pa
import pytest

from spillway.model.validation.judging import NOTHING, Judged, judge

RIGHT = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def table(rows: list[tuple[int, str]]) -> pa.Table:
    seqs, words = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"seq": pa.array(seqs, pa.int64()), "word": pa.array(words, pa.string())})


@pytest.mark.parametrize(
    ("written", "lost", "tainted", "duplicates"),
    [
        (RIGHT, 0, 0, 0),
        (RIGHT[::-1], 0, 0, 0),  # the order in which shards write means nothing
        (RIGHT[1:], 1, 0, 0),
        ([], 4, 0, 0),
        ([(1, "x"), *RIGHT[1:]], 0, 1, 0),  # a wrong one in place of a right one
        ([*RIGHT, (9, "x")], 0, 1, 0),
        ([*RIGHT, RIGHT[0], RIGHT[0]], 0, 0, 2),
        ([(1, "x"), *RIGHT[2:], RIGHT[3]], 1, 1, 1),
    ],
)
def test_a_batch(written: list[tuple[int, str]], lost: int, tainted: int, duplicates: int) -> None:
    found = judge({"out": {7: table(RIGHT)}}, {"out": {7: table(written)}}, [7])
    assert found == {7: Judged(wanted=4, lost=lost, tainted=tainted, duplicates=duplicates)}


def test_a_batch_that_was_never_written_is_lost() -> None:
    assert judge({"out": {7: table(RIGHT)}}, {"out": {}}, [7, 8]) == {
        7: Judged(wanted=4, lost=4, tainted=0, duplicates=0),
        8: NOTHING,
    }


def test_sinks_add_up() -> None:
    wanted = {"a": {0: table(RIGHT)}, "b": {0: table(RIGHT[:2])}}
    written = {"a": {0: table(RIGHT[:3])}, "b": {0: table([*RIGHT[:2], (5, "x")])}}
    assert judge(wanted, written, [0])[0] == Judged(wanted=6, lost=1, tainted=1, duplicates=0)


def test_what_is_tolerated() -> None:
    judged = Judged(wanted=40, lost=1, tainted=1, duplicates=0)
    assert judged.is_right(0.05) and not judged.is_right(0.04)
    assert NOTHING.is_right(0.0)
