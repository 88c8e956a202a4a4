"""Profiles: measured on a run, kept in a file, made into a flow."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.files.full_disk import files_no_larger_than
from tests.model.simulating import chain, found, simulated

from spillway.graph import Generator, Graph, Memory, Nothing
from spillway.model import CheckpointState, Faults, Flow
from spillway.model.from_graph import coarse, flow_of, net_of
from spillway.model.kinds import aggregate, functor, sink, source
from spillway.model.measuring import measure_profile
from spillway.model.profile import (
    OperatorProfile,
    PortProfile,
    Profile,
    SourceProfile,
    load_profile,
)
from spillway.operators import Where
from spillway.operators.operator import Operator, Out, columns
from spillway.operators.stateless import field
from spillway.san import ModelError
from spillway.state.primitives import Number

SCHEMA = columns(value=pa.int64())


class Tally(Operator):
    """Keeps a sum; says nothing of tuples and once per batch the sum so far."""

    schema = columns(sum=pa.int64())
    sum = Number(metric="l1")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self.sum += batch.num_rows
        return iter(())

    def finish(self) -> Iterator[Out]:
        yield self.out(sum=int(self.sum))


def graph(*, batches: int = 5) -> Graph:
    """A quarter of 400 tuples a batch is kept and counted."""

    def make(piece: int) -> pa.RecordBatch:
        numbers = range(piece * 400, piece * 400 + 400)
        return pa.RecordBatch.from_pydict({"seq": list(numbers), "value": [n % 4 for n in numbers]}, schema=SCHEMA)

    drawn = Graph("tally")
    numbers = drawn.source("numbers", Generator(make=make, schema=SCHEMA, pieces=batches))
    kept = drawn.add(Where("kept", field("value") == 0), numbers)
    drawn.sink("out", drawn.add(Tally("tally", protect=Nothing()), kept), Memory())
    return drawn


def told() -> Profile:
    return Profile(
        graph="tally",
        sources={"numbers": SourceProfile(tuples_per_s=100.0)},
        operators={
            "kept": OperatorProfile(ports={"in": PortProfile(cost_s=1e-6, selectivity={"out": 0.25})}),
            "tally": OperatorProfile(
                ports={"in": PortProfile(cost_s=2e-6, selectivity={"out": 0.01}, state_tuples=50, tuples=7)},
                state_bytes=8,
            ),
        },
    )


def test_a_run_is_measured_without_touching_the_graph() -> None:
    drawn = graph()
    profile = measure_profile(drawn, batches_skipped=1)
    kept, tally = profile.operators["kept"].ports["in"], profile.operators["tally"].ports["in"]
    assert kept.tuples == 4 * 400  # the first batch is not measured
    assert kept.selectivity == {"out": 0.25}
    assert tally.tuples == 4 * 100
    assert tally.selectivity == {"out": 4 / 400}  # once per batch
    assert kept.state_tuples == 0
    assert 1 <= tally.state_tuples <= 400
    assert profile.operators["tally"].state_bytes > 0
    assert 0 < kept.cost_s < 1e-2
    assert profile.sources["numbers"].tuples_per_s > 0
    assert "opened" not in vars(drawn.nodes["kept"])


def test_too_little_input_is_refused() -> None:
    with pytest.raises(ModelError, match="batches"):
        measure_profile(graph(batches=1))


def test_a_profile_reads_back_as_it_was_written(tmp_path: Path) -> None:
    told().save(tmp_path / "profile.json")
    assert load_profile(tmp_path / "profile.json") == told()
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda p: p.update(format=2), "format"),
        (lambda p: p.pop("graph"), "graph"),
        (lambda p: p.update(extra=1), "extra"),
        (lambda p: p.update(operators=[]), "operators"),
        (lambda p: p["sources"]["numbers"].update(tuples_per_s=0), "tuples_per_s"),
        (lambda p: p["sources"]["numbers"].update(tuples_per_s="fast"), "tuples_per_s"),
        (lambda p: p["operators"]["kept"]["ports"]["in"].update(cost_s=-1), "'kept', port 'in'"),
        (lambda p: p["operators"]["kept"]["ports"]["in"].update(selectivity={"out": -0.5}), "selectivity"),
        (lambda p: p["operators"]["tally"]["ports"]["in"].update(state_tuples=1.5), "state_tuples"),
        (lambda p: p["operators"]["tally"].update(state_bytes=True), "state_bytes"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_its_field(tmp_path: Path, change: object, names: str) -> None:
    path = tmp_path / "profile.json"
    told().save(path)
    given = json.loads(path.read_text())
    assert callable(change)
    change(given)
    path.write_text(json.dumps(given))
    with pytest.raises(ModelError, match=names):
        load_profile(path)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b'{"format": 1}'])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="Profile"):
        load_profile(path)


def test_a_full_disk_leaves_the_profile_that_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    told().save(tmp_path / "profile.json")
    before = (tmp_path / "profile.json").read_bytes()
    with files_no_larger_than(10), pytest.raises(ModelError, match="cannot be written"):
        told().save(tmp_path / "profile.json")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"profile.json": before}


def test_a_missing_file_and_a_missing_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        load_profile(tmp_path / "nothing.json")
    with pytest.raises(ModelError, match="cannot be written"):
        told().save(tmp_path / "nowhere" / "profile.json")


def test_a_graph_and_its_profile_make_a_net() -> None:
    checked = graph().checked()
    flow = flow_of(checked, told())
    assert [operator.name for operator in flow.operators] == ["numbers", "kept", "tally", "out"]
    assert flow.per_arrival[flow.index("tally")] == (0.25,)
    assert flow.per_arrival[flow.index("out")] == pytest.approx((0.0025,))
    stream = net_of(checked, told(), CheckpointState(age_s=1.0), Faults(crash_once={"tally": 10.0}, recovery_s=2.0))
    out = simulated(stream, horizon_s=100.0, count=20)
    assert out["lost"].mean == pytest.approx(50, abs=10)
    # All of its 50 tuples' worth of state settles at 25 tuples/s.
    assert out["availability"].mean == pytest.approx(1 - (2.0 + 2.0) / 100, abs=0.003)


def test_state_that_no_tuple_reached_is_left_out() -> None:
    """Where nothing came in the measured run, nothing can settle either."""
    silent = {"kept": OperatorProfile(ports={"in": PortProfile(cost_s=1e-6)}), "tally": told().operators["tally"]}
    flow = flow_of(graph().checked(), Profile(graph="tally", sources=told().sources, operators=silent))
    assert not flow.operators[flow.index("tally")].stateful


def test_a_busy_graph_is_hastened_and_its_processors_are_counted_at_their_true_cost() -> None:
    """At 300,000 tuples/s the two operators take half a processor together: journeys overlap, and still jumps work."""
    stream = net_of(graph().checked(), told(), CheckpointState(), Faults(crash_rate=1e-3), tuples_per_s=300_000.0)
    assert stream.building.haste > 1
    out = simulated(stream, horizon_s=3600.0, count=5)
    assert out.skipped > 0.99 * 5 * 3600 * 300_000
    expected = 300_000 * (1e-7 + 1e-6 + 0.25 * 2e-6 + 0.0025 * 1e-7)
    assert out["processor_s"].mean == pytest.approx(expected, rel=0.02)


def test_behind_a_thin_stream_tokens_of_several_tuples_give_the_same_means() -> None:
    """One tuple in 200 reaches a state of 40; in tokens of ten tuples only how finely one looks changes."""
    fine = Flow(
        name="thin",
        operators=(
            source("source", cost_s=1e-6),
            functor("filter", cost_s=1e-6, selectivity=0.005),
            aggregate("aggregate", cost_s=1e-6, state_tuples=40),
            sink("sink", cost_s=1e-6),
        ),
        streams=(
            ("source", "out", "filter", "in"),
            ("filter", "out", "aggregate", "in"),
            ("aggregate", "out", "sink", "in"),
        ),
        rates={"source": 2000.0},
    )
    lumped = coarse(fine)
    assert [operator.ports[0].weight for operator in lumped.operators] == [10, 10, 1, 1]
    assert lumped.tuples_per_s == pytest.approx(2000.0)
    assert coarse(chain()) == chain()  # no stream of it is thin
    faults = Faults(crash_once={"filter": 20.0, "source": 60.0}, recovery_s=5.0)
    one = found(fine, CheckpointState(), faults, horizon_s=100.0, count=200)
    other = found(lumped, CheckpointState(), faults, horizon_s=100.0, count=200)
    full = found(lumped, CheckpointState(), faults, horizon_s=100.0, count=5, skip=False)
    for name in ("availability", "output", "lost", "processor_s", "tainted"):
        assert other[name].mean == pytest.approx(one[name].mean, rel=0.03), name
        assert full[name].mean == pytest.approx(one[name].mean, rel=0.1), name


@pytest.mark.parametrize(
    ("profile", "rate", "names"),
    [
        (Profile(graph="other", sources={}, operators={}), None, "other"),
        (Profile(graph="tally", sources={}, operators=told().operators), None, "source 'numbers'"),
        (Profile(graph="tally", sources=told().sources, operators={}), None, "operator 'kept'"),
        (
            Profile(
                graph="tally",
                sources=told().sources,
                operators={**told().operators, "more": OperatorProfile(ports={})},
            ),
            None,
            "operator 'more'",
        ),
        (
            Profile(
                graph="tally",
                sources=told().sources,
                operators={**told().operators, "kept": OperatorProfile(ports={})},
            ),
            None,
            "port 'in'",
        ),
        (told(), 2e6, "'kept' would need"),
    ],
)
def test_a_profile_that_does_not_fit_the_graph_is_refused(profile: Profile, rate: float | None, names: str) -> None:
    with pytest.raises(ModelError, match=names):
        flow_of(graph().checked(), profile, tuples_per_s=rate)
