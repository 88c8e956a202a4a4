"""Killed anywhere while state is divided anew, a run finds one division whole, and counts nothing twice."""

import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.local.rescaling import Stopped, pieces
from tests.operators.running import feed_of
from tests.state.crash_film import Film, Still, crash_points, lay_out, scratch

import spillway as sw
from spillway.graph.graph import Graph
from spillway.state.folders import wipe

STOP = 2
PIECES = pieces(batches=4, rows=12, keys=8)
SHOWN = 8


def counting(shards: int, protect: sw.Protection) -> Graph:
    graph = sw.Graph("g", shards=shards)
    source = graph.source("in", feed_of(PIECES))
    words = graph.add(sw.operators.Count("words", key="word", protect=protect), source)
    graph.sink("out", words, sw.Memory())
    numbers = sw.operators.Count("sums", key="number", metric="l1", protect=protect)
    graph.sink("other", graph.add(numbers, source), sw.Discard())
    return graph


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


@cache
def film(protect: sw.Protection, was: int, now: int) -> list[Still]:
    """All that dividing anew does to the folders of a run that was stopped."""
    with scratch() as folder:
        run = Stopped(folder=folder / "run", make=counting, protect=protect)
        run.go(was, batch=0, batches=STOP)
        with Film(run.folder, batch=STOP) as filmed:
            run.open(now, batch=STOP, rescale=True).close()
        return filmed.stills


@pytest.mark.parametrize(
    ("protect", "was", "now"),
    [
        (sw.Exact(), 2, 3),
        (sw.UpstreamBackup(every=1000), 3, 1),
        (sw.Approximate(theta=1e6), 3, 2),
        (sw.Nothing(), 1, 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, sw.Protection) else None,
)
def test_a_kill_at_any_step(folder: Path, protect: sw.Protection, was: int, now: int) -> None:
    never = Stopped(folder=folder / "never", make=counting, protect=protect)
    never.go(now, batch=0, batches=STOP)
    wanted = never.go(now, batch=STOP, batches=2)
    points = crash_points(film(protect, was, now), seed=7, depth=3)
    broken = []
    for point in points:
        for lost in (False, True) if isinstance(protect, sw.Exact | sw.UpstreamBackup) else (False,):
            on = Stopped(folder=folder / "on", make=counting, protect=protect)
            lay_out(point.files, on.folder)
            if lost:
                wipe(on.folder / "state")
            try:
                found, failures = resumed(on, now)
                assert found == wanted, "other answers"
                assert lost or failures == 0, f"{failures} failures were counted, though nothing was lost"
            except Exception as error:
                broken.append(f"{point}; memory {'lost' if lost else 'kept'}: {type(error).__name__}: {error}")
            shutil.rmtree(on.folder)
    assert not broken, f"{len(broken)} kills broke a promise:\n" + "\n".join(broken[:SHOWN])
    functions = {place.rpartition(" ")[2] for point in points for place in point.after}
    assert {"write_division", "be_divided", "_put_in_place", "move_folder"} <= functions


def resumed(run: Stopped, shards: int) -> tuple[list[Any], int]:
    with run.open(shards, batch=STOP, rescale=True) as opened:
        opened.run()
        table = opened.result("out")
        return sorted(tuple(row.values()) for row in table.to_pylist()), max(row.failures for row in opened.records())


def test_who_changes_his_mind_after_a_kill_finds_it_whole_too(folder: Path) -> None:
    """The number of before is asked for again, wherever the change was cut short."""
    protect = sw.Exact()
    never = Stopped(folder=folder / "never", make=counting, protect=protect)
    never.go(2, batch=0, batches=STOP)
    wanted = never.go(2, batch=STOP, batches=2)
    for point in crash_points(film(protect, 2, 3), seed=8):
        on = Stopped(folder=folder / "on", make=counting, protect=protect)
        lay_out(point.files, on.folder)
        assert resumed(on, 2) == (wanted, 0), str(point)
        shutil.rmtree(on.folder)


def test_what_is_committed_is_finished_unasked(folder: Path) -> None:
    """From the moment on in which the new division counts for both operators."""
    notes = [f"backups/g/{name}/division.json" for name in ("words", "sums")]
    counts = b'\\"shards\\": 3'
    committed = next(
        still
        for still in film(sw.Exact(), 2, 3)
        if all(note in still.files and counts in still.files[note].data for note in notes)
    )
    on = Stopped(folder=folder / "on", make=counting)
    lay_out(committed.files, on.folder)
    with on.open(3, batch=STOP) as opened:
        assert ("sums", 2, 3) in [(change.operator, change.was, change.now) for change in opened.rescaled]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, tuple[int, ...]]]:
    """For every batch the number of shards, and which of them lose their memory after it."""
    found = []
    for _ in range(len(PIECES_OF_MANY)):
        shards = draw(st.integers(1, 4))
        found.append((shards, tuple(sorted(draw(st.sets(st.integers(0, shards - 1)))))))
    return found


PIECES_OF_MANY = pieces(batches=8, rows=30, keys=6)


class TestTheBound:
    """Over any history of changes and losses no more is lost than theta allows: a few batches' worth at a time."""

    THETA = {"l1": 3000.0, "max": 300.0}  # noqa: RUF012

    @pytest.mark.parametrize("metric", ["l1", "max"])
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(history=histories())
    @example(history=[(2 + batch % 2, tuple(range(2 + batch % 2))) for batch in range(8)])
    def test_holds_over_the_whole_life(self, metric: Any, history: list[tuple[int, tuple[int, ...]]]) -> None:
        def make(shards: int, protect: sw.Protection) -> Graph:
            graph = sw.Graph("g", shards=shards)
            kept = sw.operators.Count("o", key="word", value="value", metric=metric, protect=protect)
            graph.sink("out", graph.add(kept, graph.source("in", feed_of(PIECES_OF_MANY))), sw.Memory())
            return graph

        true: dict[str, int] = {}
        with scratch() as folder:
            run = Stopped(folder=folder / "run", make=make, protect=sw.Approximate(theta=self.THETA[metric]))
            for batch, (shards, losing) in enumerate(history):
                for word, value in zip(*(PIECES_OF_MANY[batch][n].to_pylist() for n in ("word", "value")), strict=True):
                    true[word] = true.get(word, 0) + value
                with run.open(shards, batch=batch, rescale=True) as opened:
                    assert opened.step()
                    off = _errors(true, _counts(opened, shards))
                    assert (sum(off) if metric == "l1" else max(off)) <= self.THETA[metric] * (1 + 1e-12), (
                        f"after {batch}"
                    )
                for index in losing:
                    shutil.rmtree(run.folder / f"state/g/o/{index:04d}")


def _counts(run: sw.LocalRun, shards: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in range(shards):
        operator = run.shard("o", index)
        assert isinstance(operator, sw.operators.Count)
        keys, numbers = operator.counts.items()
        assert not found.keys() & set(keys.to_pylist()), "a key lies in two shards"
        found |= dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))
    return found


def _errors(true: dict[str, int], found: dict[str, int]) -> list[int]:
    return [abs(number - found.get(word, 0)) for word, number in true.items()]
