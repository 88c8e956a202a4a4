"""Trials from start to end in which memory is lost for real, and state comes back from a backup of a certain age.

The targets are protected by checkpoints so far apart that one is as old as was asked for when the next is due, by a
clock that moves once a batch. From the fault's moment on their memory is lost as soon as the backup has that age; one
that never gets so old, since less came than that, gives nothing back. It is the product's own recovery that sets
state back, with whatever an operator does to make good (``Operator.recovered``).
"""

import math
from collections.abc import Iterable
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.clock import ManualClock
from spillway.errors import InputError
from spillway.graph.graph import Graph
from spillway.graph.protections import Checkpoint
from spillway.inject.faults.fault import SetBackFault
from spillway.inject.full_run import full_run
from spillway.inject.rewriting import check_targets
from spillway.inject.single_operator import joined
from spillway.local.run import LocalRun

Int64s = npt.NDArray[np.int64]

_BATCH = timedelta(seconds=1)  # by the clock of such a run


def output_set_back(graph: Graph, fault: SetBackFault, *, sink: str, seqs: Int64s) -> pa.RecordBatch:
    """What reaches a sink if state is set back; ``seqs`` are the numbers of all tuples that enter."""
    check_targets(graph, fault)
    checked, clock = graph.checked(), ManualClock()
    feeds = [source.feed for source in checked.sources.values() if source.feed is not None]
    batches = max(-(-feed.pieces // feed.pieces_per_batch) for feed in feeds)
    age = math.ceil(fault.length * batches / seqs.size)  # in batches
    shards = [(target, index) for target in fault.targets for index in range(checked.shards_of(target))]
    checkpoint = Checkpoint(every=(age + 1) * _BATCH, keep_stale=True)
    with full_run(graph.protected(dict.fromkeys(fault.targets, checkpoint)), clock=clock) as run:
        struck = False
        while run.step():
            clock.advance(_BATCH.total_seconds())
            if (
                not struck
                and run.batch < batches
                and _seq(run, shards) >= fault.offset
                and _age(run, fault.targets) >= min(age, run.batch)
            ):
                for target in fault.targets:
                    run.wipe(target)
                struck = True
        if not struck:
            raise InputError(
                f"Fault at {', '.join(fault.targets)}: after offset {fault.offset:,} the input ends before any backup "
                f"is {fault.length:,} tuples old."
            )
        table = run.result(sink)
    return joined(table.to_batches(), table.schema)


def _seq(run: LocalRun, shards: Iterable[tuple[str, int]]) -> int:
    """The number of the last tuple that any of the shards was given."""
    return max(run.shard(operator, index).seq for operator, index in shards)


def _age(run: LocalRun, targets: Iterable[str]) -> int:
    """The batches since the last backup of the targets; since the beginning, if there was none."""
    last = max((row.batch for row in run.records() if row.backup and row.operator in targets), default=-1)
    return run.batch - 1 - last
