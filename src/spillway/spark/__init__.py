"""Run a graph on Spark: compile it to one streaming query, keep shards beside it, report."""

from spillway.spark.receiving import received
from spillway.spark.running import Run
from spillway.spark.settings import session, session_settings
from spillway.spark.start import run
from spillway.spark.verifying import verify

__all__ = ["Run", "received", "run", "session", "session_settings", "verify"]
