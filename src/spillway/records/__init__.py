"""What happened: the run directory, versioned, as JSON and Arrow."""

from spillway.records.progress import ShardProgress
from spillway.records.reading import Recorded, read_progress
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummary, summarise

__all__ = ["OperatorSummary", "Recorded", "RunDirectory", "ShardProgress", "read_progress", "summarise"]
