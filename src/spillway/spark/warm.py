"""Load every kernel with the types it is used with, by running each once on almost nothing."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.operators.hashing import key_hashes
from spillway.state import HashTable, KeySet, Matrix, Shard, Vector


def warm() -> None:
    """Compile, or load from numba's cache, what the tasks will need."""
    folder = Path(tempfile.mkdtemp(prefix="spillway-warm-"))
    try:
        _run_kernels(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_kernels(folder: Path) -> None:
    numbers, words = np.arange(3), pa.array(["a", "b", "c"])
    shard = Shard(folder, fingerprint=0, tracked=True)
    tables = [HashTable().bind(shard, "i"), HashTable(dtype="float64", metric="l2").bind(shard, "f")]
    named = HashTable(key="string", metric="max").bind(shard, "s")
    seen = KeySet().bind(shard, "k")
    vector, matrix = Vector(2).bind(shard, "v"), Matrix(2, 2, dtype="int64").bind(shard, "m")
    with shard.lock():
        shard.begin(0)
        for table in tables:
            table.add(numbers, 1)
            table.get(numbers)
        named.add(words, 1)
        named.get(words)
        named.updates()
        seen.add(numbers)
        vector.add(numbers[:2], 1.0)
        matrix.add(numbers[:2], numbers[:2], 1)
        shard.settle(seq=0, tuples=3)
        shard.commit()
        shard.rollback()
    key_hashes(pa.RecordBatch.from_pydict({"n": pa.array(numbers), "w": words}), ["n", "w"])
