"""Whether tuples come added up: where that is possible, and in which batches it is worth it.

A source that only Spark can read gives rows, and bringing each of them to Python is most of what a batch costs. Where
the only thing that reads it adds numbers to keys, Spark can add up within the batch first, so that Python sees each key
once. That costs Spark a look-up per tuple and an exchange per key, so it pays where keys are few beside tuples, and
costs up to twice the batch where they are not. Measured with words, a million tuples a batch, processor time of the
batch with adding up over without: 0.6 with 0.01 keys a tuple, 0.8 with 0.03, 1.1 with 0.1, 1.2 with 0.25, 1.8 with 0.8.

So a run begins without, looks at the keys of a batch now and then, and adds up from the next batch on while there are
few. What is decided concerns speed alone: state, outputs and errors are those of the tuples one by one. A batch in
which that cannot be shown (see ``added_numbers``) is run again without, as is one that is refused: what is then said of
it is what would have been said anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spillway.graph.checked import CheckedGraph
from spillway.graph.feeds import SEQ
from spillway.graph.nodes import Edge
from spillway.graph.stages import stages
from spillway.operators.operator import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingPlan:
    """What is added up: the tuples of a source, on the one edge that they take."""

    source: str
    edge: Edge
    by: tuple[str, ...]
    sums: tuple[str, ...]
    key: tuple[str, ...]  # some of ``by``, in the order in which they decide on the shard
    shards: int


def adding_plan(graph: CheckedGraph, operators: Mapping[str, Operator]) -> AddingPlan | None:
    """What can be added up in a graph; None if somebody may look at single tuples.

    That is a second reader, an operator in between, a window, an item log, or shards that share tuples out by number.
    Several sources are left alone: their tuples come through one plan of Spark's, as bytes.
    """
    first, *later = stages(graph)
    edges = [edge for source in graph.sources for edge in graph.out_of(source)]
    if not later or first.operators or len(graph.sources) != 1 or len(edges) != 1 or later[0].arriving != (*edges,):
        return None
    (source,), (edge,) = graph.sources.values(), edges
    operator = operators.get(edge.node)
    if operator is None or source.feed is not None or source.files is not None:
        return None
    if operator.ordered or operator.windowing is not None or operator.protect.keeps_items:
        return None
    declared = operator.adds_up(edge.port) if _speaks_for_process(operator) else None
    shards = graph.shards_of(edge.node)
    if declared is None or not set(operator.key) <= set(declared.by) or (shards > 1 and not operator.key):
        return None
    types = {column.name: column.type for column in source.schema if column.name != SEQ}
    if not all(name in types and _is_key(types[name]) for name in declared.by):
        return None
    if not all(types.get(name) == pa.int64() for name in declared.sums):
        return None
    return AddingPlan(
        source=source.name, edge=edge, by=declared.by, sums=declared.sums, key=tuple(operator.key), shards=shards
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddingRule:
    """When adding up is worth it."""

    tuples_least: int = 100_000  # of a batch; with fewer there is nothing to gain
    begin_below: float = 0.03  # keys a tuple
    end_above: float = 0.06  # apart, so that what lies between does not go to and fro
    look_every: int = 16  # batches, and more often at first; looking takes a hundredth of one
    rest: int = 100  # batches after one that was run in vain

    def looks_at(self, batch: int, *, first_batch: int) -> bool:
        """Whether tasks look at the keys of a batch; ``first_batch`` is the first of the run, often not like others."""
        since = batch - first_batch
        return since % self.look_every == 0 or (since < self.look_every and since.bit_count() == 1)


ADDING_RULE = AddingRule()


class Choosing:
    """Whether the next batch is added up, from what the ones before were like.

    >>> choosing = Choosing(ADDING_RULE)
    >>> choosing.seen(tuples=1_000_000, keys=10_000, fit=True)
    >>> choosing.adds_up
    True
    >>> choosing.seen(tuples=1_000_000, keys=700_000, fit=True)
    >>> choosing.adds_up
    False
    """

    def __init__(self, rule: AddingRule) -> None:
        self._rule = rule
        self._resting = 0
        self.adds_up = False
        self.batches = 0
        """How many batches were added up."""

    def seen(self, *, tuples: int, keys: float, fit: bool) -> None:
        """A batch had so many tuples and keys; ``fit`` says whether it could have been added up, or was."""
        below = self._rule.end_above if self.adds_up else self._rule.begin_below
        few = tuples >= self._rule.tuples_least and keys < below * tuples
        self.adds_up = few and fit and not self._resting

    def ended(self, *, added_up: bool) -> None:
        """A batch is done."""
        self.batches += added_up
        self._resting = max(0, self._resting - 1)

    def run_in_vain(self) -> None:
        """A batch that was added up has to be run without."""
        self.adds_up, self._resting = False, self._rule.rest


def _speaks_for_process(operator: Operator) -> bool:
    """Whether what it declares was declared with its ``process`` in mind, and not by a base class with another."""
    kinds = type(operator).__mro__
    defined = {
        name: next(place for place, kind in enumerate(kinds) if name in vars(kind))
        for name in ("process", "process_added", "adds_up")
    }
    return max(defined["process_added"], defined["adds_up"]) <= defined["process"]


def _is_key(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_signed_integer(kind))
