"""The applications with windows, joins and feedback put out on Spark what they do in one process."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import in_order

import spillway as sw
from spillway.apps import APPS

CASES: list[tuple[str, dict[str, Any]]] = [
    ("hitters", {"window": 8_000, "phi": 5_000}),
    ("join", {}),
    ("lr", {}),
    ("ecg", {}),
    ("vitals", {}),
    ("vitals", {"feedback": 1}),
    ("vitals", {"feedback": 2}),
    ("fab", {}),
]


@pytest.mark.spark
@pytest.mark.parametrize(("app", "options"), CASES)
def test_both_runtimes_say_the_same(app: str, options: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    from spillway.spark import run as run_spark

    feed = APPS[app].generator(seed=4, tuples=20_000, tuples_per_batch=5_000)
    results: list[pa.Table] = []
    for runtime in ("local", "spark"):
        graph = APPS[app].build(feed, protect=sw.Approximate(200.0), **options)
        backups = str(tmp_path / runtime)
        if runtime == "local":
            with sw.LocalRun(graph, backups=backups) as local:
                local.run()
                results.append(in_order(local.result("out")))
        else:
            with run_spark(graph, spark, backups=backups) as run:
                run.wait()
                results.append(in_order(run.result("out")))
    assert results[0].num_rows > 0
    assert results[0].equals(results[1])
