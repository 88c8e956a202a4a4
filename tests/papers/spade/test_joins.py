"""Joins with and without checkpoints: the streams they read, the turns they take, and what is made of their times."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spillway.graph import Checkpoint, Memory, Nothing
from spillway.local import LocalRun
from spillway.papers.spade.joins import CONTROL, NONE, Cost, OwnTime, Setting, Written, costs, stretches
from spillway.papers.spade.streams import Kind, Side, Watch, join_graph, schema

SMALL = Kind(window=512)


def naive(kind: Kind, batches: int) -> list[tuple[int, float, float]]:
    """Pairs of seq, other and the text of S2, of the first batches: every tuple of S2 with the window it finds."""
    tuples = []
    for left in (True, False):
        for piece in range(batches):
            rows = Side(kind=kind, left=left, seed=7)(piece).to_pylist()
            tuples += [(row["seq"], left, row) for row in rows]
    found, windows = [], {}
    for seq, left, row in sorted(tuples, key=lambda one: one[0]):
        key = row["number"] if kind.by_key else 0
        window = windows.setdefault(key, [])
        if left:
            window.append(row)
            del window[: -kind.window]
        else:
            found += [(seq, w["other"], row["text_0"]) for w in window if w["number"] == row["number"]]
    return found


@pytest.mark.parametrize("kind", [SMALL, Kind(window=32, by_key=True)], ids=["shared", "by key"])
@pytest.mark.parametrize("group", [None, 32])
def test_the_joins_are_those_of_the_paper(kind: Kind, group: int | None, tmp_path: Path) -> None:
    small = Small(window=kind.window, by_key=kind.by_key)
    graph = join_graph(small, Checkpoint(100), Memory(), group=group, seed=7)
    with LocalRun(graph, backups=str(tmp_path)) as run:
        for _ in range(4):
            run.step()
        out = run.result("out")
    columns = (out[name].to_pylist() for name in ("seq", "left_other", "right_text_0"))
    assert sorted(zip(*columns, strict=True)) == sorted(naive(small, 4))
    assert out.num_rows > 20
    assert len([name for name in out.column_names if "text" in name]) == 11


class Small(Kind):
    """Fewer tuples in a batch, so that a slow twin can follow."""

    @property
    def rows(self) -> int:
        return 200


def test_windows_are_full_from_the_first_batch_on_and_both_streams_bring_the_same() -> None:
    kind = Kind(window=8_192)
    assert (kind.rows, Kind(window=131_072).rows) == (2_048, 128)
    first, second = (Side(kind=kind, left=left, seed=1)(0) for left in (True, False))
    assert (first.num_rows, second.num_rows) == (8_192, 0)
    seqs = [np.asarray(Side(kind=kind, left=left, seed=1)(3)["seq"]) for left in (True, False)]
    assert (seqs[1] - seqs[0] == 1).all() and (np.diff(seqs[0]) == 2).all()
    before = Side(kind=kind, left=False, seed=1)(2)["seq"][-1].as_py()
    assert seqs[0][0] == before + 1 > first["seq"][-1].as_py()
    assert first.schema == schema("left") and first["number"].type == pa.int64()


@pytest.mark.parametrize("window", [8_192, 32_768, 131_072])
def test_no_row_takes_the_place_of_its_like(window: int) -> None:
    """What is written over by the same is no change, and would not be saved."""
    kind = Kind(window=window)
    batches = window // kind.rows
    side = Side(kind=kind, left=True, seed=1)
    for piece in (1, 7, 40):
        assert not side(piece)["text_0"].equals(side(piece + batches)["text_0"])


def test_own_time_runs_while_at_work() -> None:
    clock = OwnTime()
    assert clock.monotonic_s() == clock.monotonic_s() == 0.0
    clock.begin()
    sum(range(200_000))
    taken_s = clock.end()
    assert taken_s > 0
    assert clock.monotonic_s() == clock.monotonic_s() == taken_s
    clock.skip(10.0)
    assert clock.monotonic_s() == taken_s + 10.0
    clock.begin()
    assert clock.monotonic_s() >= taken_s + 10.0


def test_what_a_thread_writes_counts_for_the_batch_that_began_it() -> None:
    def work() -> None:
        sum(range(200_000))

    written = Written()
    written.wait()
    written.batch = 4
    under_way = written(work)
    written.batch = 5
    written.wait()
    assert under_way.wait(0.0)
    assert written.taken_s(4) > 0.0 == written.taken_s(5)


@pytest.mark.parametrize(
    ("under", "length", "special", "found"),
    [
        ([2.0, 2.0, 2.0, 2.0], 2, (), [0.5, 0.5]),
        ([1.0, 1.0, 1.0, 5.0], 4, {3}, [0.5]),  # a checkpoint counts as it is
        ([1.0, 1.0, 1.0, 5.0], 4, (), [1.0]),  # a mood does not
        ([1.0, 1.0, 3.0, 3.0, 3.0], 2, (), [1.0, 1 / 3]),  # what is left goes with the last
        ([4.0], 9, {0}, [0.25]),
    ],
)
def test_stretches(under: list[float], length: int, special: set[int], found: list[float]) -> None:
    assert stretches([1.0] * len(under), under, length, special=special) == pytest.approx(found)


def test_what_is_the_same_in_both_is_added_to_each() -> None:
    assert stretches([1.0, 1.0], [2.0, 2.0], 2, special=(), same=9.0) == pytest.approx([10 / 11])
    assert stretches([1.0, 1.0], [1.0, 3.0], 2, special={1}, same=9.0) == pytest.approx([20 / 22])


def test_kernels_are_timed(tmp_path: Path) -> None:
    watch = Watch()
    graph = join_graph(Kind(window=8_192), Nothing(), Memory(), group=None, seed=1, watch=watch)
    with LocalRun(graph, backups=str(tmp_path)) as run:
        run.step()
        filled_s, watch.taken_s = watch.taken_s, 0.0
        run.step()
    assert 0 < filled_s < watch.taken_s  # nothing is compared while windows are filled


def test_every_setting_does_the_same_work_and_those_with_a_checkpoint_save_it() -> None:
    settings = [Setting(group=128, interval_s=0.02), Setting(group=128, interval_s=100.0)]
    told: list[str] = []
    bare, control, often, seldom = costs(SMALL, settings, worked_s=0.1, repetitions=2, seed=7, tell=told.append)
    assert [cost.setting for cost in (bare, control, often, seldom)] == [NONE, CONTROL, *settings]
    assert len({cost.batches for cost in (bare, control, often, seldom)}) == 1
    assert bare.ratios == pytest.approx([1.0] * len(bare.ratios))
    assert (bare.checkpoints, control.checkpoints, seldom.checkpoints) == (0, 0, 0)
    assert often.checkpoints > 1 and often.saving_share > 0
    assert min(often.checkpoint_bytes) > 128 * 12 * 8
    assert len(often.held_s) == len(often.written_s) == often.checkpoints and min(often.written_s) > 0
    assert len({cost.outputs for cost in (bare, control, often, seldom)}) == 1  # as many pairs of as many tuples
    assert len(told) == 2


def test_a_cost_as_a_row() -> None:
    cost = Cost(
        kind=SMALL,
        setting=Setting(group=128, interval_s=1.0),
        ratios=[0.99, 0.98],
        batch_ratios=[0.9],
        wall_ratios=[1.0],
        batches=10,
        cpu_s=4.0,
        outputs=800,
        checkpoint_bytes=[1e6, 3e6],
        held_s=[0.001, 0.003],
        written_s=[0.006, 0.01],
    )
    row = (cost + replace(cost, ratios=[0.97], cpu_s=1.0, checkpoint_bytes=[], held_s=[], written_s=[])).as_row()
    assert (row["ratio"], row["ratio_low"], row["ratio_high"], row["samples"]) == (0.98, 0.97, 0.99, 3)
    assert (row["saving_share"], row["held_ms"], row["written_ms"]) == pytest.approx((0.004, 2.0, 8.0))
    assert (row["checkpoints"], row["checkpoint_bytes"], row["every_s"]) == (2, 2e6, 2.5)
    assert (row["input_per_s"], row["output_per_s"]) == (2 * SMALL.rows * 20 / 5.0, 320.0)
    assert (row["join"], row["group"], row["control"]) == ("512", 128, False)


def test_nothing_is_saved_without_a_checkpoint(tmp_path: Path) -> None:
    with LocalRun(join_graph(SMALL, Nothing(), Memory(), group=None, seed=1), backups=str(tmp_path)) as run:
        run.step()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
