"""Trials by parts give, tuple for tuple, what trials from start to end give."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from tests.inject.small import SETTLED, TUPLES, bargain, both_ways, ticks

from spillway.apps.bargain import build
from spillway.errors import GraphError, InputError
from spillway.graph import Discard, Exact
from spillway.inject import (
    Duplication,
    Fault,
    Outage,
    Reordering,
    StateCorruption,
    StateLoss,
    ValueCorruption,
    with_fault,
)
from spillway.inject.difference import compare
from spillway.inject.faults.state_set_back import StateSetBack
from spillway.inject.full_trial import FullTrials
from spillway.inject.trial import PartialTrials
from spillway.operators.arrival import Interleaving
from spillway.seeds import generator

TARGETS = ("Source", "TradeQuote", "TradeFilter", "QuoteFilter", "Aggregator", "VWAP", "BargainIndex")
GROUPS = (("TradeFilter", "Aggregator", "VWAP"), ("TradeFilter", "QuoteFilter"), ("Source", "TradeQuote"))


def random_fault(seed: int) -> tuple[Fault, Interleaving | None]:
    random = generator(seed, "trials")
    choices = [(target,) for target in TARGETS] + list(GROUPS)
    targets = choices[random.integers(len(choices))]
    offset = int(random.integers(200, 1_000))
    common = {
        "targets": targets,
        "offset": offset,
        "length": int(random.choice([1, 40, 700])),
        "at": "output" if random.random() < 0.3 else "input",
        "seed": seed,
    }
    kind = random.integers(4)
    arrival = None if random.random() < 0.3 else Interleaving(seed=seed, delay_max=50, settled_every=SETTLED)
    if kind == 0 or targets in (("VWAP",), ("BargainIndex",)) or targets in GROUPS or common["at"] == "output":
        return Outage(**common), arrival
    if kind == 1:
        return Duplication(**common), arrival
    if kind == 2:
        return Reordering(**common, reach=SETTLED), arrival
    price = "turnover" if targets == ("VWAP",) else "price"
    return ValueCorruption(**common, column=price), arrival


@pytest.mark.parametrize("target", ["Aggregator", "BargainIndex"])
def test_state_set_back_by_parts_is_that_of_a_real_recovery(target: str) -> None:
    parts, full = both_ways(bargain(), starts=(3_000,), set_back=(1_000,))
    fault = StateSetBack(targets=(target,), offset=3_000, length=1_000)  # where a batch begins: both strike there
    before, recovered = parts.run(fault, None), full.run(fault, None)
    parts.close()
    golden = full.output(None).batch
    assert before.difference.seqs().size
    assert before.difference.applied(golden).equals(recovered.difference.applied(golden))


def test_state_set_back_by_more_than_there_was_is_gone() -> None:
    parts, _ = both_ways(bargain(), starts=(2_000,), set_back=(5_000,))
    back, gone = (
        parts.run(kind(targets=("Aggregator",), offset=2_000, length=length), None).difference
        for kind, length in ((StateSetBack, 5_000), (StateLoss, 1))
    )
    parts.close()
    assert back.added.equals(gone.added)
    full = FullTrials(bargain(), sink="Sink")
    offset = 2_700  # in the batch that begins at 2,000
    recovered = full.run(StateSetBack(targets=("Aggregator",), offset=offset, length=5_000), None)
    assert recovered.difference.added.equals(gone.added)
    with pytest.raises(GraphError, match="'VWAP' keeps no state that could be set back"):
        full.run(StateSetBack(targets=("VWAP",), offset=500, length=1), None)
    with pytest.raises(GraphError, match="no graph sets back by itself what it keeps"):
        with_fault(bargain(), StateSetBack(targets=("Aggregator",), offset=500, length=1))


@pytest.fixture(scope="module")
def trials() -> Iterator[tuple[PartialTrials, FullTrials]]:
    parts, full = both_ways(bargain(), starts=tuple(range(0, TUPLES, 1_000)))
    yield parts, full
    parts.close()


@pytest.mark.parametrize("seed", range(24))
def test_a_trial_by_parts_is_the_full_trial(trials: tuple[PartialTrials, FullTrials], seed: int) -> None:
    parts, full = trials
    fault, arrival = random_fault(seed)
    outcome = parts.run(fault, arrival)
    golden = full.output(arrival).batch
    assert parts.output(arrival).batch.equals(golden), f"golden runs differ (seed {seed})"
    faulty = full.faulty_output(fault, arrival)
    assert outcome.difference.applied(golden).equals(faulty), f"faulty runs differ (seed {seed}): {fault}"
    wanted = compare(golden, faulty)
    assert np.array_equal(outcome.difference.seqs(), wanted.seqs())
    if outcome.rejoined_seq >= 0:
        assert not wanted.seqs().size or wanted.seqs()[-1] < outcome.rejoined_seq


def test_a_trial_ends_when_every_key_has_rejoined() -> None:
    parts, _ = both_ways(bargain(), starts=(2_000,))
    outcome = parts.run(Outage(targets=("QuoteFilter",), offset=2_000, length=100), None)
    parts.close()
    # Quotes leave no trace in any state: all keys have rejoined at the end of the first stretch.
    assert outcome.rejoined_seq == 2_000 + SETTLED
    assert not outcome.difference.added.num_rows


def test_an_offset_beyond_the_tuples_of_a_target_is_refused() -> None:
    parts, full = both_ways(bargain(), starts=(2_000,))
    fault = Outage(targets=("VWAP",), offset=TUPLES, length=10)
    for trials in (parts, full):
        with pytest.raises(InputError, match=r"offset 8,000 lies beyond"):
            trials.run(fault, None)
    parts.close()


def test_difference_of_streams_with_repeated_tuples() -> None:
    golden = pa.record_batch({"seq": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    faulty = pa.record_batch({"seq": [1, 2, 2, 3], "x": [1.0, 2.0, 2.0, 3.0]})
    difference = compare(golden, faulty)
    assert difference.seqs().tolist() == [2]
    assert difference.applied(golden).equals(faulty)
    assert compare(golden, golden).empty


@pytest.mark.parametrize("target", ["Aggregator", "BargainIndex"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_trial_of_corrupted_state_is_the_full_trial(
    trials: tuple[PartialTrials, FullTrials], target: str, seed: int
) -> None:
    parts, full = trials
    arrival = Interleaving(seed=seed, delay_max=50, settled_every=SETTLED)
    fault = StateCorruption(targets=(target,), offset=3_000, length=1, share=0.3, seed=seed)
    outcome = parts.run(fault, arrival)
    golden, faulty = full.output(arrival).batch, full.faulty_output(fault, arrival)
    assert outcome.difference.seqs().size
    assert outcome.difference.applied(golden).equals(faulty)
    assert outcome.rejoined_seq > 3_000


@pytest.mark.parametrize("target", ["Aggregator", "BargainIndex"])
def test_a_trial_of_lost_state_is_the_full_trial(trials: tuple[PartialTrials, FullTrials], target: str) -> None:
    parts, full = trials
    arrival = Interleaving(seed=7, delay_max=50, settled_every=SETTLED)
    fault = StateLoss(targets=(target,), offset=3_000, length=1)
    outcome = parts.run(fault, arrival)
    golden, faulty = full.output(arrival).batch, full.faulty_output(fault, arrival)
    assert faulty.num_rows < golden.num_rows  # it forgot averages, or trades: what it does not know gives no bargain
    assert outcome.difference.applied(golden).equals(faulty)


def test_only_state_by_key_can_be_corrupted(trials: tuple[PartialTrials, FullTrials]) -> None:
    for one in trials:
        with pytest.raises(GraphError, match="'VWAP' keeps no state by key"):
            one.run(StateCorruption(targets=("VWAP",), offset=3_000, length=1), None)


def test_a_graph_with_protections_is_run_as_it_is() -> None:
    graph = build(ticks(2_000), protect=Exact(), shards=2, sink=Discard(), trades=5)
    parts, full = both_ways(graph, starts=(1_000,))
    fault = Outage(targets=("TradeFilter",), offset=1_000, length=100)
    changed = parts.run(fault, None).difference.applied(full.output(None).batch)
    parts.close()
    assert changed.equals(full.faulty_output(fault, None))
