"""How a run's query is named and triggered."""

from typing import Any

from pyspark.sql import SparkSession

from spillway.graph.checked import CheckedGraph


def default_trigger(graph: CheckedGraph) -> dict[str, Any]:
    if all(source.feed is not None for source in graph.sources.values()):
        return {"availableNow": True}
    return {"processingTime": "0 seconds"}


def free_name(spark: SparkSession, name: str) -> str:
    """The name, or the name with a number if a query of the session has it: Spark refuses the same name twice."""
    taken = {query.name for query in spark.streams.active}
    names = (name, *(f"{name} {number}" for number in range(2, len(taken) + 2)))
    return next(free for free in names if free not in taken)
