"""What happened: the run directory, versioned, as JSON and Arrow."""

from spillway.records.progress import ShardProgress
from spillway.records.reading import Recorded, read_progress, read_times
from spillway.records.rescaled import Rescaled
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummary, summarise
from spillway.records.times import BatchTimes, Work

__all__ = [
    "BatchTimes",
    "OperatorSummary",
    "Recorded",
    "Rescaled",
    "RunDirectory",
    "ShardProgress",
    "Work",
    "read_progress",
    "read_times",
    "summarise",
]
