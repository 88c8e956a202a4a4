"""Operators that a user writes: what the base class promises them, and how it refuses what they do wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.operators.running import feed_of, graph_of, running, through, tuples

import spillway as sw
from spillway.errors import GraphError, InputError, StateError
from spillway.graph import Protection

VALUES = [tuples(0, value=[1.0, 2.0]), tuples(2, value=[6.0]), tuples(3, value=[3.0, 3.0, 3.0])]


class RunningMean(sw.Operator):
    """The example of the design, to the letter."""

    schema = sw.columns(mean=pa.float64())
    total = sw.Number(metric="l1")
    count = sw.Number(metric="l1")

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        self.total += pc.sum(batch["value"]).as_py()
        self.count += batch.num_rows
        yield self.out(mean=self.total / self.count)


class TestRunningMean:
    def test_every_batch_says_the_mean_so_far(self) -> None:
        out = through(RunningMean("mean"), batches=VALUES)
        assert out.to_pylist() == [{"seq": 1, "mean": 1.5}, {"seq": 2, "mean": 3.0}, {"seq": 5, "mean": 3.0}]

    @pytest.mark.parametrize("protect", [None, sw.Exact(), sw.Approximate(0.0), sw.Checkpoint(1)])
    def test_state_comes_back_after_memory_is_lost(self, protect: Protection | None) -> None:
        out = through(RunningMean("mean", protect=protect), batches=VALUES, wipe_before=[1, 2])
        assert out["mean"].to_pylist() == [1.5, 3.0, 3.0]

    def test_without_protection_it_starts_anew(self) -> None:
        out = through(RunningMean("mean", protect=sw.Nothing()), batches=VALUES, wipe_before=[1])
        assert out["mean"].to_pylist() == [1.5, 6.0, 15 / 4]

    def test_an_operator_with_state_is_exact_unless_it_says_otherwise(self) -> None:
        assert RunningMean("mean").protect == sw.Exact()
        assert sw.operators.Select("s", "v").protect == sw.Nothing()

    def test_divergence_is_the_sum_over_what_it_keeps(self) -> None:
        with running(graph_of(RunningMean("mean", protect=sw.Approximate(1e9)), batches=VALUES)) as run:
            run.run()
            assert run.shard("mean", 0).divergence() == 18.0 + 6.0  # nothing was backed up: total and count
            assert [row.divergence for row in run.records()] == [5.0, 12.0, 24.0]


class TestNumbersAsAttributes:
    def test_the_class_has_the_declaration(self) -> None:
        assert isinstance(RunningMean.total, sw.Number)

    def test_operators_of_one_class_keep_apart(self) -> None:
        out = through(RunningMean("a"), Pass("p"), RunningMean("b"), batches=VALUES)
        assert out["mean"].to_pylist() == [1.5, 2.25, 2.5]  # means of the means

    def test_there_is_no_number_outside_a_batch(self) -> None:
        operator = RunningMean("mean")
        with pytest.raises(StateError, match="A Number was used outside a batch"):
            operator.total += 1
        with pytest.raises(StateError, match="A Number was used outside a batch"):
            _ = operator.count

    def test_a_number_has_a_type(self) -> None:
        class Whole(sw.Operator):
            schema = sw.columns(n=pa.int64())
            n = sw.Number(dtype="int64")

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                self.n += 2**53 + 1
                yield self.out(n=self.n)

        assert through(Whole("w"), batches=VALUES[:2])["n"].to_pylist() == [2**53 + 1, 2**54 + 2]

    def test_subclasses_inherit_state(self) -> None:
        class Spread(RunningMean):
            schema = sw.columns(above_mean=pa.float64())
            most = sw.Number(metric="max")

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                self.total += pc.sum(batch["value"]).as_py()
                self.count += batch.num_rows
                self.most = max(self.most, pc.max(batch["value"]).as_py())
                yield self.out(above_mean=self.most - self.total / self.count)

        assert list(Spread("s").state()) == ["total", "count", "most"]
        assert through(Spread("s"), batches=VALUES)["above_mean"].to_pylist() == [0.5, 3.0, 3.0]


class Pass(sw.Operator):
    """Gives the means on as values."""

    schema = sw.columns(value=pa.float64())

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        yield self.out(seq=batch["seq"], value=batch["mean"])


class Seen(sw.Operator):
    """State declared on the instance, two ports out, something said once per batch, order kept."""

    outputs = ("out", "late")
    schema = sw.columns(k=pa.string(), n=pa.int64())

    def __init__(self, name: str, *, slots: int) -> None:
        super().__init__(name, key="k")
        self.keys = sw.KeySet(key="string")
        self.sums = sw.Vector(slots, dtype="int64")
        self.fresh = 0

    def begin(self) -> None:
        self.fresh = 0

    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
        assert (np.diff(np.asarray(batch["seq"])) > 0).all()
        new = self.keys.add(batch["k"])
        self.fresh += int(new.sum())
        self.sums.add(np.zeros(batch.num_rows, np.int64), np.asarray(batch["n"]))
        rows = batch.filter(pa.array(new))
        yield self.out(seq=rows["seq"], k=rows["k"], n=rows["n"])

    def finish(self) -> Iterator[sw.Out]:
        yield self.out("late", k="", n=self.fresh)


class TestTheBaseClass:
    def test_everything_at_once(self) -> None:
        batches = [tuples(0, k=["a", "b", "d"], n=[1, 2, 3]), tuples(3, k=["b", "c"], n=[4, 5])]
        operator = Seen("seen", slots=3)
        graph = sw.Graph("g", shards=1)
        out = graph.add(operator, graph.source("s", feed_of(batches)))
        graph.sink("out", out, sw.Memory())
        graph.sink("late", graph.output(operator, "late"), sw.Memory())
        with running(graph) as run:
            while run.step():
                run.wipe()
            assert run.result("out")["k"].to_pylist() == ["a", "b", "d", "c"]
            assert run.result("late").to_pylist() == [{"seq": 2, "k": "", "n": 3}, {"seq": 4, "k": "", "n": 1}]

    def test_seq_is_the_highest_of_the_batch_unless_given(self) -> None:
        class Ends(sw.Operator):
            schema = sw.columns(n=pa.int64())

            def finish(self) -> Iterator[sw.Out]:
                yield self.out(n=[1, 2])
                yield self.out(seq=7, n=3)

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                return iter(())

        assert through(Ends("e"), batches=VALUES[2:])["seq"].to_pylist() == [5, 5, 7]

    def test_process_may_return_nothing_at_all(self) -> None:
        class Silent(sw.Operator):
            schema = sw.columns(n=pa.int64())

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                return None  # type: ignore[return-value]

        assert through(Silent("s"), batches=VALUES).num_rows == 0

    def test_values_are_cast_to_what_was_declared(self) -> None:
        class Casts(sw.Operator):
            schema = sw.columns(a=pa.float64(), b=pa.string())

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                yield self.out(a=np.array([1, 2]), b=pa.chunked_array([["x"], ["y"]], pa.large_string()))

        assert through(Casts("c"), batches=VALUES[:1]).to_pylist() == [
            {"seq": 1, "a": 1.0, "b": "x"},
            {"seq": 1, "a": 2.0, "b": "y"},
        ]

    def test_an_operator_must_say_what_it_puts_out(self) -> None:
        class Mute(sw.Operator):
            pass

        with pytest.raises(GraphError) as refused:
            graph_of(Mute("m"), batches=VALUES).checked()
        assert str(refused.value) == (
            "Operator 'm': Mute does not say what it puts out. Give the class a schema, such as "
            "schema = sw.columns(mean=pa.float64())."
        )

    def test_an_operator_must_process(self) -> None:
        class Idle(sw.Operator):
            schema = sw.columns()

        with pytest.raises(GraphError, match=r"Operator 'i': Idle has no process\(\)\."):
            through(Idle("i"), batches=VALUES)


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize(
    ("put_out", "message"),
    [
        (
            lambda op: sw.Out("out", batch_of(mean=[1.0])),
            "Operator 'o' declared seq int64, mean double and put out mean double.",
        ),
        (
            lambda op: sw.Out("out", tuples(mean=[1])),
            "Operator 'o' declared seq int64, mean double and put out seq int64, mean int64.",
        ),
        (
            lambda op: sw.Out("out", tuples(mean=[1.0], more=[1])),
            "Operator 'o' declared seq int64, mean double and put out seq int64, mean double, more int64.",
        ),
        (
            lambda op: sw.Out("side", tuples(mean=[1.0])),
            "Operator 'o' declared no port 'side' and put out seq int64, mean double.",
        ),
    ],
)
def test_what_was_not_declared_is_refused(put_out: Callable[[sw.Operator], sw.Out], message: str) -> None:
    class Wrong(sw.Operator):
        schema = sw.columns(mean=pa.float64())

        def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
            yield put_out(self)

    with pytest.raises(InputError) as refused:
        through(Wrong("o"), batches=VALUES)
    assert str(refused.value).replace(" not null", "") == message


WORDS = [tuples(3 * i, word=[f"w{i % 2}", f"w{i % 3}", f"w{i}"]) for i in range(8)]


class TestPipelines:
    """Two operators with state, one after the other: two exchanges."""

    def histogram(
        self, batches: list[pa.RecordBatch], *, shards: int, wipe_before: tuple[int, ...] = ()
    ) -> dict[int, int]:
        """How often each number of occurrences was reached by some word."""
        by_word = sw.operators.Count("by-word", key="word", protect=sw.Exact())
        by_count = sw.operators.Count("by-count", key="count", count_as="words", protect=sw.Exact())
        out = through(
            by_word,
            sw.operators.Select("only", "count"),
            by_count,
            batches=batches,
            shards=shards,
            wipe_before=wipe_before,
        )
        return dict(zip(out["count"].to_pylist(), out["words"].to_pylist(), strict=True))

    def expected(self) -> dict[int, int]:
        counts: dict[str, int] = {}
        reached: dict[int, int] = {}
        for batch in WORDS:
            words = batch["word"].to_pylist()
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            for word in set(words):
                reached[counts[word]] = reached.get(counts[word], 0) + 1
        return reached

    @pytest.mark.parametrize("shards", [1, 2, 3])
    @pytest.mark.parametrize("wipe_before", [(), (1,), (2, 3, 7)])
    def test_counts_of_counts(self, shards: int, wipe_before: tuple[int, ...]) -> None:
        assert self.histogram(WORDS, shards=shards, wipe_before=wipe_before) == self.expected()

    def test_a_stream_that_passes_by_arrives_whole(self) -> None:
        graph = sw.Graph("g", shards=3)
        lines = graph.source("s", feed_of(WORDS))
        counts = graph.add(
            sw.operators.Count("c", key="word"), graph.add(sw.operators.Where("w", sw.field("word") != "w1"), lines)
        )
        graph.sink("out", counts, sw.Memory())
        graph.sink("raw", lines, sw.Memory())
        with running(graph) as run:
            run.run()
            assert sorted(run.result("raw")["seq"].to_pylist()) == list(range(24))
            assert "w1" not in run.result("out")["word"].to_pylist()


class TestSlipsOfThePen:
    """What the base class does for every operator."""

    def test_a_column_may_have_any_name(self) -> None:
        batch = tuples(port=["http"], bytes=[40])
        out = through(sw.operators.CountMin("c", key="port", value="bytes"), batches=[batch])
        assert out["bytes"].to_pylist() == [40]

    @pytest.mark.parametrize("values", [{"meen": 1.0}, {}, {"mean": [1.0, 2.0], "seq": [1]}])
    def test_out_names_the_operator_and_what_it_declared(self, values: dict[str, Any]) -> None:
        class Slip(sw.Operator):
            schema = sw.columns(mean=pa.float64())

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                yield self.out(**values)

        with pytest.raises(InputError, match="Operator 's'"):
            through(Slip("s"), batches=VALUES)

    def test_a_number_may_be_made_in_init(self) -> None:
        class Totals(sw.Operator):
            schema = sw.columns(n=pa.float64())

            def __init__(self, name: str) -> None:
                super().__init__(name)
                self.total = sw.Number()

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                self.total.write(self.total.read() + batch.num_rows)
                yield self.out(n=self.total.read())

        assert through(Totals("t"), batches=VALUES)["n"].to_pylist() == [2.0, 3.0, 6.0]

    def test_a_refused_schema_shows_how_it_differs(self) -> None:
        class Nullable(sw.Operator):
            schema = sw.columns(mean=pa.float64())

            def process(self, port: str, batch: pa.RecordBatch) -> Iterator[sw.Out]:
                yield sw.Out("out", batch_of(seq=[1], mean=[1.0]))

        with pytest.raises(InputError) as refused:
            through(Nullable("n"), batches=VALUES)
        declared, came = str(refused.value).split(" and put out ")
        assert declared.split(" declared ")[1] != came.removesuffix(".")
