"""Faults and campaigns on Spark: the same output and the same result as in one process."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import RunGraph, in_order
from tests.inject.small import campaign, ticks
from tests.inject.test_campaigns import result_of

import spillway as sw
from spillway.apps.bargain import build
from spillway.inject import parse_fault, plan, run_campaign, with_arrival, with_fault
from spillway.inject.full_trial import FullTrials
from spillway.operators.arrival import Interleaving
from spillway.parallel import ThisProcess


def test_the_same_fault_gives_the_same_output_on_both_runtimes(run_graph: RunGraph) -> None:
    graph = build(ticks(4_000), protect=sw.Nothing(), shards=2, sink=sw.Memory(), trades=5)
    arrival = Interleaving(seed=2, delay_max=50, settled_every=500)
    fault = parse_fault("outage:BargainIndex,offset=1000,length=300")
    found = run_graph(with_fault(with_arrival(graph, arrival), fault))["Sink"]
    wanted = FullTrials(graph, sink="Sink").faulty_output(fault, arrival)
    assert found.equals(in_order(pa.Table.from_batches([wanted])))


@pytest.mark.spark
def test_a_campaign_of_spark_tasks_leaves_the_same_result(spark: Any, tmp_path: Path) -> None:
    from spillway.parallel.tasks_on_spark import SparkTasks

    planned = plan(campaign(targets=("TradeFilter",), offsets=(2_000,)))
    run_campaign(planned, tmp_path / "spark", pool=SparkTasks(spark))
    run_campaign(planned, tmp_path / "here", pool=ThisProcess())
    assert result_of(tmp_path / "spark") == result_of(tmp_path / "here")
