"""Heartbeats: where they are known to be, those of a plain detector, and the same however samples are cut."""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps import naive_qrs
from tests.operators.running import feed_of, running, through, tuples

import spillway as sw
from spillway.apps import APPS
from spillway.apps.ecg import Detection, band_pass, score
from spillway.apps.heart import SAMPLES, SAMPLES_OF_PATIENTS, Hearts
from spillway.apps.qrs import QRSDetector
from spillway.errors import GraphError, InputError
from spillway.graph import Feed, Graph
from spillway.inject.single_operator import SingleOperator
from spillway.operators import SignalFilter

APP = APPS["ecg"]
UNDECIDED_S = 0.6  # a beat is known so long after it at the latest, unless it is searched for


def run(graph: Graph, *, wipe_before: Sequence[int] = ()) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in wipe_before:
                local.wipe()
            if not local.step():
                return local.result("out")


def samples(**options: Any) -> Feed:
    return APP.generator(**{"seed": 5, "tuples": 24_000, "tuples_per_batch": 3_000, **options})


def of(patient: int, table: pa.Table) -> pa.Table:
    return table.filter(pc.field("patient") == patient).drop_columns(["patient"])


def judged(out: pa.Table, hearts: Hearts, *, patient: int = 0, until_s: float) -> Detection:
    if "patient" in out.column_names:
        out = of(patient, out)
    found = np.sort(out["beat_s"].to_numpy())
    actual = hearts.beats_s(patient, until_s=until_s - UNDECIDED_S)
    return score(found[found < until_s - UNDECIDED_S], actual)


class TestKnownBeats:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"samples_per_s": 360.0},
            {"noise": 0.1, "wander": 1.0},
            {"beats_per_minute": 45.0},
            {"beats_per_minute": 140.0},
            {"weak": 0.05},
        ],
    )
    def test_are_found(self, options: dict[str, float]) -> None:
        rate = options.get("samples_per_s", 200.0)
        feed: Any = samples(**options)
        out = run(APP.build(feed, protect=sw.Nothing(), samples_per_s=rate))
        found = judged(out, feed.make.hearts, until_s=24_000 / rate)
        assert found.actual > 45
        assert found.sensitivity >= 0.99 and found.predictivity >= 0.99, found
        # Weak beats are what search-back is for: without them there is nothing to look back for.
        assert any(out["searched"].to_pylist()) == ("weak" in options)

    def test_of_several_patients_are_each_one_s_own(self) -> None:
        feed: Any = samples(patients=3, tuples=30_000)
        assert feed.schema == SAMPLES_OF_PATIENTS
        out = run(APP.build(feed, shards=2))
        whole = pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])
        for patient in range(3):
            found = judged(out, feed.make.hearts, patient=patient, until_s=50.0)
            assert (found.sensitivity, found.predictivity) == (1.0, 1.0)
            # As if there were no others.
            (alone,) = of(patient, whole).combine_chunks().to_batches()
            graph = APP.build(feed_of([alone]))
            own = of(patient, out)
            assert run(graph).equals(own.sort_by("seq"))

    def test_stay_the_same_if_memory_is_lost_under_exact(self) -> None:
        feed = samples()
        undisturbed = run(APP.build(feed, protect=sw.Nothing()))
        assert run(APP.build(feed, protect=sw.Exact()), wipe_before=(1, 4, 5)).equals(undisturbed)
        assert not run(APP.build(feed, protect=sw.Nothing()), wipe_before=(1, 4, 5)).equals(undisturbed)

    def test_are_found_again_after_a_lead_came_off(self) -> None:
        made: Any = samples()

        def make(piece: int) -> pa.RecordBatch:
            batch = made.read(piece)
            values = batch["voltage"].to_numpy().copy()
            if piece == 6:
                values[:300], values[300:600] = np.nan, 1e6
            return batch.set_column(2, batch.schema.field(2), pa.array(values))

        feed = sw.Generator(make=make, schema=made.schema, pieces=made.pieces, pieces_per_batch=2)
        out = run(APP.build(feed))
        found = np.sort(out["beat_s"].to_numpy())
        actual = made.make.hearts.beats_s(0, until_s=24_000 / 200 - UNDECIDED_S)
        late = score(found[found > 55.0], actual[actual > 55.0])
        assert late.sensitivity >= 0.97 and late.predictivity >= 0.97


@pytest.mark.skipif("SPILLWAY_REAL_DATA" not in os.environ, reason="SPILLWAY_REAL_DATA names no folder of real data")
def test_the_beats_that_cardiologists_marked() -> None:
    folder = Path(os.environ["SPILLWAY_REAL_DATA"])
    feed = APP.reader(folder / "mitdb_100.parquet", tuples_per_batch=100_000, samples_per_s=360.0)
    out = run(APP.build(feed, protect=sw.Nothing(), samples_per_s=360.0))
    marked = pq.read_table(folder / "mitdb_100_ann.parquet")
    actual = marked.filter(pc.field("is_beat"))["sample"].to_numpy() / 360.0
    found = score(out["beat_s"].to_numpy(), actual)
    assert found.actual == 2273
    assert found.sensitivity >= 0.999 and found.predictivity >= 0.999, found


# -- against a plain detector, however it is cut -----------------------------------------------------------------------


def heart_signal(seed: int, *, weak: float, noise: float, rate: float) -> list[float]:
    hearts = Hearts(seed=seed, beats_per_minute=80.0, breath=0.3, jitter=0.05, weak=weak)
    times = np.arange(int(15 * rate)) / rate
    values = hearts.voltages(np.zeros(times.size, np.int64), times)
    return [*(values + noise * np.random.default_rng(seed).standard_normal(times.size))]


def detected(signal: list[float], rate: float, places: Sequence[int]) -> list[dict[str, Any]]:
    operator = QRSDetector("qrs", value="x", samples_per_s=rate)
    batch = tuples(time=[at / rate for at in range(len(signal))], x=signal)
    single = SingleOperator(operator, operator.output_schemas({"in": batch.schema}))
    ends = [0, *sorted(place % (batch.num_rows + 1) for place in places), batch.num_rows]
    found = []
    try:
        for first, end in pairwise(ends):
            found += single.apply({"in": batch.slice(first, end - first)})["out"].to_pylist()
    finally:
        single.close()
    return found


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    weak=st.sampled_from([0.0, 0.2]),
    noise=st.sampled_from([0.0, 0.02, 0.3, 2.0]),
    rate=st.sampled_from([100.0, 125.0]),
    places=st.lists(st.integers(0, 2_000), max_size=30),
)
def test_any_division_gives_the_beats_of_a_plain_detector(
    seed: int, weak: float, noise: float, rate: float, places: list[int]
) -> None:
    signal = heart_signal(seed, weak=weak, noise=noise, rate=rate)
    found = detected(signal, rate, places)
    wanted = naive_qrs.beats(signal, rate)
    assert [row["seq"] for row in found] == [beat.decided for beat in wanted]
    for row, beat in zip(found, wanted, strict=True):
        assert row["beat_s"] == beat.decided / rate - (beat.decided - beat.at) / rate
        assert row["rr_s"] == (None if beat.interval is None else beat.interval / rate)
        assert (row["height"], row["searched"]) == (beat.height, beat.searched)


def test_one_sample_at_a_time() -> None:
    signal = heart_signal(3, weak=0.3, noise=0.05, rate=100.0)
    apart, whole = detected(signal, 100.0, range(len(signal))), detected(signal, 100.0, [])
    assert apart == whole
    assert any(row["searched"] for row in whole) and len(whole) > 10


def test_a_rhythm_that_changes_for_good_becomes_the_usual_one() -> None:
    def beating(interval: int, count: int) -> list[float]:
        return [*np.tile([0.0] * (interval - 3) + [0.5, 1.0, 0.3], count)]

    signal = [*beating(50, 20), *beating(120, 20)]
    wanted = naive_qrs.beats(signal, 100.0)
    found = detected(signal, 100.0, [700])
    assert [row["seq"] for row in found] == [beat.decided for beat in wanted]
    assert [row["rr_s"] for row in found][-5:] == [1.2] * 5


def test_equal_states_have_equal_futures() -> None:
    """What is kept tells nothing of how many samples there were: a flat line before it all leaves no trace."""
    # Whole numbers at a power of two a second: sums are the same in whichever slots their parts lie.
    beat = [0.0] * 60 + [3.0, 9.0, -4.0] + [0.0] * 65
    operator = QRSDetector("qrs", value="x", samples_per_s=128.0, key="who")
    signals = {1: beat * 12, 2: [0.0] * 7 + beat * 12, 3: [0.0] * 7 + beat * 11 + [2 * value for value in beat]}
    schema = tuples(who=[1], time=[0.0], x=[0.0]).schema
    single = SingleOperator(operator, operator.output_schemas({"in": schema}))
    try:
        for who, signal in signals.items():
            batch = tuples(who=[who] * len(signal), time=[0.0] * len(signal), x=signal)
            assert single.apply({"in": batch})["out"].num_rows >= 11
        opened = single.operator
        assert isinstance(opened, QRSDetector)
        states = opened.states(pa.array([*signals]))
        assert np.array_equal(states[0], states[1])
        assert not np.array_equal(states[1], states[2])
    finally:
        single.close()


# -- filter, files, scores, refusals -----------------------------------------------------------------------------------


def test_the_filter_passes_what_beats_are_made_of() -> None:
    times = np.arange(4_000) / 200.0
    coefficients, delay = band_pass(200.0)
    strength = {}
    for hertz in (0.0, 0.3, 10.0, 33.3):
        batch = tuples(x=3.0 + np.sin(2 * np.pi * hertz * times))
        out = through(SignalFilter("f", value="x", coefficients=coefficients), batches=[batch])["x"].to_numpy()
        strength[hertz] = np.abs(out[1_000:]).max()
    assert strength[0.0] < 1e-9 and strength[0.3] < 0.03
    assert strength[33.3] < 0.05 and strength[10.0] > 0.5
    assert np.allclose(coefficients, coefficients[::-1]) and len(coefficients) == 2 * delay + 1


@pytest.mark.parametrize(
    ("reported", "actual", "found"),
    [
        ([], [], 0),
        ([1.0], [], 0),
        ([], [1.0], 0),
        ([1.0, 1.1], [1.05], 1),
        ([1.05], [1.0, 1.1], 1),
        ([0.5, 1.5, 2.5], [1.0, 2.0, 3.0], 0),
        ([1.0, 2.0, 2.5, 3.1], [1.1, 2.1, 3.0], 3),
    ],
)
def test_scores(reported: list[float], actual: list[float], found: int) -> None:
    judged = score(np.array(reported), np.array(actual))
    assert judged == Detection(actual=len(actual), reported=len(reported), found=found)
    assert judged.sensitivity == (found / len(actual) if actual else 1.0)
    assert judged.predictivity == (found / len(reported) if reported else 1.0)


class TestFiles:
    def test_generated_samples_are_read_back(self, tmp_path: Path) -> None:
        for patients, schema in ((1, SAMPLES), (2, SAMPLES_OF_PATIENTS)):
            feed = samples(tuples=500, patients=patients)
            made = pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)])
            pq.write_table(made, tmp_path / "x.parquet")
            read = APP.reader(tmp_path / "x.parquet", tuples_per_batch=100)
            assert read.schema == schema
            assert pa.Table.from_batches([read.read(piece) for piece in range(read.pieces)]).equals(made)

    def test_times_follow_from_the_rate_if_there_are_none(self, tmp_path: Path) -> None:
        table = pa.table({"sample": [0, 1, 2], "lead1_mv": pa.array([0.1, 0.2, 0.3], pa.float32())})
        pq.write_table(table, tmp_path / "x.parquet")
        read = APP.reader(tmp_path / "x.parquet", tuples_per_batch=2, pieces_per_batch=1, samples_per_s=360.0)
        found = pa.Table.from_batches([read.read(piece) for piece in range(read.pieces)])
        assert found.schema == read.schema == SAMPLES
        assert found["time"].to_pylist() == [0.0, 1 / 360, 2 / 360]
        assert np.allclose(found["voltage"].to_numpy(), [0.1, 0.2, 0.3])

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"time": [0.0]}, "a column 'voltage' is wanted; there are seq, time."),
            ({"voltage": [0.0], "patient": [1]}, "samples of several patients want a column 'time'"),
        ],
    )
    def test_others_are_refused(self, tmp_path: Path, columns: dict[str, Any], message: str) -> None:
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        with pytest.raises(InputError) as refused:
            APP.reader(tmp_path / "x.parquet", tuples_per_batch=10)
        assert message in str(refused.value)


def test_the_graph_has_the_paper_s_operators() -> None:
    graph = APP.build(samples(tuples=10))
    assert list(graph.nodes) == ["Recording", "ECGSensor", "DSPFilter", "QRSDetector", "out"]
    assert [name for name, node in graph.checked().operators.items() if node.stateful] == ["DSPFilter", "QRSDetector"]


def test_a_rate_at_which_beats_have_no_shape_is_refused() -> None:
    with pytest.raises(GraphError, match="between 100 and 10000 samples_per_s are wanted; got 30"):
        QRSDetector("qrs", value="x", samples_per_s=30.0)
