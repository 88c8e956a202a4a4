"""Contracts of sinks: what they ask, and that a graph which cannot keep one is refused with what stands in the way."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.graph.declared import Step, chain, feed, source

from spillway.backup.policies import protections
from spillway.errors import GraphError
from spillway.graph import (
    Approximate,
    Checkpoint,
    Contract,
    Coordinated,
    Exact,
    Graph,
    Memory,
    Nothing,
    Protection,
    Uncoordinated,
    UpstreamBackup,
)
from spillway.graph.contracts import Guarantee
from spillway.graph.keeping import check_contracts
from spillway.local import LocalRun
from spillway.operators import Count

LOSSLESS = Contract(lossless=True)
EVERY = [
    (Nothing(), False),
    (Checkpoint(every=10), False),
    (Approximate(theta=5.0), False),
    (Exact(), True),
    (UpstreamBackup(every=10), True),
    (Coordinated(batches=3), True),
    (Uncoordinated(batches=3), True),
]


def kept(name: str, protect: Protection, **options: Any) -> Step:
    return Step(name=name, stateful=True, key=("k",), protect=protect, **options)


def promising(*steps: Step, contract: Contract = LOSSLESS, **options: Any) -> Graph:
    graph = Graph("g", **options)
    stream = source(graph)
    for step in steps:
        stream = graph.add(step, stream)
    graph.sink("out", stream, Memory(), contract=contract)
    return graph


def test_every_protection_is_tried_here() -> None:
    ours = {kind for kind in protections() if kind.__module__ == Protection.__module__}  # other tests have theirs
    assert {type(protect) for protect, _ in EVERY} == ours


@pytest.mark.parametrize(("protect", "lossless"), EVERY, ids=lambda value: getattr(value, "describe", str)())
def test_a_protection_keeps_what_it_says(protect: Protection, lossless: bool) -> None:
    assert protect.guarantee.lossless is lossless
    assert protect.guarantee.why
    graph = promising(Step(name="pick"), kept("count", protect))
    if lossless:
        graph.checked()
    else:
        with pytest.raises(GraphError) as refused:
            graph.checked()
        lines = str(refused.value).splitlines()
        assert lines[0] == "Sink 'out': its contract (lossless) cannot be kept."
        assert lines[2].split("  ")[1].strip() == "operator"
        (row,) = lines[4:]
        cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
        assert cells == ["count", protect.describe(), "order in a stream", protect.guarantee.why, protect.instead]


def test_a_protection_of_ones_own_takes_part_by_its_declaration() -> None:
    class Replicated(Protection):
        @property
        def loses_nothing(self) -> bool:
            return True

    promising(kept("count", Replicated())).checked()


def test_only_what_is_upstream_counts_and_feedback_is_upstream() -> None:
    graph = Graph("g")
    stream = source(graph)
    exact = Step(name="exact", stateful=True, key=("k",), protect=Exact(), feedback_inputs=("back",))
    graph.sink("out", graph.add(exact, stream), Memory(), contract=LOSSLESS)
    loose = graph.add(kept("loose", Nothing()), stream)
    graph.sink("other", loose, Memory())
    graph.connect(loose, "exact", "back", feedback=True, durable=True)
    with pytest.raises(GraphError, match=r"(?m)^  loose +Nothing"):
        graph.checked()


@pytest.mark.parametrize(("durable", "protect"), [(False, Exact()), (True, Exact()), (False, Coordinated(batches=3))])
def test_feedback_that_is_lost_with_memory_breaks_it(durable: bool, protect: Protection) -> None:
    graph = Graph("g")
    step = Step(name="a", stateful=True, key=("k",), protect=protect, feedback_inputs=("back",))
    stream = graph.add(step, source(graph))
    graph.connect(stream, "a", "back", feedback=True, durable=durable)
    graph.sink("out", stream, Memory(), contract=LOSSLESS)
    if durable or protect.of_job:
        graph.checked()
    else:
        with pytest.raises(GraphError, match="feedback that is on its way is lost with memory"):
            graph.checked()


def test_a_source_that_may_lose_something_breaks_it() -> None:
    graph = promising(Step(name="pick"))
    weak = Guarantee(lossless=False, why="the receiver may lose up to 5 items", instead="a receiver with items 0")
    check_contracts(graph.checked())
    with pytest.raises(GraphError, match=r"(?m)^  s +source .* the receiver may lose up to 5 items"):
        check_contracts(graph.checked(), {"s": weak})


def test_a_source_may_say_so_itself() -> None:
    class Loose:
        def __init__(self) -> None:
            self.schema, self.pieces, self.pieces_per_batch = feed().schema, 1, 1
            self.guarantee = Guarantee(lossless=False, why="it forgets", instead="another")

        def read(self, piece: int) -> Any: ...

    graph = Graph("g")
    graph.sink("out", graph.source("s", Loose()), Memory(), contract=LOSSLESS)
    with pytest.raises(GraphError, match="it forgets"):
        graph.checked()


def test_delay_is_that_of_hosts_that_are_waited_for() -> None:
    five_s = Contract(delay_max=timedelta(seconds=5))
    with pytest.raises(GraphError, match=r"count +Exact +at most 60 s late .* delay_max of 5 s or less"):
        promising(kept("count", Exact()), contract=five_s).checked()
    promising(kept("count", Exact()), contract=five_s, delay_max=timedelta(seconds=5)).checked()
    promising(Step(name="pick"), contract=five_s).checked()


def test_order_between_streams_is_for_looking_back_only() -> None:
    promising(kept("count", Nothing()), contract=Contract(order="stream")).checked()
    with pytest.raises(GraphError, match="tuples that come in one batch have one time"):
        promising(kept("count", Exact()), contract=Contract(order="between")).checked()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Contract, "nothing is asked"),
        (lambda: Contract(lossless="yes"), "lossless is True or False"),  # type: ignore[arg-type]
        (lambda: Contract(delay_max=5), "delay_max must be a timedelta"),  # type: ignore[arg-type]
        (lambda: Contract(delay_max=timedelta(seconds=-1)), "delay_max must be a timedelta"),
        (lambda: Contract(order="any"), "order is one of stream, between"),  # type: ignore[arg-type]
        (lambda: promising(contract="lossless"), "contract is a Contract"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_contract_is_refused(make: Callable[[], object], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        make()


def test_a_run_is_refused_before_it_begins() -> None:
    graph = Graph("g")
    count = graph.add(Count("count", key="k", protect=Nothing()), source(graph))
    graph.sink("out", count, Memory(), contract=LOSSLESS)
    with pytest.raises(GraphError, match="use instead"):
        LocalRun(graph)


def test_a_contract_is_drawn_with_its_sink() -> None:
    assert (
        "lossless, at most 5 s late"
        in promising(contract=Contract(lossless=True, delay_max=timedelta(seconds=5))).draw()
    )
    assert "lossless" not in chain().draw()
