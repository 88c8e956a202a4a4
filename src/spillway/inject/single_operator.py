"""One operator alone on memory of its own: to be given any part of a stream, set back, and looked at."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path

import numpy as np
import pyarrow as pa

from spillway.graph.feeds import BEFORE_ALL, SEQ
from spillway.operators.operator import Operator, Out
from spillway.state.arrays import Payload
from spillway.state.folders import claim, default_root
from spillway.state.shard import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that an operator keeps, at one moment: of each array its length and its chunks."""

    counts: tuple[int, ...]
    payloads: tuple[Payload, ...]


class SingleOperator:
    """An operator at work outside of a run, in one shard and without backups."""

    def __init__(self, operator: Operator, schemas: Mapping[str, pa.Schema]) -> None:
        self._shard: Shard | None = None
        self._remove: Callable[[], object] = lambda: None
        if operator.stateful:
            default_root().mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = Path(tempfile.mkdtemp(prefix="operator-", dir=default_root()))
            # Goes with this object, or else with the process, a child of multiprocessing included; whatever a kill
            # leaves behind has an owner that no longer lives, so it can be cleaned up.
            self._remove = Finalize(self, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=1)
            claim(folder, graph=operator.name)
            self._shard = Shard(folder / "shard", fingerprint=0, tracked=False)
        self.operator = operator.opened(self._shard, schemas)

    def close(self) -> None:
        self._remove()

    def apply(self, inputs: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
        """What each output port puts out for one batch, by ``seq``; inputs are sorted by ``seq``."""
        if self._shard is None:
            return self._apply(inputs)
        with self._shard.lock():
            self._shard.begin(self._shard.version + 1)
            outputs = self._apply(inputs)
            self._shard.settle(seq=self.operator.seq, tuples=0)
            self._shard.commit()
        return outputs

    def change(self, change: Callable[[Operator], None]) -> None:
        """Let a function change what the operator keeps."""
        if self._shard is None:
            return
        with self._shard.lock():
            self._shard.begin(self._shard.version + 1)
            change(self.operator)
            self._shard.settle(seq=None, tuples=0)
            self._shard.commit()

    def snapshot(self) -> Snapshot:
        arrays = self._shard.arrays if self._shard else []
        return Snapshot(
            counts=tuple(array.count for array in arrays),
            payloads=tuple(array.payload(array.all_chunks()) for array in arrays),
        )

    def set_back(self, to: Snapshot) -> None:
        """Keep again what was kept at the snapshot."""
        if self._shard is None:
            return
        with self._shard.lock():
            self._shard.reset()
            valid_counts = []
            for array, count, payload in zip(self._shard.arrays, to.counts, to.payloads, strict=True):
                array.load(np.arange(len(payload), dtype=np.int64), payload, count)
                valid_counts.append(np.full(len(payload), count, np.int64))
            self._shard.mend(valid_counts)
            self._shard.adopt()
            self._shard.recovered(version=0, backup_version=-1, failures=0, time_s=0)

    def _apply(self, inputs: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
        operator = self.operator
        operator.seq = BEFORE_ALL
        operator.begin()
        outs: list[Out] = []
        for port in operator.inputs:
            batch = inputs.get(port)
            if batch is not None and batch.num_rows:
                operator.seq = max(operator.seq, int(batch[SEQ][-1].as_py()))
                outs += operator.process(port, batch)
        outs += operator.finish()
        return {port: joined([out.batch for out in outs if out.port == port], schema)
                for port, schema in operator.schemas.items()}  # fmt: skip


def joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One record batch, sorted by ``seq``; what came first stays first among equals."""
    whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if not whole:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    assert len(whole) == 1
    seqs = np.asarray(whole[0][SEQ])
    if (seqs[1:] >= seqs[:-1]).all():
        return whole[0]
    return whole[0].take(pa.array(np.argsort(seqs, kind="stable")))
