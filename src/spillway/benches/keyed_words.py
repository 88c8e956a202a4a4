"""The words that keyed counts are measured with: files of them, one a batch, and the graph that counts them.

The first files contain every key once, so that state has its full size. Words of the others are chosen from all keys
alike, or after Zipf's law.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spillway.benches.keyed_count_on_spark import stream_parquet
from spillway.graph import Discard, Graph, Parquet, Protection, Trace
from spillway.operators import Count
from spillway.seeds import generator

SCHEMAS = {"word": "seq bigint, word string", "int64": "seq bigint, word bigint"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedWords:
    """Words of so many different keys, so many a batch."""

    tuples_per_batch: int
    keys: int
    key_type: str = "word"
    zipf: bool = False
    seed: int = 1

    @property
    def fill(self) -> int:
        """How many batches bring every key once."""
        return -(-self.keys // self.tuples_per_batch)

    @property
    def schema(self) -> str:
        """As Spark has it."""
        return SCHEMAS[self.key_type]

    def write(self, folder: Path, *, following: int) -> None:
        """Files of words, one for each batch; so many follow those that bring every key."""
        folder.mkdir()
        random = generator(self.seed, "bench", "wordcount")
        # Which word is frequent has nothing to do with which came first.
        ranked = random.permutation(self.keys)
        arrivals = random.permutation(self.keys)
        each, count = self.tuples_per_batch, self.tuples_per_batch * following
        ranks = _zipf_ranks(random, count, self.keys) if self.zipf else random.integers(0, self.keys, count)
        for file in range(self.fill + following):
            if file < self.fill:
                words = arrivals[file * each : (file + 1) * each]
            else:
                start = (file - self.fill) * each
                words = ranked[ranks[start : start + each]]
            column = pa.array(words) if self.key_type == "int64" else pa.array(np.char.add("w", words.astype("U10")))
            seqs = np.arange(len(words)) + file * each
            table = pa.table({"seq": seqs, "word": column})
            pq.write_table(table, folder / f"{file:04d}.parquet", row_group_size=max(len(words) // 2, 1))

    def trace(self, folder: Path) -> Trace:
        """The files, read by tasks of ours."""
        return Trace(folder, rows_per_piece=max(self.tuples_per_batch // 2, 1), pieces_per_batch=2)

    def frame(self, spark: Any, folder: Path) -> Any:
        """The files, read by Spark."""
        return stream_parquet(spark, folder, self.schema)

    def graph(self, source: Any, protect: Protection, output: Path | None = None) -> Graph:
        """Count them, into Parquet files or nowhere."""
        graph = Graph("wordcount")
        count = Count("count", key="word", protect=protect)
        sink = Discard() if output is None else Parquet(str(output))
        graph.sink("out", graph.add(count, graph.source("words", source)), sink)
        return graph


def _zipf_ranks(random: np.random.Generator, count: int, ranks: int) -> npt.NDArray[np.int64]:
    """Ranks with probability proportional to 1/rank."""
    cumulative = np.cumsum(1.0 / np.arange(1, ranks + 1))
    found: npt.NDArray[np.int64] = np.searchsorted(cumulative, random.random(count) * cumulative[-1])
    return np.minimum(found, ranks - 1)
