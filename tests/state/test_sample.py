"""Samples: the same tuples wherever they are chosen, as many as the rate says, and kept like any other state."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.state import naive
from tests.state.shards import as_keys, open_shard

from spillway.errors import GraphError, InputError, StateError
from spillway.state import check_primitive
from spillway.state.sample import Sample
from spillway.state.tally import Tally, TallyTable

GOLDEN = 0x9E3779B97F4A7C15


def chosen_slowly(seqs: list[int], *, seed: int, rate: float) -> list[int]:
    """The rule of the module in plain Python."""
    offset = naive.mix(seed + GOLDEN)
    return [
        position for position, seq in enumerate(seqs) if (naive.mix(offset + (seq + 1) * GOLDEN) >> 11) / 2**53 < rate
    ]


class TestChoosing:
    @given(
        seqs=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30),
        seed=st.integers(0, 2**63 - 1),
        rate=st.floats(1e-9, 1.0),
    )
    def test_the_kernel_is_its_slow_twin(self, seqs: list[int], seed: int, rate: float) -> None:
        sample = Sample(rate=rate, seed=seed)
        assert sample.chosen(np.array(seqs, np.int64)).tolist() == chosen_slowly(seqs, seed=seed, rate=rate)

    @pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.99])
    @pytest.mark.parametrize("seed", [0, 1, 2**40])
    def test_the_part_that_is_kept(self, rate: float, seed: int) -> None:
        count = 200_000
        kept = len(Sample(rate=rate, seed=seed).chosen(np.arange(count)))
        assert abs(kept - count * rate) < 5 * np.sqrt(count * rate * (1 - rate)), f"seed {seed}"

    def test_all_are_kept_at_rate_1(self) -> None:
        assert Sample(rate=1).chosen(np.arange(1000)).tolist() == list(range(1000))

    @pytest.mark.parametrize(("one", "other"), [(2, 3), (0, 1), (7, 8), (1, 2**62)])
    def test_samples_of_different_seeds_are_independent(self, one: int, other: int) -> None:
        count, rate = 200_000, 0.1
        first, second = (set(Sample(rate=rate, seed=seed).chosen(np.arange(count)).tolist()) for seed in (one, other))
        expected = count * rate**2
        assert abs(len(first & second) - expected) < 5 * np.sqrt(expected)

    def test_neighbours_are_independent(self) -> None:
        chosen = np.zeros(200_000, bool)
        chosen[Sample(rate=0.3, seed=5).chosen(np.arange(200_000))] = True
        for lag in (1, 2, 7, 64):
            both = int((chosen[lag:] & chosen[:-lag]).sum())
            assert abs(both - 200_000 * 0.09) < 5 * np.sqrt(200_000 * 0.09), f"lag {lag}"

    def test_a_larger_rate_keeps_a_superset(self) -> None:
        small, large = (set(Sample(rate=rate, seed=3).chosen(np.arange(5_000)).tolist()) for rate in (0.2, 0.3))
        assert small < large


class TestKeeping:
    @pytest.mark.parametrize("key", ["int64", "string"])
    def test_counts_per_key(self, tmp_path: Path, key: Any) -> None:
        declared = Sample(rate=0.4, key=key, seed=9)
        opened = open_shard(tmp_path, sample=declared)
        numbers = np.random.default_rng(1).integers(20, size=(3, 200))
        expected: Counter[Any] = Counter()
        for round_, keys in enumerate(numbers):
            seqs = np.arange(round_ * 200, round_ * 200 + 200)
            kept = chosen_slowly(seqs.tolist(), seed=9, rate=0.4)
            with opened.batch():
                assert opened["sample"].add(as_keys(declared, keys), seqs).tolist() == kept
                touched, counts = opened["sample"].updates()
            plain = [pa.array(as_keys(declared, [keys[position]])).to_pylist()[0] for position in kept]
            expected.update(plain)
            assert dict(zip(touched.to_pylist(), counts.tolist(), strict=True)) == {
                name: expected[name] for name in plain
            }
        keys, counts = opened["sample"].items()
        assert dict(zip(keys.to_pylist(), counts.tolist(), strict=True)) == expected
        assert opened["sample"].size == expected.total() == opened["sample"].divergence()
        assert len(opened["sample"]) == len(expected)
        assert opened["sample"].get(keys.slice(2, 3)).tolist() == counts[2:5].tolist()
        opened.save()
        assert opened["sample"].divergence() == 0

    @pytest.mark.parametrize("key", ["int64", "string"])
    @pytest.mark.parametrize("seed", range(3))
    def test_conformance(self, key: Any, seed: int) -> None:
        declared = Sample(rate=0.5, key=key, seed=seed)

        def change(sample: Sample, random: np.random.Generator) -> None:
            count = int(random.integers(40))
            sample.add(as_keys(declared, random.integers(60, size=count)), random.integers(10**6, size=count))

        def content(sample: Sample) -> dict[Any, float]:
            keys, counts = sample.items()
            return dict(zip(keys.to_pylist(), counts.tolist(), strict=True))

        check_primitive(declared, change=change, content=content, seed=seed)


class TestTallies:
    @pytest.mark.parametrize("seed", range(2))
    def test_a_tally_is_kept_and_not_measured(self, seed: int) -> None:
        check_primitive(
            Tally(40),
            change=lambda tally, random: tally.add(random.integers(40, size=5), random.integers(-3, 9, size=5)),
            content=lambda tally: np.array(tally.read()),
            distance=lambda s, b: 0.0,
            seed=seed,
        )

    @pytest.mark.parametrize("seed", range(2))
    def test_so_is_a_table(self, seed: int) -> None:
        def content(table: TallyTable) -> dict[Any, float]:
            keys, numbers = table.items()
            return dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))

        check_primitive(
            TallyTable(),
            change=lambda table, random: table.set(random.integers(90, size=5), random.integers(9, size=5)),
            content=content,
            distance=lambda s, b: 0.0,
            seed=seed,
        )

    def test_layouts_are_told_apart(self) -> None:
        said = {Tally(3).describe(), Tally(4).describe(), TallyTable().describe(), TallyTable(key="string").describe()}
        assert len(said) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "Sample: rate is the part of all tuples to keep, above 0 and at most 1; got 0."),
        ({"rate": 1.5}, "Sample: rate is the part of all tuples to keep, above 0 and at most 1; got 1.5."),
        ({"rate": True}, "Sample: rate is the part of all tuples to keep, above 0 and at most 1; got True."),
        ({"rate": float("nan")}, "Sample: rate is the part of all tuples to keep, above 0 and at most 1; got nan."),
        ({"seed": -1}, "Sample: seed must be a whole number, 0 or more; got -1."),
        ({"seed": 2**63}, f"Sample: seed must be at most {2**63 - 1}; got {2**63}."),
        ({"key": "float"}, "HashTable: key must be one of int64, string; got 'float'."),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as refused:
        Sample(**options)
    assert str(refused.value) == message


def test_data_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    opened = open_shard(tmp_path, sample=Sample())
    with opened.batch():
        with pytest.raises(InputError, match="takes one number for each key: 2 keys, 3 numbers"):
            opened["sample"].add(np.arange(2), np.arange(3))
        with pytest.raises(InputError, match="chooses tuples by their number, an integer; float64 came"):
            opened["sample"].add(np.arange(2), np.array([0.5, 1.0]))
    with pytest.raises(StateError, match="outside a batch"):
        opened["sample"].add(np.arange(100), np.arange(100))
