"""What is added up, when, and how it is shown that nothing was missed; no Spark needed."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.operators.running import feed_of, tuples

import spillway as sw
from spillway.engine import added_numbers
from spillway.engine.added_numbers import (
    SAMPLE_MAX,
    AddedPart,
    Look,
    Whole,
    fingerprint,
    keys_in,
    shown,
    told,
    without_gaps,
)
from spillway.engine.adding import ADDING_RULE, AddingPlan, Choosing, adding_plan
from spillway.engine.kernels import kernels
from spillway.errors import GraphError, InputError
from spillway.graph.nodes import Edge, Stream
from spillway.operators import Count, CountMin, Where
from spillway.operators.adding import Added, AddingUp
from spillway.operators.hashing import key_hashes
from spillway.operators.operator import Operator
from spillway.records.ranges import SourceRange

COLUMNS = {"n": "bigint", "word": "string", "port": "int", "bytes": "bigint", "f": "double"}


class Type:
    def __init__(self, name: str) -> None:
        self._name = name

    def simpleString(self) -> str:  # noqa: N802
        return self._name


@dataclass
class Column:
    name: str
    dataType: Type  # noqa: N815


class Frame:
    """A streaming DataFrame, as far as a graph looks at it."""

    isStreaming = True  # noqa: N815

    @property
    def schema(self) -> Any:
        return type("Schema", (), {"fields": [Column(name, Type(kind)) for name, kind in COLUMNS.items()]})


def plan_for(*operators: Operator, source: Any = None, shards: int = 2) -> AddingPlan | None:
    """The plan of a graph of one source and the operators, each of which reads it."""
    graph = sw.Graph("g", shards=shards)
    stream = graph.source("in", source or Frame(), seq="n" if source is None else "seq")
    for operator in operators:
        graph.sink(f"{operator.name}_out", graph.add(operator, stream), sw.Discard())
    return plan_of(graph)


def plan_of(graph: sw.Graph) -> AddingPlan | None:
    checked = graph.checked()
    return adding_plan(checked, kernels(checked, backups="anywhere"))


def count(**options: Any) -> Count:
    return Count("c", key="word", **{"protect": sw.Nothing(), **options})


class Doubled(Count):
    """Another process than the one that Count speaks for."""

    def process(self, port: str, batch: pa.RecordBatch) -> Any:
        super().process(port, batch)
        return super().process(port, batch)


class Renamed(Count):
    """The same process."""


class Total(Operator):
    """A user's own: the sum of a column, without a key."""

    schema = sw.columns(total=pa.int64())
    ordered = False
    total = sw.Number(dtype="int64")

    def __init__(self, name: str, *, adding: AddingUp, **options: Any) -> None:
        super().__init__(name, protect=sw.Nothing(), **options)
        self.adding = adding

    def adds_up(self, port: str) -> AddingUp:
        return self.adding

    def process(self, port: str, batch: pa.RecordBatch) -> None:
        self.total += sum(batch["bytes"].to_pylist())

    def process_added(self, port: str, added: Added) -> None:  # type: ignore[override]
        self.process(port, added.batch)


class Ordered(Total):
    ordered = True


class TestWhatIsAddedUp:
    def test_counts_and_sketches(self) -> None:
        edge = Edge(Stream("in", "out"), "c", "in")
        plan = plan_for(count())
        assert plan == AddingPlan(source="in", edge=edge, by=("word",), sums=(), key=("word",), shards=2)
        assert plan_for(Renamed("c", key="word", protect=sw.Exact())) == plan
        assert plan_for(count(value="bytes", shards=3)) == replace(plan, sums=("bytes",), shards=3)
        sketch = CountMin("c", key=["port", "word"], value="bytes", protect=sw.Approximate(theta=5))
        keys = ("port", "word")
        assert plan_for(sketch) == replace(plan, by=keys, sums=("bytes",), key=keys)

    def test_an_operator_without_a_key(self) -> None:
        adding = AddingUp(by=("port",), sums=("bytes",))
        plan = plan_for(Total("c", adding=adding))
        assert plan is not None and (plan.key, plan.shards) == ((), 1)
        assert plan_for(Total("c", adding=adding, shards=2)) is None, "shards share tuples out by number"
        assert plan_for(Total("c", adding=adding, key="word")) is None, "a shard's tuples would be added to another's"

    @pytest.mark.parametrize(
        "operator",
        [
            pytest.param(count(value="f"), id="a sum of floating-point numbers"),
            pytest.param(count(window=sw.Hopping(count=10)), id="hopping window"),
            pytest.param(count(window=sw.Sliding(count=10)), id="sliding window"),
            pytest.param(count(protect=sw.UpstreamBackup(every=10)), id="kept items"),
            pytest.param(Doubled("c", key="word", protect=sw.Nothing()), id="process changed in a subclass"),
            pytest.param(Where("c", sw.field("bytes") > 1), id="no state"),
            pytest.param(Total("c", adding=AddingUp(by=("f",))), id="keys of floating-point numbers"),
            pytest.param(Total("c", adding=AddingUp(by=("word",), sums=("port",))), id="sums of 32 bits"),
            pytest.param(Total("c", adding=AddingUp(by=("seq",))), id="by number"),
            pytest.param(Total("c", adding=AddingUp(by=("word",), sums=("seq",))), id="sums of numbers"),
            pytest.param(Ordered("c", adding=AddingUp(by=("word",))), id="order matters"),
            pytest.param(Total("c", adding=AddingUp(by=("nothing",))), id="a column that is not there"),
        ],
    )
    def test_what_is_not(self, operator: Operator) -> None:
        assert plan_for(operator) is None

    def test_not_where_others_look_at_the_tuples(self) -> None:
        assert plan_for(count(), Count("d", key="word", protect=sw.Nothing())) is None
        assert plan_for(count(), Where("d", sw.field("bytes") > 1)) is None
        behind = sw.Graph("g")
        stream = behind.add(Where("w", sw.field("bytes") > 1), behind.source("in", Frame(), seq="n"))
        behind.sink("out", behind.add(count(), stream), sw.Discard())
        assert plan_of(behind) is None
        twice = sw.Graph("g")
        for name in ("c", "d"):
            counted = Count(name, key="word", protect=sw.Nothing())
            twice.sink(f"{name}_out", twice.add(counted, twice.source(f"{name}_in", Frame(), seq="n")), sw.Discard())
        assert plan_of(twice) is None
        kept = sw.Graph("g")
        stream = kept.source("in", Frame(), seq="n")
        kept.sink("tuples", stream, sw.Discard())
        kept.sink("out", kept.add(count(), stream), sw.Discard())
        assert plan_of(kept) is None

    def test_not_what_our_own_tasks_read(self) -> None:
        assert plan_for(count(), source=feed_of([tuples(word=["a"])])) is None

    def test_a_declaration_that_makes_no_sense(self) -> None:
        with pytest.raises(GraphError, match="by wants columns"):
            AddingUp(by=(), sums=("bytes",))
        with pytest.raises(GraphError, match="and others than sums"):
            AddingUp(by=("bytes",), sums=("bytes",))


class TestChoosing:
    def test_it_takes_few_keys_and_keeps_on_until_they_are_many(self) -> None:
        choosing = Choosing(ADDING_RULE)
        for keys, adds_up in ((50_000, False), (29_000, True), (50_000, True), (61_000, False), (50_000, False)):
            choosing.seen(tuples=1_000_000, keys=keys, fit=True)
            assert choosing.adds_up == adds_up
            choosing.ended(added_up=adds_up)
        assert choosing.batches == 2

    @pytest.mark.parametrize(("tuples", "fit"), [(99_999, True), (1_000_000, False)], ids=["small", "unfit"])
    def test_it_does_not_take(self, tuples: int, fit: bool) -> None:
        choosing = Choosing(ADDING_RULE)
        choosing.seen(tuples=tuples, keys=1, fit=fit)
        assert not choosing.adds_up

    def test_it_rests_after_a_batch_in_vain(self) -> None:
        choosing = Choosing(ADDING_RULE)
        choosing.seen(tuples=1_000_000, keys=1, fit=True)
        choosing.run_in_vain()
        for _ in range(ADDING_RULE.rest):
            choosing.seen(tuples=1_000_000, keys=1, fit=True)
            assert not choosing.adds_up
            choosing.ended(added_up=False)
        choosing.seen(tuples=1_000_000, keys=1, fit=True)
        assert choosing.adds_up

    def test_the_first_batches_of_a_run_are_looked_at(self) -> None:
        looked = [batch for batch in range(7, 50) if ADDING_RULE.looks_at(batch, first_batch=7)]
        assert looked == [7, 8, 9, 11, 15, 23, 39]


def parts_of(seqs: list[int], salt: int, *, cut: int) -> list[AddedPart]:
    """What tasks tell of these numbers, each a key of its own, in two parts."""
    return [
        AddedPart(
            part=part,
            whole=told(
                tuples=pa.array([1] * len(some), pa.int64()),
                first=pa.array(some, pa.int64()),
                last=pa.array(some, pa.int64()),
                fingerprints=pa.array([fingerprint(seq, seq, salt) for seq in some], pa.int64()),
                sums=[],
                least=[],
            ),
        )
        for part, some in enumerate((seqs[:cut], seqs[cut:]))
    ]


class TestNumbers:
    @example(seqs=[0, 0, 2], salt=5, cut=1, before=None)
    @example(seqs=[0, 1, 1, 1, 4], salt=5, cut=1, before=None)
    @given(
        seqs=st.lists(st.integers(-6, 6), max_size=9) | st.permutations(range(-3, 4)),
        salt=st.integers(0, 2**60 - 1),
        cut=st.integers(0, 9),
        before=st.none() | st.integers(-8, -2),
    )
    def test_those_are_shown_that_come_once_each_without_gaps(
        self, seqs: list[int], salt: int, cut: int, before: int | None
    ) -> None:
        fine = not seqs or sorted(seqs) == list(range(min(seqs), max(seqs) + 1))
        behind = not seqs or before is None or min(seqs) > before
        parts = parts_of(list(seqs), salt, cut=cut)
        if fine and behind:
            whole = shown(parts, salt=salt, before=before)
            assert (whole.tuples, whole.keys) == (len(seqs), len(seqs))
            (*found,) = whole.ranges("in", batch=3)
            assert [(part.first, part.last) for part in found] == ([(min(seqs), max(seqs))] if seqs else [])
        else:
            with pytest.raises(InputError, match="do not begin" if fine else "gaps, or some came twice"):
                shown(parts, salt=salt, before=before)

    def test_numbers_below_all(self) -> None:
        with pytest.raises(InputError):
            shown(parts_of([-(2**62)], 1, cut=0), salt=1, before=None)

    def test_a_long_range_is_that_of_its_parts(self) -> None:
        first, last, salt = -5, (1 << 20) + 10, 77
        hashes = key_hashes(pa.record_batch({"n": np.arange(first, last + 1) ^ salt}), ["n"])
        assert fingerprint(first, last, salt) == int(np.bitwise_xor.reduce(hashes).view(np.int64))

    @pytest.mark.parametrize(
        "changed",
        [
            {"first": [1, None], "last": [1, None]},
            {"sums": [[5, None]]},
            {"least": [[0, -1]]},
        ],
        ids=["no number", "sum too large", "null or negative"],
    )
    def test_what_is_told_is_refused(self, changed: dict[str, Any]) -> None:
        fine = {"first": [1, 2], "last": [1, 4], "sums": [[5, 9]], "least": [[0, 4]]}
        given = {"tuples": pa.array([1, 3]), "fingerprints": pa.array([9, 8])}

        def tell(columns: dict[str, Any]) -> Whole:
            arrays = {
                name: [pa.array(one, pa.int64()) for one in values]
                if name in ("sums", "least")
                else pa.array(values, pa.int64())
                for name, values in columns.items()
            }
            return told(**given, **arrays)

        assert tell(fine) == Whole(keys=2, tuples=4, first=1, last=4, fingerprint=9 ^ 8)
        with pytest.raises(InputError):
            tell(fine | changed)

    def test_gaps_are_seen_in_what_comes_one_by_one(self) -> None:
        def part(first: int, last: int, count: int) -> SourceRange:
            return SourceRange(
                source="in", batch=0, part=0, name="", ordered=False, tuples=count, first=first, last=last
            )

        assert without_gaps([part(0, 8, 5), part(1, 9, 5)])
        assert not without_gaps([part(0, 8, 5), part(1, 10, 5)])
        assert not without_gaps([])


class TestLooking:
    @pytest.mark.parametrize("keys", [1, 700, SAMPLE_MAX, 20_000, 200_000])
    def test_keys_are_counted_about_right(self, keys: int) -> None:
        plan = plan_for(count())
        assert plan is not None
        words = pa.array([f"word {i}" for i in range(keys)])
        looks = [Look(plan, part=part) for part in range(2)]
        for look, part in zip(looks, (words, words[: keys // 2]), strict=True):
            for start in range(0, len(part), 30_000):
                look.see(tuples(word=part[start : start + 30_000]))
        found = keys_in(look.done() for look in looks)
        assert found == keys if keys < SAMPLE_MAX else abs(found / keys - 1) < 0.1
        assert sum(look.done().tuples for look in looks) == keys + keys // 2

    @given(parts=st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 2**61), max_size=9), max_size=4))
    def test_the_lowest_are_kept(self, parts: list[list[int]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(added_numbers, "SAMPLE_MAX", 4)
            known = np.empty(0, np.uint64)
            for part in parts:
                known = added_numbers.lowest(known, np.array(part, np.uint64))
        assert known.tolist() == sorted({number for part in parts for number in part})[:4]

    @pytest.mark.parametrize(("values", "fit"), [([0, 5], True), ([5, -1], False), ([5, None], False), ([], True)])
    def test_numbers_that_cannot_be_added_up(self, values: list[Any], fit: bool) -> None:
        plan = plan_for(count(value="bytes"))
        assert plan is not None
        look = Look(plan, part=0)
        look.see(tuples(word=pa.array(["a"] * len(values), pa.string()), bytes=pa.array(values, pa.int64())))
        assert look.done().fit == fit
