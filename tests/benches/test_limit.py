"""The limit counts what a dictionary counts, and so do we."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from spillway.benches.limit import IntegerLimit, OurCount, Sides, WordLimit, batches_of, sides, working_folder


@pytest.mark.parametrize("zipf", [False, True], ids=["uniform", "zipf"])
@pytest.mark.parametrize("key_type", ["int64", "string"])
def test_both_sides_count_what_a_dictionary_counts(key_type: str, zipf: bool) -> None:
    fill, batches = batches_of(keys=500, rows=200, batches=4, key_type=key_type, zipf=zipf)
    expected: Counter[Any] = Counter()
    limit = IntegerLimit(500) if key_type == "int64" else WordLimit(500, key_bytes=500 * 7)
    with working_folder() as folder:
        ours = OurCount(folder / "shard", fill[0].type)
        for keys in [*fill, *batches]:
            expected.update(keys.to_pylist())
            limit.add(keys)
            ours.add(keys)
        assert limit.counts() == expected
        assert ours.counts() == expected
        assert ours.put_out == len(set(batches[-1].to_pylist()))
        ours.close()


def test_words_that_begin_or_end_alike_are_different_ones() -> None:
    words = ["", "a", "aa", "b", "w" * 40, "w" * 39 + "v", "v" + "w" * 39, "12345678", "1234567", "123456789"]
    limit = WordLimit(len(words), key_bytes=sum(map(len, words)))
    limit.add(pa.array(words * 3))
    assert limit.counts() == dict.fromkeys(words, 3)


def test_every_key_comes_once_before_and_zipf_prefers_a_few() -> None:
    fill, batches = batches_of(keys=1000, rows=300, batches=2, key_type="int64", zipf=True)
    assert sorted(key for part in fill for key in part.to_pylist()) == list(range(1000))
    ((_, most),) = Counter(key for part in batches for key in part.to_pylist()).most_common(1)
    assert most > 30, "about one in seven"


def test_sides_are_measured_batch_by_batch() -> None:
    fill, batches = batches_of(keys=100, rows=50, batches=4, key_type="int64", zipf=False)
    measured = sides(fill, batches, warm=1)
    assert len(measured.limit_s) == len(measured.ours_s) == 3
    assert all(0 < put_out < ours for put_out, ours in zip(measured.put_out_s, measured.ours_s, strict=True))
    given = Sides(limit_s=(1.0, 3.0), ours_s=(2.0, 4.0), put_out_s=(1.0, 2.5))
    assert given.ratios == (0.5, 0.75) and given.ratios_in_state == (1.0, 2.0)
