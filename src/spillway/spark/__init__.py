"""Run a graph on Spark: compile it to one streaming query, keep shards beside it, report."""

from spillway.spark.receiving import received
from spillway.spark.running import Run, run
from spillway.spark.settings import session, session_settings

__all__ = ["Run", "received", "run", "session", "session_settings"]
