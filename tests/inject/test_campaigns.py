"""Campaigns: planned, run, killed and resumed, in one process or several, always with the same result."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.inject.small import Running, bargain, campaign, ticks

from spillway.errors import GraphError, InputError, RunError, SpillwayError
from spillway.graph import Contract, Discard, Graph
from spillway.inject import Assumed, plan, run_campaign
from spillway.inject.difference import Difference
from spillway.inject.trial_maker import TrialMaker, tuples_and_rates
from spillway.operators import Select, Union
from spillway.parallel import Processes, ThisProcess
from spillway.records.campaign import CampaignRecords
from spillway.records.campaign_rows import AffectedKey, TrialKey
from spillway.score import Sum

RESULT = ("result.json", "trials.parquet", "golden.parquet", "affected.parquet")


class CutShortError(Exception):
    pass


class Interrupting(ThisProcess):
    """Performs so many tasks and then dies."""

    def __init__(self, after: int) -> None:
        self._left = after

    def completed(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task in tasks:
            if not self._left:
                raise CutShortError
            self._left -= 1
            yield task, work(task)


class Dying(ThisProcess):
    """One of its processes dies."""

    def completed(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        raise RunError("A process died.")


class Counting(ThisProcess):
    """Counts the runs it is asked for."""

    def __init__(self) -> None:
        self.runs = 0

    def completed(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        for task, answer in super().completed(work, tasks):
            self.runs += task.runs
            yield task, answer


def result_of(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in RESULT}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("campaign")
    run_campaign(plan(campaign()), directory, pool=ThisProcess())
    return directory


def test_a_campaign_is_what_its_declaration_says(finished: Path) -> None:
    records = run_campaign(plan(campaign()), finished, pool=ThisProcess())  # finished already: nothing is run
    assert records.declaration.targets == ("Source", "TradeFilter", "QuoteFilter", "VWAP", "BargainIndex")
    assert len(records.trials) == 5 * 2 * 2 * 2  # targets, offsets, outages, repetitions
    assert len(records.golden) == 3
    assert len(records.affected) == 5 * 2
    assert [row.target for row in records.metrics] == list(records.declaration.targets)
    quotes = next(row for row in records.metrics if row.target == "QuoteFilter")
    assert (quotes.qs, quotes.coq, quotes.sigma, quotes.anova_accepted) == (0.0, -1.0, 0.0, True)
    assert not (finished / "work").exists()


def test_lengths_are_those_of_the_target_at_its_measured_rate() -> None:
    maker = TrialMaker(campaign())
    rates = {"average": 500.0, "peak": 2200.0}
    faults = {
        (target, rate): maker.fault(TrialKey("", target, rate, 5_000, 0.4, 0), rates)
        for target in ("Source", "TradeFilter", "QuoteFilter", "VWAP") for rate in rates
    }  # fmt: skip
    maker.close()
    assert faults["Source", "average"].length == faults["TradeFilter", "average"].length == 200
    assert faults["Source", "peak"].length == 880
    assert 0.15 * 880 < faults["VWAP", "peak"].length < 0.25 * 880  # a fifth of all tuples are trades
    assert faults["QuoteFilter", "peak"].offset == 5_000
    assert 800 < faults["VWAP", "peak"].offset < 1_200


def test_rates_are_measured_from_the_times_of_tuples() -> None:
    tuples, rates = tuples_and_rates(bargain().checked())
    assert tuples == 8_000
    assert 300 < rates["average"] < 600 and rates["peak"] >= rates["average"]


@pytest.mark.parametrize("after", [0, 4, 10, 13])
def test_a_campaign_cut_short_and_resumed_gives_the_same_bytes(finished: Path, tmp_path: Path, after: int) -> None:
    planned = plan(campaign())
    with pytest.raises(CutShortError):
        run_campaign(planned, tmp_path, pool=Interrupting(after))
    assert not (tmp_path / "result.json").exists()
    counting = Counting()
    run_campaign(planned, tmp_path, pool=counting)
    assert result_of(tmp_path) == result_of(finished)
    assert counting.runs < 43 or not after


def test_every_trial_is_that_of_a_full_run() -> None:
    small = campaign(offsets=(2_000,), outages_s=(0.1, 0.4), rates={"peak": 2200.0})
    rates = {"peak": 2200.0}
    makers = TrialMaker(small), TrialMaker(small, full=True)
    for target in ("Source", "TradeFilter", "VWAP", "BargainIndex"):
        keys = [[TrialKey("", target, "peak", 2_000, outage, n) for n in range(2)] for outage in small.outages_s]
        (parts, part_seqs), (full, full_seqs) = (maker.try_affected(keys[1], rates) for maker in makers)
        assert np.array_equal(part_seqs, full_seqs)
        parts += makers[0].try_all(keys[0], rates, part_seqs)
        full += makers[1].try_all(keys[0], rates, full_seqs)
        for part, one in zip(parts, full, strict=True):
            assert (part.key, part.osf, part.section_first) == (one.key, one.osf, one.section_first)
            assert (part.offset_tuples, part.outage_tuples) == (one.offset_tuples, one.outage_tuples)
            assert part.local_osf.tobytes() == one.local_osf.tobytes()
    for number in range(2):
        left, right = (maker.golden(number, {}) for maker in makers)
        assert left.local_osf.tobytes() == right.local_osf.tobytes()
    makers[0].close()


def promised() -> Graph:
    """A graph with a contract on what is scored."""
    graph = Graph("promised")
    prices = graph.add(Select("prices", ["symbol", "price"]), graph.source("Source", ticks()))
    graph.sink("Sink", prices, Discard(), contract=Contract(lossless=True))
    return graph


def test_trials_tell_whether_the_scored_sink_kept_its_contract(tmp_path: Path) -> None:
    small = campaign(
        input=promised, score=Sum("price"), offsets=(2_000,), outages_s=(0.4,), targets=("prices",), repetitions=1
    )
    records = run_campaign(plan(small), tmp_path, pool=ThisProcess())
    assert [trial.contract_held for trial in records.trials] == [False]
    maker = TrialMaker(small)
    golden = maker.runner.output(maker.arrival(0))
    untouched = Difference(lost=golden.seqs[:0], added=golden.batch.slice(0, 0))
    assert maker._contract_held(golden, untouched) is True
    maker.close()


def test_without_a_contract_there_is_nothing_to_hold(finished: Path) -> None:
    assert {trial.contract_held for trial in CampaignRecords.read(finished).trials} == {None}


def test_a_replicated_group_loses_only_what_it_would_have_put_out(tmp_path: Path) -> None:
    group = ("TradeFilter", "Aggregator", "VWAP")
    assumed = Assumed(name="twice", operators=group, how="replicated", outage_s=0.02)
    small = campaign(targets=("TradeFilter", "QuoteFilter"), rates={"peak": 2200.0}, assumed=(assumed,))
    records = run_campaign(plan(small), tmp_path, pool=ThisProcess())
    before, after = (next(row for row in records.metrics if (row.target, row.plan) == ("TradeFilter", p))
                     for p in ("", "twice"))  # fmt: skip
    assert after.ilq < before.ilq
    assert {row.target for row in records.metrics if row.plan} == {"TradeFilter"}  # quotes are not protected


def test_operators_that_fail_together_are_a_target(tmp_path: Path) -> None:
    group = {"trades": ("TradeFilter", "Aggregator", "VWAP")}
    small = campaign(targets=("TradeFilter",), groups=group, offsets=(2_000,))
    alone, together = run_campaign(plan(small), tmp_path, pool=ThisProcess()).metrics
    # What reaches the group is what reaches the first of it.
    assert (alone.target, together.target) == ("TradeFilter", "trades")
    assert (alone.ilq, alone.rlq_sections, alone.qs) == (together.ilq, together.rlq_sections, together.qs)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "state", "model_options": {"share": 0.5}, "offsets": (2_000, 5_250)},
        {"model": "duplication", "targets": ("TradeFilter", "QuoteFilter")},
        {"assumed": (Assumed(name="old", operators=("Source",), how="checkpointed", outage_s=0.1, stale_s=0.7),)},
    ],
)
def test_other_faults_and_protections_make_campaigns_too(tmp_path: Path, changes: dict[str, object]) -> None:
    records = run_campaign(plan(campaign(**changes)), tmp_path, pool=ThisProcess())
    assert records.metrics
    assert all(row.qs != 1.0 for row in records.metrics)
    for trial in records.trials:
        assert trial.section_first <= trial.offset_seq // 500


def test_processes_leave_the_same_result(finished: Path, tmp_path: Path) -> None:
    with Processes(2) as processes:
        run_campaign(plan(campaign()), tmp_path, pool=processes)
    assert result_of(tmp_path) == result_of(finished)


def test_a_process_that_dies_leaves_a_campaign_to_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"A process died. What was done is kept in {tmp_path}: resume it."):
        run_campaign(plan(campaign()), tmp_path, pool=Dying())


def unsettled() -> Graph:
    graph = Graph("running")
    graph.sink("Sink", graph.add(Running("running"), graph.source("Source", ticks(1_000))), Discard())
    return graph


def test_a_graph_that_promises_nothing_is_run_in_full() -> None:
    maker = TrialMaker(campaign(input=unsettled, offsets=(200,), targets=("running",)))
    assert "promises neither" in maker.full_because
    keys = [TrialKey("", "running", "peak", 200, 0.01, 0)]
    tried, affected = maker.try_affected(keys, {"peak": 2200.0})
    assert tried[0].rejoined_seq == -1
    assert affected.size


def repeating() -> Graph:
    graph = Graph("twice")
    source = graph.source("Source", ticks(1_000))
    both = [graph.add(Select(name, ["price"]), source) for name in ("one", "two")]
    graph.sink("Sink", graph.add(Union("both"), *both), Discard())
    return graph


def test_tuples_that_share_a_seq_are_told_apart_by_full_runs() -> None:
    maker = TrialMaker(campaign(input=repeating, offsets=(200,), score=Sum("price")))
    assert maker.full_because == "operator 'both' puts out several tuples of one seq"
    (tried,), affected = maker.try_affected([TrialKey("", "one", "peak", 200, 0.01, 0)], {"peak": 2200.0})
    right = maker.golden(0, {AffectedKey("", "one", "peak", 200): affected})
    assert affected.tolist() == list(range(200, 222))
    assert tried.osf == pytest.approx(right.affected_osf[0] / 2)  # one of the two is lost


def nothing(output: pa.Table) -> float:
    return 0.0


def not_a_number(output: pa.Table) -> float:
    return float("nan")


def failing(output: pa.Table) -> float:
    raise KeyError("gain")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"targets": ("Quotes",)}, "'Quotes' is no source or operator"),
        ({"targets": ("Sink",)}, "'Sink' is no source or operator"),
        ({"sink": "out"}, "has no sink 'out'"),
        ({"offsets": (2_000, 8_000)}, "offset 8,000 lies beyond the input, which has 8,000 tuples"),
        ({"groups": {"both": ("TradeFilter", "VWAP")}}, "'Aggregator' lies between"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is_written(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpillwayError, match=sentence):
        plan(campaign(**changes))


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (nothing, "golden score nothing is zero"),
        (not_a_number, "has to give a finite number|gave no finite number"),
        (failing, "KeyError"),
    ],
)
def test_a_score_that_cannot_be_used_leaves_no_result(tmp_path: Path, score: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        run_campaign(plan(campaign(score=score)), tmp_path, pool=ThisProcess())
    assert not any((tmp_path / name).exists() for name in RESULT)


def test_local_scores_can_be_had_where_quality_has_no_proportion(tmp_path: Path) -> None:
    asked = campaign(score=nothing, local_only=True)
    records = run_campaign(plan(asked), tmp_path, pool=ThisProcess())
    assert records.trials
    assert all(row.ilq == 0 for row in records.trials)
    assert not records.metrics
    assert run_campaign(plan(asked), tmp_path, pool=ThisProcess()).trials == records.trials


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": "fire"}, "Campaign 'small': There is no fault model 'fire'; there are "),
        ({"model": "corruption"}, "does not fit"),
        ({"golden_repetitions": 1}, "at least as many golden runs"),
        ({"offsets": ()}, "at least one offset"),
        ({"outages_s": (0.0,)}, "above zero"),
    ],
)
def test_a_campaign_that_makes_no_sense_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises((InputError, GraphError), match=sentence):
        campaign(**changes)


@pytest.mark.kill
def test_a_killed_campaign_resumes_in_another_process(finished: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from tests.inject.small import campaign\n"
        "from spillway.inject import plan, run_campaign\n"
        "from spillway.parallel import ThisProcess\n"
        "run_campaign(plan(campaign()), Path(sys.argv[1]), pool=ThisProcess(),\n"
        "             observe=lambda progress: print(progress.done, flush=True))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 23:
                child.send_signal(signal.SIGKILL)
                break
    assert json.loads((tmp_path / "manifest.json").read_bytes())["ended"] == "running"
    run_campaign(plan(campaign()), tmp_path, pool=ThisProcess())
    assert result_of(tmp_path) == result_of(finished)
