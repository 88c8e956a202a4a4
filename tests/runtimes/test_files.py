"""Files of a folder on both runtimes: the same rows with the same numbers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.conftest import RunGraph
from tests.graph.growing import put

import spillway as sw
from spillway.errors import InputError
from spillway.seeds import generator

SUFFIX = {"parquet": "parquet", "arrow": "arrow", "csv": "csv", "json": "jsonl"}
ROWS = [40, 0, 25, 60]


def made(file: int) -> pa.Table:
    random = generator(5, "files", file)
    words = [f"w{word}" for word in random.integers(0, 9, ROWS[file])]
    return pa.table({"word": pa.array(words, pa.string()), "x": pa.array(random.integers(0, 99, ROWS[file]))})


@pytest.mark.parametrize("format", SUFFIX)
def test_all_files_are_read_in_order(run_graph: RunGraph, tmp_path: Path, format: str) -> None:
    for file, changed_s in enumerate([30, 20, 10, 20]):
        put(tmp_path / "in", f"{file}.{SUFFIX[format]}", made(file), changed_s=changed_s)
    graph = sw.Graph("files")
    source = sw.files(tmp_path / "in", schema=made(0).schema, files_per_batch=3)
    words = graph.source("words", source)
    graph.sink("all", words, sw.Memory())
    count = sw.operators.Count("count", key="word", protect=sw.Exact())
    graph.sink("counts", graph.add(count, words), sw.Memory())
    results = run_graph(graph)
    in_order = pa.concat_tables([made(file) for file in (2, 1, 3, 0)])
    expected = in_order.add_column(0, "seq", pa.array(np.arange(sum(ROWS))))
    assert results["all"].to_pydict() == expected.to_pydict()
    # A count is told once a batch for each of its keys, under the last number of the batch.
    counts: Counter[str] = Counter()
    told = []
    for files in [(2, 1, 3), (0,)]:
        new = Counter(pa.concat_tables([made(file) for file in files])["word"].to_pylist())
        counts += new
        told += [(word, counts[word]) for word in new]
    assert sorted(zip(results["counts"]["word"].to_pylist(), results["counts"]["count"].to_pylist(), strict=True)) == (
        sorted(told)
    )


def test_a_file_that_does_not_fit_is_the_same_sentence(run_graph: RunGraph, tmp_path: Path) -> None:
    put(tmp_path / "in", "a.parquet", made(0), changed_s=1)
    source = sw.files(tmp_path / "in")
    put(tmp_path / "in", "b.parquet", pa.table({"word": [1, 2], "x": [1, 2]}), changed_s=2)
    graph = sw.Graph("files")
    graph.sink("all", graph.source("words", source), sw.Memory())
    with pytest.raises(InputError, match=r"^files: column 'word' is int64 in .*b\.parquet; string is wanted\.$"):
        run_graph(graph)
