"""Trials from start to end in which memory is lost for real, and state comes back from a backup of a certain age.

The targets are protected by checkpoints and given a clock that stands still, so that nothing is saved until it is moved
on for one batch: the one whose end is as long before the fault as was asked for. If there is none, nothing is given
back. It is the product's own recovery that sets state back, with whatever an operator does to make good
(``Operator.recovered``).
"""

import math
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spillway.clock import ManualClock
from spillway.graph.graph import Graph
from spillway.graph.protections import Checkpoint
from spillway.inject.faults.fault import SetBackFault
from spillway.inject.full_run import batches_of, full_run
from spillway.inject.rewriting import check_targets
from spillway.inject.single_operator import joined

Int64s = npt.NDArray[np.int64]

_EVERY = timedelta(seconds=1)


def output_set_back(graph: Graph, fault: SetBackFault, *, sink: str, seqs: Int64s) -> pa.RecordBatch:
    """What reaches a sink if state is set back as a batch begins, the last one before the fault's offset.

    ``seqs`` are the numbers of all tuples that enter; batches are taken to have equally many.
    """
    check_targets(graph, fault)
    batches, clock = batches_of(graph.checked()), ManualClock()
    struck = int(np.searchsorted(seqs, fault.offset)) * batches // seqs.size
    saved = struck - 1 - math.ceil(fault.length * batches / seqs.size)
    checkpoint = Checkpoint(every=_EVERY, keep_stale=True)
    with full_run(graph.protected(dict.fromkeys(fault.targets, checkpoint)), clock=clock) as run:
        for batch in range(batches):
            if batch == struck:
                for target in fault.targets:
                    run.wipe(target)
            if batch == saved:
                clock.advance(_EVERY.total_seconds())
            run.step()
        table = run.result(sink)
    return joined(table.to_batches(), table.schema)
