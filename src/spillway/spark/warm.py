"""Load every kernel with the types it is used with, by running each once on almost nothing."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import SEQ
from spillway.operators import Count, CountMin, Operator, Words
from spillway.state import HashTable, KeySet, Matrix, Shard, Vector

_TUPLES = pa.RecordBatch.from_pydict(
    {
        SEQ: pa.array([0, 1, 2]),
        "line": pa.array(["a b", "a", "c"]),
        "number": pa.array([3, 1, 2]),
        "amount": pa.array([1, 1, 1]),
    }
)


def warm() -> None:
    """Compile, or load from numba's cache, what the tasks will need."""
    folder = Path(tempfile.mkdtemp(prefix="spillway-warm-"))
    try:
        _run_primitives(Shard(folder / "primitives", fingerprint=0, tracked=True))
        operators: list[Operator] = [
            Words("words"),
            Count("lines", key="line"),
            Count("numbers", key="number", key_type="int64"),
            CountMin("sketch", key=["line", "number"], value="amount", width=8),
        ]
        for operator in operators:
            _run_operator(operator, Shard(folder / operator.name, fingerprint=0, tracked=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_operator(operator: Operator, shard: Shard) -> None:
    opened = operator.opened(shard, operator.output_schemas({"in": _TUPLES.schema}))
    with shard.lock():
        shard.begin(0)
        opened.begin()
        list(opened.process("in", _TUPLES))
        list(opened.finish())
        shard.settle(seq=0, tuples=3)
        shard.commit()
        shard.rollback()


def _run_primitives(shard: Shard) -> None:
    numbers, words = np.arange(3), pa.array(["a", "b", "c"])
    table = HashTable(dtype="float64", metric="l2").bind(shard, "table")
    seen = KeySet(key="string").bind(shard, "seen")
    vector, matrix = Vector(2).bind(shard, "vector"), Matrix(2, 2, dtype="int64").bind(shard, "matrix")
    with shard.lock():
        shard.begin(0)
        table.add(numbers, 1)
        table.get(numbers)
        seen.add(words)
        seen.contains(words)
        vector.add(numbers[:2], 1.0)
        matrix.set(numbers[:2], numbers[:2], 1)
        shard.settle(seq=0, tuples=3)
        shard.commit()
