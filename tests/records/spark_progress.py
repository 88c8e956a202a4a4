"""Progress reports by hand, of the shapes that Spark 4.3 gives them."""

from typing import Any

HDFS = {"loadedMapCacheHitCount": 8, "loadedMapCacheMissCount": 0, "stateOnCurrentVersionSizeBytes": 78896}
ROCKSDB = {"rocksdbCommitFlushLatency": 29, "rocksdbGetCount": 1000}


def report(batch: int, *, rows: int = 1000, began_s: float | None = None, **changed: Any) -> dict[str, Any]:
    """A batch of 100 ms without state: 20 of planning, 30 of logs, 5 of sources, 40 of rows, 5 that nobody names."""
    seconds = 2 * batch if began_s is None else began_s
    durations = {
        "queryPlanning": 20,
        "walCommit": 10,
        "commitOffsets": 20,
        "latestOffset": 4,
        "getBatch": 1,
        "addBatch": 40,
        "triggerExecution": 100,
    }
    found = {
        "id": "some-id",
        "runId": "some-run",
        "name": "clicks",
        "timestamp": f"2026-01-01T00:00:{seconds:06.3f}Z",
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": durations,
        "stateOperators": [],
        "sources": [{"numInputRows": rows}],
    }
    return found | changed


def idle(batch: int) -> dict[str, Any]:
    """What Spark reports while there is nothing to do."""
    durations = {"latestOffset": 1, "triggerExecution": 1}
    return report(batch, rows=0, durationMs=durations)


def state(
    name: str = "stateStoreSave",
    *,
    metrics: dict[str, int] | None = None,
    partitions: int = 4,
    updates: int = 20,
    removals: int = 4,
    commit: int = 40,
) -> dict[str, Any]:
    return {
        "operatorName": name,
        "numRowsTotal": 500,
        "numRowsUpdated": 50,
        "allUpdatesTimeMs": updates,
        "allRemovalsTimeMs": removals,
        "commitTimeMs": commit,
        "memoryUsedBytes": 131_784,
        "numShufflePartitions": partitions,
        "customMetrics": HDFS if metrics is None else metrics,
    }


def event(found: dict[str, Any]) -> dict[str, Any]:
    """A report as an event log has it: only sources say how many rows there were."""
    inside = {name: value for name, value in found.items() if name != "numInputRows"}
    return {"Event": "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent", "progress": inside}


def executor(name: str, cores: int) -> dict[str, Any]:
    return {"Event": "SparkListenerExecutorAdded", "Executor ID": name, "Executor Info": {"Total Cores": cores}}
