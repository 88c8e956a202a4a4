"""Count-Min: never too low, rarely much too high, whatever happens to its memory."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.running import graph_of, running, through, tuples

from spillway.errors import GraphError, InputError
from spillway.graph import Approximate, Checkpoint, Exact, Nothing
from spillway.operators import CountMin
from spillway.seeds import generator

Part = list[tuple[str, int, int]]
PARTS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 3), st.integers(0, 1500)), max_size=8),
    min_size=2,
    max_size=6,
)


def batches_of(parts: list[Part]) -> list[pa.RecordBatch]:
    firsts = np.cumsum([0, *map(len, parts)])
    return [
        tuples(
            int(first),
            src=pa.array([src for src, _, _ in part], pa.string()),
            dst=pa.array([dst for _, dst, _ in part], pa.int64()),
            bytes=pa.array([count for _, _, count in part], pa.int64()),
        )
        for first, part in zip(firsts, parts, strict=False)
    ]


def sums(parts: list[Part]) -> Counter[tuple[str, int]]:
    total: Counter[tuple[str, int]] = Counter()
    for src, dst, count in (entry for part in parts for entry in part):
        total[src, dst] += count
    return total


def estimates(out: pa.Table) -> dict[tuple[str, int], int]:
    """The last estimate put out for each key."""
    return {(row["src"], row["dst"]): row["bytes"] for row in out.to_pylist()}


def sketch(**options: Any) -> CountMin:
    return CountMin("c", **{"key": ["src", "dst"], "value": "bytes", "rows": 2, "width": 5, **options})


class TestWithoutFailures:
    @settings(max_examples=40)
    @given(parts=PARTS, shards=st.integers(1, 3), pieces_per_batch=st.integers(1, 2))
    def test_an_estimate_is_never_below_the_truth(self, parts: list[Part], shards: int, pieces_per_batch: int) -> None:
        out = through(
            sketch(protect=Nothing()), batches=batches_of(parts), shards=shards, pieces_per_batch=pieces_per_batch
        )
        truth, came = sums(parts), estimates(out)
        assert came.keys() == truth.keys()
        assert all(came[key] >= truth[key] for key in truth)

    @settings(max_examples=20)
    @given(parts=PARTS)
    def test_the_sketch_is_the_one_of_a_slow_twin(self, parts: list[Part]) -> None:
        with running(graph_of(sketch(protect=Nothing()), batches=batches_of(parts), shards=1)) as run:
            run.run()
            shard = run.shard("c", 0)
            assert isinstance(shard, CountMin)
            slow = np.zeros((2, 5), np.int64)
            for (src, dst), count in sums(parts).items():
                for row in range(2):
                    slow[row, column_slowly(src, dst, row)] += count
            assert shard.sketch.read().tolist() == slow.tolist()

    def test_estimates_are_exact_where_nothing_collides(self) -> None:
        parts = [[("a", 1, 10), ("b", 2, 20), ("a", 1, 5)], [("a", 1, 1)]]
        out = through(sketch(width=10_007, protect=Nothing()), batches=batches_of(parts))
        assert estimates(out) == {("a", 1): 16, ("b", 2): 20}

    def test_a_key_comes_out_once_per_batch_under_its_last_seq(self) -> None:
        parts: list[Part] = [[("a", 1, 1), ("b", 1, 1), ("a", 1, 1)], [("a", 1, 1)], [("b", 1, 1)]]
        out = through(sketch(protect=Nothing()), batches=batches_of(parts), shards=1, pieces_per_batch=2)
        rows = [(row["seq"], row["src"]) for row in out.to_pylist()]
        assert rows == [(3, "a"), (1, "b"), (4, "b")]

    def test_few_estimates_are_much_too_high(self) -> None:
        """Pr[E(x) > T(x) + 2 U / width] <= 2^-rows, counted over the keys of one seeded stream."""
        seed = 20
        random = generator(seed, "sketch")
        keys, rows, width = 4000, 3, 64
        amounts = random.integers(1, 1500, size=keys)
        batch = tuples(src=[f"host {i}" for i in range(keys)], dst=[0] * keys, bytes=amounts)
        out = through(sketch(rows=rows, width=width, protect=Nothing()), batches=[batch], shards=1)
        errors = out["bytes"].to_numpy() - amounts
        assert errors.min() >= 0, f"seed {seed}"
        too_high = (errors > 2 * amounts.sum() / width).mean()
        # The bound is Markov's, far above what happens; a broken row or one used twice shows all the same.
        assert too_high <= 2.0**-rows, f"seed {seed}"
        # What happens: in a row all counters are near U / width, so the least of three is below that by some.
        assert np.median(errors) < amounts.sum() / width, f"seed {seed}"

    def test_rows_are_independent(self) -> None:
        """Keys that share a column in one row share it in another no more often than any two keys."""
        cells = [[column_slowly(f"host {i}", 0, row, width=16) for row in range(3)] for i in range(1000)]
        same_first = same_both = 0
        for i in range(0, 1000, 2):
            same_first += cells[i][0] == cells[i + 1][0]
            same_both += cells[i][0] == cells[i + 1][0] and cells[i][1] == cells[i + 1][1]
        assert 10 <= same_first <= 60  # 500 / 16 is 31
        assert same_both <= 10  # 500 / 256 is 2


def column_slowly(src: str, dst: int, row: int, width: int = 5) -> int:
    hashed = xxhash.xxh64_intdigest(src.encode(), seed=42)
    hashed = xxhash.xxh64_intdigest(dst.to_bytes(8, "little", signed=True), seed=hashed)
    mixed = (hashed + (row + 1) * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return (mixed ^ (mixed >> 31)) % width


class TestWithFailures:
    @settings(max_examples=60)
    @given(
        parts=PARTS,
        shards=st.integers(1, 2),
        theta=st.sampled_from([0.0, 0.9, 100.0, 5000.0, 1e9]),
        wipes=st.sets(st.integers(1, 5)),
    )
    def test_an_estimate_is_still_never_below_the_truth(
        self,
        parts: list[Part],
        shards: int,
        theta: float,
        wipes: set[int],
    ) -> None:
        batches = batches_of(parts)
        undisturbed, disturbed = (
            estimates_by_batch(through(operator, batches=batches, shards=shards, wipe_before=wipe_before), batches)
            for operator, wipe_before in ((sketch(protect=Nothing()), ()), (sketch(protect=Approximate(theta)), wipes))
        )
        for batch in range(len(parts)):
            truth = sums(parts[: batch + 1])
            for key, estimate in disturbed[batch].items():
                assert estimate >= truth[key]
                # E(x) grows by at most theta in all.
                assert estimate <= undisturbed[batch][key] + theta

    def test_compensation_is_what_can_be_missing_and_no_more(self) -> None:
        parts: list[Part] = [[("a", 1, 400)], [("b", 2, 10)], [("c", 3, 10)], [("d", 0, 0)]]
        out = through(
            sketch(width=10_007, protect=Approximate(1000.0)),
            batches=batches_of(parts),
            shards=1,
            wipe_before=[1, 3],
        )
        # Nothing was backed up before the first failure, when 500 were allowed; 250 after it, so batch 1 was.
        assert [row["bytes"] for row in out.to_pylist()] == [400, 500 + 10, 500 + 10, 500 + 250]

    @pytest.mark.parametrize(
        ("protect", "estimate"),
        [(Exact(), 45), (Checkpoint(10**6), 5), (Nothing(), 5)],
        ids=["nothing is missing", "nothing bounds what is", "nothing is kept"],
    )
    def test_no_compensation_without_a_bound(self, protect: Any, estimate: int) -> None:
        out = through(
            sketch(protect=protect),
            batches=batches_of([[("a", 1, 40)], [("a", 1, 5)]]),
            wipe_before=[1],
        )
        assert out["bytes"].to_pylist()[-1] == estimate

    def test_no_compensation_in_another_metric(self) -> None:
        out = through(
            sketch(metric="l1", protect=Approximate(1e9)),
            batches=batches_of([[("a", 1, 40)], [("a", 1, 5)]]),
            wipe_before=[1],
        )
        assert out["bytes"].to_pylist()[-1] == 5


def estimates_by_batch(out: pa.Table, batches: list[pa.RecordBatch]) -> list[dict[tuple[str, int], int]]:
    ends = np.cumsum([batch.num_rows for batch in batches])
    found: list[dict[tuple[str, int], int]] = [{} for _ in batches]
    for row in out.to_pylist():
        found[int(np.searchsorted(ends, row["seq"], side="right"))][row["src"], row["dst"]] = row["bytes"]
    return found


BATCH = tuples(src=["a"], dst=[1], bytes=[1], f=[1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": []}, "Operator 'c': a Count-Min sketch wants a key."),
        ({"key": ["src", "bytes"]}, "Operator 'c': column 'bytes' cannot be both summed and part of the key."),
        ({"rows": 0}, "Operator 'c': rows must be a whole number, 1 or more; got 0."),
        ({"width": 2.5}, "Operator 'c': width must be a whole number, 1 or more; got 2.5."),
        ({"metric": "keys"}, "Matrix: metric must be one of l1, l2, max; got 'keys'."),
        ({"key": "ip"}, "Operator 'c': column 'ip' is wanted on port 'in'; it gets seq, src, dst, bytes, f."),
        ({"value": "f"}, "Operator 'c': column 'f' must be int64; it is double."),
        ({"value": "seq"}, "Operator 'c': output 'out' has 2 columns named 'seq'; name them apart."),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        graph_of(sketch(**options), batches=[BATCH]).checked()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (
            tuples(src=["a", "b"], dst=[1, 1], bytes=[1, -40]),
            "Operator 'c': column 'bytes' must not be negative; the least is -40.",
        ),
        (
            tuples(src=["a", "b"], dst=[1, 1], bytes=pa.array([1, None])),
            "Operator 'c': column 'bytes' is null in 1 tuples.",
        ),
        (
            tuples(src=["a", None], dst=[1, 1], bytes=[1, 1]),
            "Operator 'c': key column 'src' must not be null; it is in 1 tuples of batch 0 (seq 1). "
            "Drop them before the operator.",
        ),
    ],
)
def test_data_that_does_not_fit_is_refused(batch: pa.RecordBatch, message: str) -> None:
    with pytest.raises(InputError) as refused:
        through(sketch(), batches=[batch], shards=1)
    assert str(refused.value) == message


def test_numbers_below_zero_stay_what_they_are() -> None:
    batch = tuples(-9, src=["a", "b", "a"], dst=[1, 2, 1], bytes=[1, 2, 3])
    out = through(sketch(), batches=[batch])
    assert dict(zip(out["src"].to_pylist(), out["seq"].to_pylist(), strict=True)) == {"a": -7, "b": -8}
