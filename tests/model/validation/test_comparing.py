"""What the model is told of the runs that it is compared with."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import spillway as sw
from spillway.graph.feeds import SEQ_FIELD
from spillway.model.from_graph import flow_of
from spillway.model.validation.comparing import Plan, profile_of, taken_over
from spillway.model.validation.judging import undisturbed
from spillway.model.validation.predicting import Parameters, Question, predict
from spillway.model.validation.ways import READING, WAYS, WRITING, Times, jobs_of, killed
from spillway.model.validation.world import Lived, Terms

SCHEMA = pa.schema([SEQ_FIELD, pa.field("key", pa.int64(), nullable=False)])
TUPLES = 100
TERMS = Terms(interval_s=0.5, settle_s=10.0, horizon_s=20.0, crash_rate=0.0, recovery_s=3.5, seed=1)


def tuples(piece: int) -> pa.RecordBatch:
    """Before the batches that are measured, two of ten are even; in them six, and then one."""
    even = 20 if piece < TERMS.first_batch else 60 if piece < TERMS.batches else 10
    numbers = np.arange(TUPLES)
    return pa.record_batch([piece * TUPLES + numbers, (numbers >= even).astype(np.int64)], schema=SCHEMA)


def graph() -> sw.Graph:
    drawn = sw.Graph("changing")
    source = drawn.source("in", sw.Generator(make=tuples, schema=SCHEMA, pieces=200))
    even = drawn.add(sw.operators.Where("even", sw.field("key") == 0), source)
    counts = drawn.add(sw.operators.Count("counts", key="key", protect=sw.Exact()), even)
    drawn.sink("out", counts, sw.Discard())
    return drawn


def test_the_model_is_told_of_the_batches_that_are_measured(tmp_path: Path) -> None:
    plan = Plan(
        graph=graph(), ways=("group",), times=Times(), terms=TERMS, rate=200, runs=1, repetitions=1, samples=100,
        tolerance=0.05,
    )  # fmt: skip
    profile = profile_of(plan, tmp_path / "backups")
    assert profile.operators["even"].ports["in"].selectivity == {"out": 0.6}
    written = undisturbed(graph(), TERMS.batches, out=tmp_path / "out", backups=str(tmp_path / "more"))["out"]
    wanted = sum(table.num_rows for batch, table in written.items() if batch >= TERMS.first_batch)
    jobs = jobs_of(graph())
    question = Question(
        flow=flow_of(graph().checked(), profile),
        way=WAYS["group"],
        jobs=killed(jobs),
        spared=(*jobs[READING], *jobs[WRITING]),
        crash_rate=0.0,
        horizon_s=TERMS.horizon_s,
        runs=1,
    )
    told = Parameters(recovery_s=3.5, failover_s=1.0, checkpoint_age_s=1.0, settling={})
    assert predict(question, told, samples=100, seed=1)["output"].contains(wanted)


def test_only_where_another_takes_over_is_there_a_failover() -> None:
    lived = [Lived(failovers_s=[1.2, 4.0]), Lived(failovers_s=[1.4])]
    assert taken_over(lived, WAYS["group"], TERMS) == [1.2, 1.4], "when both were down, nobody took over"
    assert taken_over(lived, WAYS["checkpoint"], TERMS) == taken_over(lived, WAYS["replication"], TERMS) == []
