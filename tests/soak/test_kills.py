"""Histories of killed drivers are made from seeds, and the judge finds what it is there to find."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

from spillway.backup import Step
from spillway.engine.job_logs import LogStep
from spillway.soak.host_graph import Outputs
from spillway.soak.host_holds import Holding
from spillway.soak.kill_graph import BATCHES, JOBS, OPERATORS, PROTECTED, WRITES, Loss, kill_graph, undisturbed
from spillway.soak.kill_world import compared
from spillway.soak.kills import READS, STEPS, WHOLE_STEPS, Stop, Stops, history


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_the_graph_is_as_it_is_told(tmp_path: Path) -> None:
    graphs = kill_graph(tmp_path, PROTECTED["exact"]).divided()
    assert tuple(graphs) == JOBS
    for job, graph in graphs.items():
        checked = graph.checked()
        assert [*checked.operators] == [OPERATORS[job]]
        assert {*checked.sources} - {"tuples"} == {*READS.get(job, ())}
        assert WRITES[job] in checked.exits


@pytest.mark.parametrize("protection", PROTECTED)
def test_histories_strike_everything_that_can_be_struck(protection: str) -> None:
    whole = PROTECTED[protection].jobs is not None
    steps = {**STEPS, **WHOLE_STEPS} if whole else STEPS
    kills = [kill for seed in range(300) for kill in history(seed, protection=protection).kills]
    assert {(kill.stop.step, kill.stop.place) for kill in kills if kill.stop is not None} == {
        (step, place) for step, there in steps.items() for places in there.values() for place in places
    }
    neighbours = {("first", "middle"), ("middle", "last")}
    assert {kill.jobs for kill in kills} == {*((job,) for job in JOBS), *neighbours, JOBS}
    # What the protection claims to bear.
    assert {kill.loss for kill in kills} == ({*Loss} if whole else {Loss.NOTHING, Loss.SHARDS})
    assert all(0 < kill.batch < BATCHES - 1 for kill in kills) and any(kill.stop is None for kill in kills)
    one = history(7, protection=protection)
    assert one == history(7, protection=protection) and all(kill.sentence() in one.sentence() for kill in one.kills)


def test_every_step_of_a_log_is_struck() -> None:
    assert {*LogStep} <= {**STEPS, **WHOLE_STEPS}.keys()


def test_who_comes_to_a_stop_waits_and_only_the_first(tmp_path: Path) -> None:
    holding = Holding(folder=tmp_path, holds=())
    stops = Stops(holding, [None, Stop(step="read", place="echo.out", batch=2)])
    stops.in_log(LogStep.READ, "echo.out", 1)
    stops.in_log(LogStep.READ, "counts.out", 2)
    stops.in_run(Step.COMMITTED, "echo.out", 0, 2)
    assert holding.held(1) is None
    holding.let_go(1)
    stops.in_log(LogStep.READ, "echo.out", 2)  # or this would wait for long
    assert holding.held(1) is not None


def test_an_output_that_is_another_is_found(wanted: Outputs) -> None:
    assert not [*compared(wanted, wanted)]
    lacking = {**wanted, "echo": {batch: table for batch, table in wanted["echo"].items() if batch != 4}}
    (said,) = compared(lacking, wanted)
    assert said == "Output 'echo' has batches [0, 1, 2, 3, 5], not [0, 1, 2, 3, 4, 5]."
    table = wanted["levels"][3]
    other = table.set_column(table.num_columns - 1, "times", pc.add(table["times"], 1))
    (said,) = compared({**wanted, "levels": {**wanted["levels"], 3: other}}, wanted)
    assert said.startswith(f"Output 'levels': batch 3 is another: {table.num_rows} rows differ, the first is ")
