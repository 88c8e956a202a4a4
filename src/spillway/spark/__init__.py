"""Run a graph on Spark: compile it, or each of its jobs, to a streaming query, keep shards beside it, report."""

from spillway.spark.explaining import explain
from spillway.spark.jobs import JobsRun
from spillway.spark.kafka import frame
from spillway.spark.protecting import ProtectedFrame, ProtectedQuery, ProtectedWriter, protect
from spillway.spark.receiving import received
from spillway.spark.running import Run
from spillway.spark.settings import session, session_settings
from spillway.spark.start import run, run_jobs
from spillway.spark.verifying import verify

__all__ = [
    "JobsRun",
    "ProtectedFrame",
    "ProtectedQuery",
    "ProtectedWriter",
    "Run",
    "explain",
    "frame",
    "protect",
    "received",
    "run",
    "run_jobs",
    "session",
    "session_settings",
    "verify",
]
