"""Operators whose state is struck: as they are, but for one moment at which a fault changes what they keep."""

import copy
from collections.abc import Iterator
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from spillway.graph.feeds import SEQ
from spillway.inject.faults.fault import StateFault
from spillway.operators.keyed import Keyed
from spillway.operators.merging import Int64s, Merging
from spillway.operators.operator import Operator, Out
from spillway.state.primitives import Number


def with_struck_state(operator: Operator, fault: StateFault) -> Operator:
    """The operator as it is, or, if it is a target, one whose state is struck."""
    if operator.name not in fault.targets:
        return operator
    assert isinstance(operator, Keyed)
    kind = type(operator)
    changed = copy.copy(operator)
    base = _StruckWhenMerging if isinstance(operator, Merging) else _StruckWhenProcessing
    changed.__class__ = type(f"Struck{kind.__name__}", (base, kind), {})
    changed.__dict__["fault"] = fault
    return changed


class _Struck:
    """Strikes once, as soon as a batch reaches the fault's moment; that it has done so is part of the state."""

    fault: StateFault
    struck = Number(dtype="int64")
    parameters: ClassVar[tuple[str, ...]] = ("fault",)

    def _strike_before(self, batch: pa.RecordBatch) -> None:
        reached = batch.num_rows and pc.max(batch[SEQ]).as_py() >= self.fault.offset
        if reached and not self.struck:
            assert isinstance(self, Operator)
            self.fault.corrupt(self)
            self.struck = 1  # last: a fault may drop all of the state, and this with it


class _StruckWhenProcessing(_Struck, Operator):
    def process(self, port: str, batch: pa.RecordBatch) -> Iterator[Out]:
        self._strike_before(batch)
        return super().process(port, batch)


class _StruckWhenMerging(_Struck, Merging):
    def merged(self, batches: dict[str, pa.RecordBatch], ports: Int64s) -> Iterator[Out]:
        for batch in batches.values():
            self._strike_before(batch)
        return super().merged(batches, ports)  # type: ignore[safe-super]
