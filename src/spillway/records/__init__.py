"""What happened: the run directory, versioned, as JSON and Parquet."""

from spillway.records.progress import ShardProgress
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummary, summarise

__all__ = ["OperatorSummary", "RunDirectory", "ShardProgress", "summarise"]
