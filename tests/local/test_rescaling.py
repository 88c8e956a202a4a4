"""A stopped graph goes on with another number of shards: the same answers, the same promises, or a refusal in words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.local.rescaling import BATCHES, Make, Stopped, pieces, rows_of
from tests.operators.running import feed_of
from tests.state.crash_film import scratch

import spillway as sw
from spillway.backup.division import NAME
from spillway.backup.reach import Reach
from spillway.errors import StateError
from spillway.graph.graph import Graph
from spillway.operators.ripple_join import RippleJoin

CHANGES = [(2, 3), (3, 2), (4, 1), (1, 4)]
STOP = 3


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory, where making things durable costs nothing."""
    with scratch() as made:
        yield made


def single(make: Any, *, port: str = "out") -> Make:
    """A graph of one operator."""

    def graph_of(shards: int, protect: sw.Protection) -> Graph:
        graph = sw.Graph("g", shards=shards)
        source = graph.source("in", feed_of(pieces()))
        graph.sink("out", graph.add(make(protect), source), sw.Memory())
        return graph

    return graph_of


def paired(make: Any) -> Make:
    """A graph of one operator that reads the same tuples on both of its ports."""

    def graph_of(shards: int, protect: sw.Protection) -> Graph:
        graph = sw.Graph("g", shards=shards)
        source = graph.source("in", feed_of(pieces()))
        graph.sink("out", graph.add(make(protect), source, source), sw.Memory())
        return graph

    return graph_of


def chained(shards: int, protect: sw.Protection) -> Graph:
    """Several operators with state, one after the other and side by side."""
    graph = sw.Graph("g", shards=shards)
    source = graph.source("in", feed_of(pieces()))
    words = graph.add(sw.operators.Count("words", key="word", protect=protect), source)
    numbers = sw.operators.Count("sums", key="number", value="value", protect=protect)
    graph.sink("numbers", graph.add(numbers, source), sw.Discard())
    graph.sink(
        "out", graph.add(sw.operators.Count("again", key="word", value="count", protect=protect), words), sw.Memory()
    )
    return graph


count = sw.operators.Count
GRAPHS: dict[str, Make] = {
    "words": single(lambda protect: count("o", key="word", protect=protect)),
    "integers": single(lambda protect: count("o", key="number", value="value", protect=protect)),
    "hopping": single(lambda protect: count("o", key="word", protect=protect, window=sw.Hopping(count=100))),
    "several": chained,
    "rings": single(
        lambda protect: sw.operators.SlidingAggregate("o", key="word", sums={"sum": "value"}, size=3, protect=protect)
    ),
    "latest": paired(
        lambda protect: sw.operators.LatestJoin("o", key="word", value="value", value_as="v", protect=protect)
    ),
    "join": paired(
        lambda protect: sw.operators.WindowJoin(
            "o", key="number", left=["value"], right=["value"], size=2, protect=protect
        )
    ),
    "barrier": paired(
        lambda protect: sw.operators.Barrier("o", key="word", left=["value"], right=["value"], protect=protect)
    ),
}


def stopped(tmp_path: Path, make: Make, protect: sw.Protection | None = None) -> Stopped:
    return Stopped(folder=tmp_path / "run", make=make, protect=protect or sw.Exact())


def undisturbed(tmp_path: Path, make: Make, shards: int, protect: sw.Protection | None = None) -> list[Any]:
    """What the batches after the stop put out if there always were so many shards."""
    never = Stopped(folder=tmp_path / "never", make=make, protect=protect or sw.Exact())
    never.go(shards, batch=0, batches=STOP)
    return never.go(shards, batch=STOP, batches=BATCHES - STOP)


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.decimal128(38, 0), pa.binary()], ids=str)
def test_keys_of_any_type_go_to_their_shard(tmp_path: Path, kind: pa.DataType) -> None:
    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = batch["number"].cast(pa.string()) if kind == pa.binary() else batch["number"]
        return batch.set_column(batch.schema.get_field_index("number"), "number", keys.cast(kind))

    def make(shards: int, protect: sw.Protection) -> Graph:
        graph = sw.Graph("g", shards=shards)
        source = graph.source("in", feed_of(pieces()))
        keyed = graph.add(sw.operators.Apply("cast", cast, schema=cast(pieces()[0]).schema), source)
        graph.sink("out", graph.add(count("o", key="number", value="value", protect=protect), keyed), sw.Memory())
        return graph

    run = stopped(tmp_path, make)
    run.go(2, batch=0, batches=STOP)
    found = run.go(3, batch=STOP, batches=BATCHES - STOP, rescale=True)
    assert found == undisturbed(tmp_path, make, 3)


@pytest.mark.parametrize(("was", "now"), CHANGES)
@pytest.mark.parametrize("name", GRAPHS)
def test_answers_are_those_of_a_run_that_always_had_so_many(tmp_path: Path, name: str, was: int, now: int) -> None:
    run = stopped(tmp_path, GRAPHS[name])
    run.go(was, batch=0, batches=STOP)
    found = run.go(now, batch=STOP, batches=BATCHES - STOP, rescale=True)
    assert found == undisturbed(tmp_path, GRAPHS[name], now)


@pytest.mark.parametrize(("was", "now"), CHANGES)
@pytest.mark.parametrize("protect", [sw.Exact(), sw.UpstreamBackup(every=1000)], ids=lambda p: type(p).__name__)
def test_so_they_are_if_memory_is_gone_and_nothing_may_be_lost(
    tmp_path: Path, protect: sw.Protection, was: int, now: int
) -> None:
    """Items since the last backup are those of the old shards, and applied before they are divided."""
    run = stopped(tmp_path, GRAPHS["words"], protect)
    run.go(was, batch=0, batches=STOP, wipe=True)
    with run.open(now, batch=STOP, rescale=True) as opened:
        (change,) = opened.rescaled
        assert (change.was, change.now, change.batch, change.lost) == (was, now, STOP, tuple(range(was)))
        assert change.loss_max == 0
        opened.run()
        assert rows_of(opened.result("out")) == undisturbed(tmp_path, GRAPHS["words"], now, protect)
        assert not any(row.recovered for row in opened.records())


@pytest.mark.parametrize("protect", [sw.Nothing(), sw.Checkpoint(every=10**9)], ids=lambda p: type(p).__name__)
def test_memory_is_enough(tmp_path: Path, protect: sw.Protection) -> None:
    run = stopped(tmp_path, GRAPHS["words"], protect)
    run.go(2, batch=0, batches=STOP)
    found = run.go(3, batch=STOP, batches=BATCHES - STOP, rescale=True)
    assert found == undisturbed(tmp_path, GRAPHS["words"], 3)


def test_a_fresh_whole_backup_is_what_a_loss_goes_back_to(tmp_path: Path) -> None:
    """Nothing came between the change and the loss, so nothing is missing, whatever theta allows."""
    protect = sw.Approximate(theta=1e9)
    run = stopped(tmp_path, GRAPHS["words"], protect)
    run.go(2, batch=0, batches=STOP)
    run.go(3, batch=STOP, batches=0, wipe=True, rescale=True)
    assert run.go(3, batch=STOP, batches=BATCHES - STOP) == undisturbed(tmp_path, GRAPHS["words"], 3)


def test_there_and_back_again(tmp_path: Path) -> None:
    run = stopped(tmp_path, GRAPHS["hopping"])
    found = []
    for batch, shards in enumerate([2, 3, 1, 4, 4, 2]):
        found += run.go(shards, batch=batch, batches=1, rescale=True)
    never = Stopped(folder=tmp_path / "never", make=GRAPHS["hopping"])
    # The number a count is put out under is the highest of its shard in the batch.
    assert sorted(row[1:] for row in found) == sorted(row[1:] for row in never.go(2, batch=0, batches=BATCHES))


def test_nothing_of_the_old_division_is_left(tmp_path: Path) -> None:
    run = stopped(tmp_path, GRAPHS["words"], sw.UpstreamBackup(every=1000))
    run.go(4, batch=0, batches=STOP)
    run.go(2, batch=STOP, batches=1, rescale=True)
    backups = run.folder / "backups" / "g" / "o"
    assert {path.parent.name for path in backups.rglob("*.*") if path.name != NAME} == {
        "0000-of-0002", "0001-of-0002", "items-0000", "items-0001",
    }  # fmt: skip
    assert sorted(path.name for path in (run.folder / "state/g/o").iterdir() if path.is_dir()) == ["0000", "0001"]
    assert not (run.folder / "state" / ".rescaling").exists()
    reach = Reach.beside(str(run.folder / "checkpoint"))
    assert [reach.of("o", shard).backups for shard in range(4)] == [(STOP - 1,), (STOP - 1,), (), ()]


class TestSums:
    """Numbers that add up over shards: whole shards are put together."""

    make = staticmethod(
        single(lambda protect: sw.operators.CountMin("o", key="word", value="value", rows=2, width=64, protect=protect))
    )

    @pytest.mark.parametrize(("was", "now"), [(4, 1), (4, 2), (6, 3)])
    def test_are_those_of_a_run_that_always_had_so_many(self, tmp_path: Path, was: int, now: int) -> None:
        run = stopped(tmp_path, self.make)
        run.go(was, batch=0, batches=STOP)
        found = run.go(now, batch=STOP, batches=BATCHES - STOP, rescale=True)
        assert found == undisturbed(tmp_path, self.make, now)

    @pytest.mark.parametrize(("was", "now", "fitting"), [(4, 3, "1 or 2"), (2, 4, "1")])
    def test_cannot_be_divided(self, tmp_path: Path, was: int, now: int, fitting: str) -> None:
        run = stopped(tmp_path, self.make)
        run.go(was, batch=0, batches=STOP)
        with pytest.raises(StateError) as refused:
            run.open(now, batch=STOP, rescale=True)
        assert str(refused.value).startswith(
            f"Operator 'o' had {was} shards and is to have {now}, but its state 'sketch' adds up over shards and "
            f"cannot be divided: it can be put together into {fitting}. Run it with {was} shards, or start anew"
        )
        assert run.go(was, batch=STOP, batches=BATCHES - STOP) == undisturbed(tmp_path, self.make, was)

    def test_that_lost_too_much_are_not_added_up(self, tmp_path: Path) -> None:
        run = stopped(tmp_path, self.make, sw.Approximate(theta=50))
        for batch in range(STOP):
            run.go(4, batch=batch, batches=1, wipe=True)
        with pytest.raises(StateError, match="what is added up could be off by more than Approximate"):
            run.open(2, batch=STOP, rescale=True)


def test_samples_are_divided_by_the_hash_they_are_kept_by(tmp_path: Path) -> None:
    def make(shards: int, protect: sw.Protection) -> Graph:
        graph = sw.Graph("g", shards=shards)
        source = graph.source("in", feed_of(pieces(keys=4)))
        joined = graph.add(RippleJoin("o", key=["word", "number"], rate=0.5, protect=protect), source, source)
        graph.sink("out", graph.add(sw.operators.ripple_join.SumEstimates("sum"), joined), sw.Memory())
        return graph

    run = stopped(tmp_path, make)
    run.go(2, batch=0, batches=STOP)
    found = run.go(3, batch=STOP, batches=BATCHES - STOP, rescale=True)
    # Floating-point sums are taken in the order of shards.
    assert np.allclose(np.array(found), np.array(undisturbed(tmp_path, make, 3)), rtol=1e-12)


class Own(sw.Operator):
    """A user's own operator, which says nothing of other numbers of shards."""

    schema = sw.columns(word=pa.string(), most=pa.int64())
    most = sw.HashTable(key="string", metric="max")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        keys = batch["word"].unique()
        self.most.add(keys, 1)
        yield self.out(word=keys, most=self.most.get(keys))


class OfOtherKeys(Own):
    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.most.add(pa.array([str(value) for value in batch["value"].to_pylist()]), 1)
        yield from ()


class Declared(Own):
    state_by_key = ("most",)


class Totals(Own):
    total = sw.Number()


class TestAnOperatorOfOnesOwn:
    def test_is_divided_if_its_keys_prove_it(self, tmp_path: Path) -> None:
        make = single(lambda protect: Own("o", key="word", protect=protect))
        run = stopped(tmp_path, make)
        run.go(3, batch=0, batches=STOP)
        found = run.go(2, batch=STOP, batches=BATCHES - STOP, rescale=True)
        assert found == undisturbed(tmp_path, make, 2)

    @pytest.mark.parametrize(
        ("kind", "was", "why"),
        [
            (OfOtherKeys, 3, "its state 'most' has keys that are not the key its tuples are divided by"),
            (Own, 1, "nothing says that the keys of its state 'most' are the key its tuples are divided by"),
            (Totals, 3, "nobody said what becomes of its state 'total', Number(1,float64,l1)"),
        ],
    )
    def test_is_refused_otherwise(self, tmp_path: Path, kind: type[sw.Operator], was: int, why: str) -> None:
        make = single(lambda protect: kind("o", key="word", protect=protect))
        run = stopped(tmp_path, make)
        run.go(was, batch=0, batches=STOP)
        with pytest.raises(StateError) as refused:
            run.open(2, batch=STOP, rescale=True)
        assert f"Operator 'o' had {was} shards and is to have 2, but {why}" in str(refused.value)
        assert run.go(was, batch=STOP, batches=BATCHES - STOP) == undisturbed(tmp_path, make, was)

    def test_may_say_so(self, tmp_path: Path) -> None:
        make = single(lambda protect: Declared("o", key="word", protect=protect))
        run = stopped(tmp_path, make)
        run.go(1, batch=0, batches=STOP)
        assert run.go(2, batch=STOP, batches=BATCHES - STOP, rescale=True) == undisturbed(tmp_path, make, 2)

    def test_whose_tuples_are_shared_out_by_number_is_refused(self, tmp_path: Path) -> None:
        def make(shards: int, protect: sw.Protection) -> Graph:
            graph = sw.Graph("g")
            own = Own("o", shards=shards, protect=protect)
            graph.sink("out", graph.add(own, graph.source("in", feed_of(pieces()))), sw.Memory())
            return graph

        run = stopped(tmp_path, make)
        run.go(2, batch=0, batches=STOP)
        with pytest.raises(StateError, match="its tuples are shared out by number, and its state 'most' by one key"):
            run.open(1, batch=STOP, rescale=True)


def test_nothing_is_divided_unasked(tmp_path: Path) -> None:
    run = stopped(tmp_path, GRAPHS["words"])
    run.go(2, batch=0, batches=STOP)
    with pytest.raises(StateError, match=r"has 3 now\. Say rescale=True \(--rescale\) to have its state divided anew"):
        run.open(3, batch=STOP)


def test_only_the_number_may_be_another(tmp_path: Path) -> None:
    run = stopped(tmp_path, GRAPHS["words"])
    run.go(2, batch=0, batches=STOP)
    other = Stopped(
        folder=run.folder, make=single(lambda protect: count("o", key="word", value="value", protect=protect))
    )
    with pytest.raises(StateError, match="written: value was none and is 'value'"):
        other.open(3, batch=STOP, rescale=True)


def test_a_run_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    run = stopped(tmp_path, GRAPHS["words"])
    run.go(2, batch=0, batches=STOP)
    with run.open(2, batch=STOP, rescale=True) as opened:
        assert opened.rescaled == ()


class Hearing(sw.Operator):
    """Counts by word what it hears of in the batch after."""

    feedback_inputs = ("back",)
    schema = sw.columns(word=pa.string(), heard=pa.int64())
    state_by_key = ("own",)
    own = sw.HashTable(key="string")

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._heard = 0

    def begin(self) -> None:
        self._heard = 0

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        if port == "back":
            self._heard += sum(batch["count"].to_pylist())
            return
        self.own.add(batch["word"], 1)
        yield self.out(word=batch["word"], heard=np.full(batch.num_rows, self._heard))


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("was", "now"), [(2, 3), (3, 2)])
def test_feedback_of_the_last_batch_is_heard_whole(tmp_path: Path, was: int, now: int, durable: bool) -> None:
    def make(shards: int, protect: sw.Protection) -> Graph:
        graph = sw.Graph("g", shards=shards)
        heard = graph.add(Hearing("hearing", key="word", protect=protect), graph.source("in", feed_of(pieces())))
        counted = graph.add(count("counting", key="word", protect=protect), heard)
        graph.connect(counted, "hearing", "back", feedback=True, durable=durable)
        graph.sink("out", heard, sw.Memory())
        return graph

    run = stopped(tmp_path, make)
    run.go(was, batch=0, batches=STOP, wipe=durable)
    with run.open(now, batch=STOP, rescale=True) as opened:
        opened.run()
        # Tuples of one batch are put out under the numbers they came with, so nothing depends on shards here.
        assert rows_of(opened.result("out")) == undisturbed(tmp_path, make, now)
        assert {row.feedback_lost for row in opened.records()} == {0}


def test_failures_in_a_sliding_window_are_forgotten_as_before(tmp_path: Path) -> None:
    """A shard that lost memory makes all new ones careful, until its failure lies before the window."""
    protect = sw.Approximate(theta=1000)
    make = single(lambda protect: count("o", key="word", metric="l1", protect=protect, window=sw.Sliding(count=60)))
    run = stopped(tmp_path, make, protect)
    run.go(2, batch=0, batches=1, wipe=True)
    run.go(2, batch=1, batches=1)
    with run.open(4, batch=2, rescale=True) as opened:
        (change,) = opened.rescaled
        assert change.failures == 1 and not change.lost
        opened.run()
        thresholds = [{row.threshold for row in opened.records() if row.batch == batch} for batch in range(2, BATCHES)]
    # Batches have 40 numbers each: the failure, felt from 79 on, lies before the window that ends at 159.
    assert thresholds[0] == {62.5} and thresholds[-1] == {125.0}
