"""Load every kernel with the types it is used with, by running each once on almost nothing.

``python -m spillway.engine.warm`` does that and no more: where kernels are cached, they are compiled then.
"""

import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.engine.exchange import Placing
from spillway.graph.feeds import SEQ
from spillway.operators import Count, CountMin, LatestJoin, SlidingAggregate, Words
from spillway.operators.aggregate import Aggregate, Folded, Mode
from spillway.operators.operator import Operator
from spillway.operators.regression import learn, numbered
from spillway.operators.ripple_join import RippleJoin
from spillway.operators.sketched import above, put_ranks
from spillway.state import HashTable, KeySet, Matrix, Shard, Vector, ordering
from spillway.state.compiled import is_kept

_TUPLES = pa.RecordBatch.from_pydict(
    {
        SEQ: pa.array([0, 1, 2]),
        "line": pa.array(["a b", "a", "c"]),
        "number": pa.array([3, 1, 2]),
        "amount": pa.array([1, 1, 1]),
        "share": pa.array([0.5, 0.5, 0.5]),
    }
)


def warm() -> None:
    """Compile, or load from numba's cache, what the tasks will need."""
    with _folder() as folder:
        _run_primitives(Shard(folder / "primitives", fingerprint=0, tracked=True))
    warm_for(
        [
            Words("words"),
            Count("lines", key="line"),
            Count("numbers", key="number"),
            CountMin("sketch", key=["line", "number"], value="amount", width=8),
            RippleJoin("join", key="line"),
            SlidingAggregate("sums", key="line", sums={"total": "amount"}, size=2),
            LatestJoin("latest", key="line", value="amount"),
            _aggregate("updated", mode="update"),
            _aggregate("complete", mode="complete"),
        ]
    )
    _run_learning()
    _run_sketches()


def is_warm() -> bool:
    """Whether ``warm`` finds all it needs compiled: what it does last was done here before."""
    return is_kept(learn)


def tell_if_cold() -> None:
    """Warn whoever starts a run that it will wait for kernels to be compiled."""
    if not is_warm():
        warnings.warn(
            "Spillway's kernels are compiled for this machine, once: the first batch waits for that, a minute or so.",
            stacklevel=4,
        )


def _aggregate(name: str, *, mode: Mode) -> Aggregate:
    """A row for each key, folded in every way."""
    columns = {"line": pa.string(), "number": pa.int64(), "amount": pa.int64(), "share": pa.float64()}
    return Aggregate(
        name,
        key={column: columns[column] for column in ("line", "number")},
        values={
            f"{fold}-{column}": Folded(fold=fold, column=column, type=columns[column])
            for fold in ("add", "greatest")
            for column in ("amount", "share")
        },
        mode=mode,
    )


def warm_for(operators: Sequence[Operator]) -> None:
    """The same, of what these operators need; they read columns ``line``, ``number`` and ``amount``."""
    with _folder() as folder:
        for operator in operators:
            _run_operator(operator, Shard(folder / operator.name, fingerprint=0, tracked=True))
    Placing(key=("line", "number"), tasks=2).divide(_TUPLES)


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="spillway-warm-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_operator(operator: Operator, shard: Shard) -> None:
    ports = operator.inputs
    schemas = dict.fromkeys(ports, _TUPLES.schema)
    resolved = operator.resolved(schemas)
    opened = resolved.opened(shard, resolved.output_schemas(schemas))
    with shard.lock():
        shard.begin(0)
        opened.begin()
        for port in ports:
            list(opened.process(port, _TUPLES))
        list(opened.finish())
        shard.settle(seq=0, tuples=3)
        shard.commit()
        shard.rollback()


def _run_learning() -> None:
    _, numbers = numbered(np.array([5]))
    ones, none = np.ones(1), np.zeros(1, np.int64)
    learn(np.zeros(2), ones, np.array([0, 1]), numbers, ones, none, 1, 0.1, False, 0.0, 0, np.zeros(5))


def _run_sketches() -> None:
    words, ones, zeros = np.zeros(1, np.int64), np.ones(1, np.int32), np.zeros(1, np.int64)
    put_ranks(words, zeros[: above(words, zeros, ones, np.empty(1, np.int64))], ones)


def _run_primitives(shard: Shard) -> None:
    numbers, words = np.arange(3), pa.array(["a", "b", "c"])
    table = HashTable(dtype="float64", metric="l2").bind(shard, "table")
    seen = KeySet(key="string").bind(shard, "seen")
    counts, tallies = HashTable().bind(shard, "counts"), HashTable(key="string").bind(shard, "tallies")
    # As many as go the way of a large batch.
    many = pa.array(np.arange(max(ordering.TUPLES_MIN, ordering.CELLS_MIN)))
    vector, matrix = Vector(2).bind(shard, "vector"), Matrix(2, 2, dtype="int64").bind(shard, "matrix")
    with shard.lock():
        shard.begin(0)
        table.add(numbers, 1)
        table.get(numbers)
        seen.add(words)
        seen.contains(words)
        for _ in range(2):
            counts.add(many, 1)
            tallies.add(many.cast(pa.string()), 1)
        counts.add(many, many)
        vector.add(numbers[:2], 1.0)
        matrix.set(numbers[:2], numbers[:2], 1)
        shard.settle(seq=0, tuples=3)
        shard.commit()


if __name__ == "__main__":
    warm()
