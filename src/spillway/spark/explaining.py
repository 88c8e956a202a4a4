"""Where the time of a query that runs goes: its own reports, asked for and nothing else done to it."""

import json
from typing import Any

from pyspark.sql import SparkSession

from spillway.errors import RunError
from spillway.records.advising import advised
from spillway.records.explaining import Explanation, explained
from spillway.records.spark_reports import Reports, gathered


def explain(query: Any) -> Explanation:
    """Say where the time of a Spark streaming query goes and what our settings or ``sw.protect`` would change.

    ``query`` is what ``start()`` returned, or anything with its ``recentProgress``, such as a run's ``query``: its last
    batches, 100 as Spark has it, are looked at, and it runs on untouched. Print what comes back, or take its figures.
    """
    if not hasattr(query, "recentProgress"):
        raise RunError(f"explain wants a streaming query, as start() returns it; got {type(query).__name__}.")
    spark = SparkSession.getActiveSession()
    cores = None if spark is None else int(spark.sparkContext.defaultParallelism)
    reports = gathered((json.loads(report.json) for report in query.recentProgress), cores=cores)
    name = str(getattr(query, "name", None) or getattr(query, "id", "query"))
    return advised(explained(reports[-1] if reports else Reports(query=name, reports=())))
