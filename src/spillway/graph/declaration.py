"""What a graph needs to know of an operator: everything it declares, nothing of how it works."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol, Self

import pyarrow as pa

from spillway.graph.protections import Protection
from spillway.graph.watermarks import Watermark
from spillway.graph.windows import Windowing


class Declaration(Protocol):
    """An operator as the graph sees it; ``spillway.Operator`` is the base class that satisfies it."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input ports."""

    @property
    def feedback_inputs(self) -> tuple[str, ...]:
        """Names of further input ports, which take feedback."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output ports."""

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that decide which shard a tuple goes to; with none, several shards share tuples out by ``seq``."""

    @property
    def shards(self) -> int | None:
        """How many shards; None for as many as the graph has by default, or one if there is no key."""

    @property
    def protect(self) -> Protection: ...

    def protected_by(self, protect: Protection, *, anyway: bool = False) -> Self:
        """The same operator under this protection, unless it keeps no state, or (but ``anyway``) names one itself."""

    @property
    def windowing(self) -> Windowing | None:
        """Which tuples the state is about; None for all there ever were."""

    @property
    def windows_at_once(self) -> bool:
        """Whether it can keep several windows at a time."""

    def following(self, watermark: Watermark) -> Self:
        """The same operator with its windows ended by this watermark; asked once, before ``resolved``."""

    @property
    def delay_max(self) -> timedelta | None:
        """How late its output may be while a host is gone; None for what the graph says."""

    @property
    def delay_min(self) -> timedelta:
        """The least time in which it can be done with a tuple, wherever it runs."""

    @property
    def stateful(self) -> bool: ...

    @property
    def outputs_per_tuple_max(self) -> float:
        """β: the most output tuples that one input tuple can cause."""

    def resolved(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """The same operator with all that follows from the schemas of its input ports; asked once, before the rest."""

    def output_schemas(self, inputs: Mapping[str, pa.Schema]) -> Mapping[str, pa.Schema]:
        """The schema of each output port, given those of the input ports; refuses inputs that do not fit."""

    def describe_state(self) -> str:
        """Everything the layout of the state depends on, as one line."""
