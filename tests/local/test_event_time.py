"""Windows of event time: what is counted where, what is put aside, and that no failure changes it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.local.event_times import Model, Row, counting, ended, feed, put_aside
from tests.operators.running import feed_of, running, tuples
from tests.state.crash_film import scratch

import spillway as sw
from spillway.errors import GraphError, StateError
from spillway.inject.rewriting import redraw
from spillway.local.jobs import LocalJobs

FAR = 10**9
TIMES = st.integers(-20, 120) | st.integers(-20, 120) | st.sampled_from([FAR, -FAR, 2 * FAR])
ROWS = st.lists(st.tuples(TIMES, st.sampled_from("abc")), max_size=8)
BATCHES = st.lists(ROWS, min_size=1, max_size=8)
MODELS = st.builds(Model, extent=st.integers(1, 30), lateness=st.integers(0, 40), ahead_max=st.integers(0, 100))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory, where making things durable costs nothing."""
    with scratch() as made:
        yield made


def check(run: sw.LocalRun, batches: Sequence[Sequence[Row]], model: Model) -> None:
    for rows in batches:
        model.apply(rows)
    assert ended(run, model) == sorted(model.ended)
    assert put_aside(run) == sorted(model.late + model.ahead)
    (told,) = run.progress()
    assert (told.late, told.ahead) == (len(model.late), len(model.ahead))


@settings(max_examples=60)
@given(batches=BATCHES, model=MODELS)
@example(batches=[[(5, "a")], [(FAR, "a")], [(6, "a"), (17, "b")], [(40, "a")]], model=Model(10, 0, 50))
@example(batches=[[(5, "a")], [(7, "a"), (8, "a"), (FAR, "b")], [(60, "a")]], model=Model(10, 3, 50))
def test_windows_are_those_of_the_model(batches: list[list[Row]], model: Model) -> None:
    with running(counting(batches, model, protect=sw.Exact())) as run:
        run.run()
        check(run, batches, model)


def test_one_tuple_of_the_far_future_closes_nothing() -> None:
    batches = [[(1, "a"), (12, "a")], [(15, "a"), (3, "b"), (FAR, "a")], [(16, "a"), (5, "b")], [(200, "c")]]
    model = Model(extent=10, lateness=20, ahead_max=1000)
    with running(counting(batches, model, protect=sw.Exact())) as run:
        run.run()
        assert ended(run, model) == [(0, "a", 1), (0, "b", 2), (1, "a", 3)]
        assert put_aside(run) == [(FAR, "a")]


def test_several_windows_are_open_at_once_and_say_so_as_they_grow() -> None:
    batches = [[(1, "a"), (12, "a")], [(2, "a"), (13, "a"), (25, "a")], [(3, "a"), (40, "a")]]
    model = Model(extent=10, lateness=20, ahead_max=100)
    with running(counting(batches, model, final=False)) as run:
        run.run()
        rows = [
            (row["seq"], row["window_start"], row["window_end"], row["count"]) for row in run.result("out").to_pylist()
        ]
    # In the last batch the watermark of the one before, 25 - 20, has not ended the first window.
    assert rows == [
        (1, 0, 10, 1),
        (1, 10, 20, 1),
        (4, 0, 10, 2),
        (4, 10, 20, 2),
        (4, 20, 30, 1),
        (6, 0, 10, 3),
        (6, 40, 50, 1),
    ]


PROTECTIONS = [
    sw.Exact(),
    sw.Exact(items=True),
    sw.UpstreamBackup(every=1000),
    sw.Approximate(theta=0.5),
]
OUT_OF_ORDER = [
    [(1, "a"), (12, "b"), (5, "c")],
    [(25, "a"), (3, "b"), (11, "a")],
    [(33, "c"), (4, "a"), (FAR, "a")],
    [(2, "b"), (38, "a"), (29, "b")],
    [(61, "a"), (35, "a")],
    [(20, "a"), (90, "b")],
]


@pytest.mark.parametrize("protect", PROTECTIONS, ids=lambda protect: protect.describe())
@pytest.mark.parametrize("lost", [*range(len(OUT_OF_ORDER)), "always"])
def test_no_loss_of_memory_changes_what_is_late(tmp_path: Path, protect: sw.Protection, lost: int | str) -> None:
    model = Model(extent=10, lateness=12, ahead_max=100)
    with sw.LocalRun(counting(OUT_OF_ORDER, model, protect=protect), backups=str(tmp_path)) as run:
        for batch in range(len(OUT_OF_ORDER)):
            run.step()
            if lost in (batch, "always"):
                run.wipe()
        check(run, OUT_OF_ORDER, model)


@settings(max_examples=25)
@given(batches=BATCHES, model=MODELS, wipes=st.sets(st.integers(0, 7)), theta=st.integers(1, 6))
def test_under_approximate_counts_are_off_by_theta_and_lateness_by_nothing(
    batches: list[list[Row]], model: Model, wipes: set[int], theta: int
) -> None:
    with running(counting(batches, model, protect=sw.Approximate(theta=theta))) as run:
        while run.step():
            if run.batch in wipes:
                run.wipe()
        for rows in batches:
            model.apply(rows)
        found = {(window, key): count for window, key, count in ended(run, model)}
        assert put_aside(run) == sorted(model.late + model.ahead)
    wanted = {(window, key): count for window, key, count in model.ended}
    assert found.keys() <= wanted.keys()
    assert all(abs(count - found.get(place, 0)) <= theta for place, count in wanted.items())


class TornError(Exception):
    """What stops a batch in its midst."""


@pytest.mark.parametrize("at", ["opened", "applying", "backing_up", "backed_up", "committed"])
@pytest.mark.parametrize("torn", range(len(OUT_OF_ORDER)))
def test_a_batch_that_is_run_again_comes_to_the_same(tmp_path: Path, torn: int, at: str) -> None:
    model = Model(extent=10, lateness=12, ahead_max=100)
    met: list[int] = []

    def observe(step: object, operator: str, shard: int, batch: int) -> None:
        if batch == torn and getattr(step, "name", "").lower() == at and not met:
            met.append(shard)
            raise TornError

    graph = counting(OUT_OF_ORDER, model, protect=sw.Exact())
    with sw.LocalRun(graph, backups=str(tmp_path), observe=observe) as run:
        while True:
            try:
                if not run.step():
                    break
            except TornError:
                continue
        check(run, OUT_OF_ORDER, model)
    assert met or at in ("backing_up", "backed_up", "applying")


def test_a_graph_that_goes_back_as_a_whole_comes_to_the_same(tmp_path: Path) -> None:
    model = Model(extent=10, lateness=12, ahead_max=100)
    graph = counting(OUT_OF_ORDER, model, protect=sw.Coordinated(every=timedelta(hours=1)))
    with sw.LocalRun(graph, backups=str(tmp_path)) as run:
        wiped = False
        while run.step():
            if run.batch == 4 and not wiped:
                wiped = True
                run.wipe()
        assert run.rewinds()
        for rows in OUT_OF_ORDER:
            model.apply(rows)
        assert ended(run, model) == sorted(model.ended)
        assert put_aside(run) == sorted(model.late + model.ahead)


def test_windows_go_on_in_another_run_and_with_other_shards(tmp_path: Path) -> None:
    model = Model(extent=10, lateness=12, ahead_max=100)
    told: list[tuple[int, str, int]] = []
    aside: list[Row] = []
    for batch, shards in ((0, 2), (3, 3)):
        graph = counting(OUT_OF_ORDER, model, protect=sw.Exact())
        graph.shards = shards
        with sw.LocalRun(
            graph, state=tmp_path / "state", backups=str(tmp_path / "b"), batch=batch, rescale=shards == 3
        ) as run:
            for _ in range(3):
                run.step()
            told += ended(run, model)
            aside += put_aside(run)
    for rows in OUT_OF_ORDER:
        model.apply(rows)
    assert sorted(told) == sorted(model.ended)
    assert sorted(aside) == sorted(model.late + model.ahead)


def two_sources(left: list[list[Row]], right: list[list[Row]]) -> sw.Graph:
    graph = sw.Graph("g", shards=2)
    a = graph.source("left", feed(left), time="at", lateness=10, ahead_max=1000)
    b = graph.source("right", feed(right), time="at", lateness=0, ahead_max=1000)
    both = graph.add(sw.operators.Union("both"), a, b)
    count = sw.operators.Count("count", key="k", window=sw.Hopping(time="at", length=10), bounds=True, final=True)
    graph.sink("out", graph.add(count, both), sw.Memory())
    return graph


def test_the_slowest_source_decides() -> None:
    left = [[(5, "a"), (95, "a")], [(96, "a")], [(97, "a")], [(98, "a")]]
    right = [[(4, "b")], [], [(25, "b")], [(200, "b")]]
    with running(two_sources(left, right)) as run:
        seen: list[list[tuple[int, str, int]]] = []
        while run.step():
            out = run.result("out").to_pylist()
            seen.append([(row["window_start"], row["k"], row["count"]) for row in out[sum(map(len, seen)) :]])
    assert [sorted(rows) for rows in seen] == [[], [], [(0, "a", 1), (0, "b", 1)], [(20, "b", 1)]]


class Ends(sw.Operator):
    """Says at a window's end how many tuples it had."""

    schema = sw.columns(window=pa.int64(), count=pa.int64())
    count = sw.Number(dtype="int64")

    def process(self, port: str, batch: pa.RecordBatch) -> None:  # type: ignore[override]
        self.count += batch.num_rows

    def end_window(self, window: int) -> Iterator[sw.Out]:
        yield self.out(window=window, count=self.count)


def one_window(batches: list[list[Row]], *, lateness: int = 0) -> sw.Graph:
    graph = sw.Graph("g")
    source = graph.source("source", feed(batches), time="at", lateness=lateness, ahead_max=100)
    ends = Ends("ends", window=sw.Hopping(time="at", length=10), protect=sw.Exact())
    graph.sink("out", graph.add(ends, source), sw.Memory())
    return graph


def test_operators_of_one_window_follow_where_nothing_may_be_late() -> None:
    batches = [
        [(1, "a"), (12, "a"), (3, "a")],
        [(5, "a"), (14, "a"), (15, "a"), (FAR, "a")],
        [(17, "a"), (31, "a")],
        [(FAR, "a")],
        [(99, "a")],
    ]
    with running(one_window(batches)) as run:
        run.run()
        rows = [(row["window"], row["count"]) for row in run.result("out").to_pylist()]
        (told,) = run.progress()
    assert rows == [(0, 2), (1, 4), (3, 1), (4, 0)]
    assert (told.late, told.ahead) == (1, 2)


def test_operators_of_one_window_cannot_keep_several() -> None:
    with pytest.raises(GraphError) as refused:
        one_window([[(1, "a")]], lateness=1).checked()
    assert str(refused.value) == (
        "Operator 'ends': Ends keeps one window at a time, and several are open at once, because tuples may be late at "
        "source 'source'. Use one that keeps several, such as Count, or say lateness=0."
    )


def test_a_graph_that_is_drawn_again_has_its_clocks() -> None:
    graph = counting(OUT_OF_ORDER, Model(extent=10, lateness=12, ahead_max=100))
    assert redraw(graph).checked().watermarks == graph.checked().watermarks
    assert graph.checked().watermarks


def test_tuples_without_a_time_may_be_dropped_on_the_way() -> None:
    at, keys = pa.array([1, None, 12, None, 40], pa.int64()), pa.array(["a", "a", "a", "b", "b"])
    graph = sw.Graph("g")
    source = graph.source("source", feed_of([tuples(at=at, k=keys)]), time="at", lateness=0, ahead_max=100)
    timed = graph.add(sw.operators.Where("timed", sw.field("at").is_valid()), source)
    count = sw.operators.Count("count", key="k", window=sw.Hopping(time="at", length=10), final=True)
    graph.sink("out", graph.add(count, timed), sw.Memory())
    with running(graph) as run:
        run.run()
        assert [(row["k"], row["count"]) for row in run.result("out").to_pylist()] == [("a", 1), ("a", 1)]


def test_bounds_are_times() -> None:
    kind = pa.timestamp("us", tz="UTC")
    noon = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
    at = [noon, noon + timedelta(seconds=90), noon + timedelta(hours=2)]
    graph = sw.Graph("g")
    source = graph.source(
        "source", feed_of([tuples(at=pa.array(at, kind), k=pa.array([1, 1, 1], pa.int32()))]),
        time="at", lateness=timedelta(minutes=5),
    )  # fmt: skip
    window = sw.Hopping(time="at", length=timedelta(minutes=1))
    count = sw.operators.Count("count", key="k", window=window, bounds=True, final=True)
    graph.sink("out", graph.add(count, source), sw.Memory())
    with running(graph) as run:
        run.run()
        out = run.result("out")
    assert out.schema.types == [pa.int64(), pa.int32(), kind, kind, pa.int64()]
    minute = timedelta(minutes=1)
    assert [(row["window_start"], row["window_end"], row["count"]) for row in out.to_pylist()] == [
        (noon, noon + minute, 1),
        (noon + minute, noon + 2 * minute, 1),
    ]


def test_windows_of_numbers_have_bounds_and_a_last_word_too() -> None:
    graph = sw.Graph("g")
    source = graph.source("source", feed([[(0, "a"), (0, "b"), (0, "a")], [(0, "a"), (0, "a")]]))
    for name, final in (("final", True), ("each", False)):
        count = sw.operators.Count(name, key="k", window=sw.Hopping(count=2), bounds=True, final=final, shards=1)
        graph.sink(f"{name}_out", graph.add(count, source), sw.Memory())
    with running(graph) as run:
        run.run()
        rows = {
            name: [tuple(row.values()) for row in run.result(f"{name}_out").to_pylist()] for name in ("final", "each")
        }
    assert rows["final"] == [(1, "a", 0, 2, 1), (1, "b", 0, 2, 1), (3, "a", 2, 4, 2)]
    assert rows["each"] == [
        (1, "a", 0, 2, 1), (1, "b", 0, 2, 1), (2, "a", 2, 4, 1), (3, "a", 2, 4, 2), (4, "a", 4, 6, 1),
    ]  # fmt: skip


def test_windows_in_another_job_follow_what_its_log_says(tmp_path: Path) -> None:
    model = Model(extent=10, lateness=12, ahead_max=100)
    graph = counting(OUT_OF_ORDER, model, protect=sw.Exact())
    graph.job("counts", ["count"])
    with LocalJobs(graph, backups=str(tmp_path)) as run:
        run.run()
        for rows in OUT_OF_ORDER:
            model.apply(rows)
        out = run.result("out").to_pylist()
        assert sorted((row["window_start"] // 10, row["k"], row["count"]) for row in out) == sorted(model.ended)


def test_times_of_several_sources_do_not_go_to_another_job() -> None:
    graph = two_sources([[(1, "a")]], [[(1, "a")]])
    graph.job("counts", ["count"])
    with pytest.raises(GraphError) as refused:
        graph.divided()
    assert str(refused.value) == (
        "Job 'counts': both.out carries the times of sources 'left' and 'right' to a job in which windows end by them. "
        "Put the windows into the job of their sources."
    )


def test_another_lateness_may_be_said_when_a_run_resumes_and_none_may_not(tmp_path: Path) -> None:
    places = {"state": tmp_path / "state", "backups": str(tmp_path / "backups")}
    with sw.LocalRun(counting(OUT_OF_ORDER, Model(extent=10, lateness=12, ahead_max=100)), **places) as run:  # type: ignore[arg-type]
        run.step()
    more = Model(extent=10, lateness=30, ahead_max=50)
    with sw.LocalRun(counting(OUT_OF_ORDER, more), batch=1, **places) as run:  # type: ignore[arg-type]
        run.step()
    graph = sw.Graph("g", shards=2)
    window = sw.Hopping(time="at", length=10)
    counts = graph.add(sw.operators.Count("count", key="k", window=window), graph.source("source", feed(OUT_OF_ORDER)))
    graph.sink("out", counts, sw.Memory())
    with pytest.raises(StateError, match="watermark was 'source' and is none"):
        sw.LocalRun(graph, batch=2, **places)  # type: ignore[arg-type]
