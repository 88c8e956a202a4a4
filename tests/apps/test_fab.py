"""The yield model of a line: wafers that find their measurements, a model that learns, and real wafers."""

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.operators.running import running

import spillway as sw
from spillway.apps import APPS
from spillway.apps.wafers import WAFERS
from spillway.errors import InputError
from spillway.graph import Feed, Graph

APP = APPS["fab"]
NAMES = ["Line", "Readings", "Sensors", "Measurements", "Join", "SameWafer", "Model", "Predictions", "out"]


def wafers(**options: Any) -> Feed:
    return APP.generator(**{"seed": 3, "tuples": 2_400, "tuples_per_batch": 200, "sensors": 6, "lag": 20, **options})


def everything(feed: Feed) -> pa.Table:
    return pa.Table.from_batches([feed.read(piece) for piece in range(feed.pieces)], feed.schema)


def run(feed: Feed, *, wipe_before: Iterable[int] = (), **options: Any) -> pa.Table:
    return run_graph(APP.build(feed, **{"sensors": 6, "protect": sw.Nothing(), **options}), wipe_before=wipe_before)


def run_graph(graph: Graph, *, wipe_before: Iterable[int] = ()) -> pa.Table:
    with running(graph) as local:
        while True:
            if local.batch in wipe_before:
                local.wipe()
            if not local.step():
                return local.result("out")


def test_the_graph_is_the_one_drawn() -> None:
    graph = APP.build(wafers(), sensors=6)
    assert list(graph.nodes) == NAMES
    checked = graph.checked()
    assert (checked.shards_of("Join"), checked.shards_of("Model")) == (2, 1)


class TestWafers:
    def test_every_wafer_is_read_and_then_measured_lag_wafers_later(self) -> None:
        rows = everything(wafers()).to_pylist()
        read = {row["wafer"]: row for row in rows if row["kind"] == "reading"}
        measured = {row["wafer"]: row for row in rows if row["kind"] == "measurement"}
        assert [*read] == [*range(1_200)] and [*measured] == [*range(-20, 1_180)]
        for wafer in range(1_180):
            assert measured[wafer]["seq"] - read[wafer]["seq"] == 41
            assert measured[wafer]["place"] == read[wafer]["place"]
            assert read[wafer]["yield"] is None and len(read[wafer]["values"]) == 6
            assert measured[wafer]["values"] is None
        assert all(a["time"] <= b["time"] for a, b in pairwise(rows))

    def test_what_a_wafer_is_does_not_depend_on_lag_or_pieces(self) -> None:
        one, other = everything(wafers()).to_pylist(), everything(wafers(tuples_per_batch=77)).to_pylist()
        assert one == other

    def test_values_are_missing_as_often_as_said(self) -> None:
        values = [v for row in everything(wafers(missing=0.3)).to_pylist() for v in row["values"] or ()]
        assert len(values) == 7_200
        assert sum(v is None for v in values) / 7_200 == pytest.approx(0.3, abs=0.03)
        assert None not in [v for row in everything(wafers(missing=0.0)).to_pylist() for v in row["values"] or ()]

    def test_yields_follow_from_sensors_and_drift(self) -> None:
        """Without noise and drift the same weights explain all; with drift those of the beginning no longer do."""
        for drift, explained in ((0.0, True), (2.0, False)):
            feed = wafers(drift=drift, noise=0.0, missing=0.0, lag=0, tuples=6_000, period=6_000.0)
            rows = everything(feed).to_pylist()
            values = np.array([row["values"] for row in rows if row["values"]])
            yields = np.array([row["yield"] for row in rows if row["yield"] is not None])
            known = np.column_stack([np.ones(len(values)), values])
            weights = np.linalg.lstsq(known[:500], yields[:500], rcond=None)[0]
            off = abs(known[2_000:] @ weights - yields[2_000:]).mean()
            assert bool(off < 1e-6) is explained, off

    def test_a_wafer_keeps_its_place_until_it_is_measured(self) -> None:
        with pytest.raises(InputError, match=r"more than 20 places \(lag\) are wanted; got 20"):
            wafers(places=20)
        assert run(wafers(places=21)).equals(run(wafers(places=400)))


class TestPredictions:
    def test_each_measured_wafer_but_the_first_is_predicted_once(self) -> None:
        feed = wafers()
        out = run(feed)
        # The first was read before the stream began, the second is the first that the model hears of.
        assert out["wafer"].to_pylist() == [*range(1, 1_180)]
        yields = {row["wafer"]: row["yield"] for row in everything(feed).to_pylist() if row["yield"] is not None}
        assert out["actual"].to_pylist() == [yields[wafer] for wafer in out["wafer"].to_pylist()]

    def test_sensors_tell_more_than_the_mean(self) -> None:
        out = run(wafers(noise=1.0))
        late = slice(400, None)
        errors, actual = out["error"].to_numpy()[late], out["actual"].to_numpy()[late]
        assert errors.tolist() == abs(out["predicted"].to_numpy()[late] - actual).tolist()
        assert np.sqrt((errors**2).mean()) < 0.5 * actual.std()

    def test_batches_and_shards_make_no_difference(self) -> None:
        wanted = run(wafers())
        assert run(wafers(tuples_per_batch=34), shards=5).equals(wanted)
        assert run(wafers(), protect=sw.Exact(), wipe_before=(3, 7)).equals(wanted)

    def test_a_model_without_memory_predicts_worse(self) -> None:
        golden, wiped = run(wafers(noise=0.5)), run(wafers(noise=0.5), wipe_before=(8,))
        after = 800  # those that waited in the join are lost too
        worse = [
            np.sqrt((np.array([e for w, e in zip(*columns, strict=True) if after < w <= after + 25]) ** 2).mean())
            for columns in ([t["wafer"].to_pylist(), t["error"].to_pylist()] for t in (golden, wiped))
        ]
        assert worse[1] > 1.2 * worse[0]

    def test_too_few_sensors_are_said(self) -> None:
        with pytest.raises(InputError, match=r"wants values of 7 sensors; that of seq 0 has 6\. Set sensors"):
            run(wafers(), sensors=7)


class TestFiles:
    def write_secom(self, folder: Path, *, labels: str = "-1,1,-1,-1") -> Path:
        folder.mkdir()
        (folder / "secom.data").write_text("1.5 NaN 3\n2.5 7 3\nNaN 8 3\n4 9 3.5\n")
        stamps = ["19/07/2008 11:55:00", "19/07/2008 12:05:00", "20/07/2008 11:55:00", "20/07/2008 11:56:00"]
        lines = [f'{label} "{stamp}"\n' for label, stamp in zip(labels.split(","), stamps, strict=False)]
        (folder / "secom_labels.data").write_text("".join(lines))
        return folder

    def test_secom_is_a_line(self, tmp_path: Path) -> None:
        feed = APP.reader(self.write_secom(tmp_path / "secom"), tuples_per_batch=6, lag=1)
        rows = everything(feed).to_pylist()
        assert [(row["seq"], row["kind"][0], row["wafer"]) for row in rows] == [
            (0, "r", 0), (2, "r", 1), (3, "m", 0), (4, "r", 2), (5, "m", 1), (6, "r", 3), (7, "m", 2), (9, "m", 3),
        ]  # fmt: skip
        assert [row["values"] for row in rows if row["values"]] == [
            [1.5, None, 3.0], [2.5, 7.0, 3.0], [None, 8.0, 3.0], [4.0, 9.0, 3.5]
        ]  # fmt: skip
        assert [row["yield"] for row in rows if row["yield"] is not None] == [100.0, 0.0, 100.0, 100.0]
        assert [row["time"] for row in rows] == [0.0, 600.0, 600.0, 86400.0, 86400.0, 86460.0, 86460.0, 86460.0]
        assert feed.pieces_per_batch == 2 and feed.schema == WAFERS

    @pytest.mark.parametrize(
        ("labels", "message"), [("-1,1,-1", "for each of 4 wafers is wanted; there are 3"), ("-1,1,-1,0", "-1 or 1")]
    )
    def test_labels_that_do_not_fit(self, tmp_path: Path, labels: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            APP.reader(self.write_secom(tmp_path / "secom", labels=labels), tuples_per_batch=6)

    def test_files_that_are_none(self, tmp_path: Path) -> None:
        folder = self.write_secom(tmp_path / "secom")
        (folder / "secom.data").write_text("a b\nc d\n")
        with pytest.raises(InputError, match="no files of the SECOM set"):
            APP.reader(folder, tuples_per_batch=6)

    def test_what_was_generated_can_be_written_and_read(self, tmp_path: Path) -> None:
        made = wafers(tuples=300)
        pq.write_table(everything(made), tmp_path / "x.parquet")
        assert everything(APP.reader(tmp_path / "x.parquet", tuples_per_batch=40)).equals(everything(made))

    def test_columns_and_values_are_wanted(self, tmp_path: Path) -> None:
        whole = everything(wafers(tuples=10))
        pq.write_table(whole.drop_columns(["place"]), tmp_path / "less.parquet")
        with pytest.raises(InputError, match="place not found among"):
            APP.reader(tmp_path / "less.parquet", tuples_per_batch=4)
        nulls = whole.set_column(3, "place", pa.array([None] * 10, pa.int64()))
        pq.write_table(nulls, tmp_path / "null.parquet")
        with pytest.raises(InputError, match="column 'place' must not be null"):
            APP.reader(tmp_path / "null.parquet", tuples_per_batch=4).read(0)
        words = whole.set_column(4, "time", pa.array(["now"] * 10))
        pq.write_table(words, tmp_path / "words.parquet")
        with pytest.raises(InputError, match="a column does not fit"):
            APP.reader(tmp_path / "words.parquet", tuples_per_batch=4).read(0)


REAL = Path(os.environ.get("SPILLWAY_REAL_DATA", ""), "secom")


@pytest.mark.skipif(not REAL.is_dir() or "SPILLWAY_REAL_DATA" not in os.environ, reason="there is no real data here")
def test_real_wafers_that_failed_are_predicted_below_those_that_passed() -> None:
    out = run(APP.reader(REAL, tuples_per_batch=400), sensors=60, ridge=100.0)
    assert out["wafer"].to_pylist() == [*range(1, 1_567)]
    predicted, actual = (out[name].to_numpy()[300:] for name in ("predicted", "actual"))
    failed, passed = predicted[actual == 0.0], predicted[actual == 100.0]
    assert len(failed) > 50
    assert (failed[:, None] < passed).mean() > 0.53  # how often a failed one is below a passed one; 0.5 is chance
