"""What happened: the run directory, versioned, as JSON and Arrow."""

from spillway.records.batches import BatchDone
from spillway.records.explaining import Advice, Explanation, Part, StateOperator
from spillway.records.json_lines import JsonFormatter
from spillway.records.notices import Notice
from spillway.records.placing import HostSummary, Moved, Waited, summarise_hosts
from spillway.records.progress import ShardProgress
from spillway.records.reading import (
    Recorded,
    read_moves,
    read_notices,
    read_progress,
    read_rewinds,
    read_times,
    read_waits,
)
from spillway.records.rescaled import Rescaled
from spillway.records.rewound import Rewound
from spillway.records.rundir import RunDirectory
from spillway.records.summary import OperatorSummaries, OperatorSummary, summarise
from spillway.records.times import BatchTimes, Work

__all__ = [
    "Advice",
    "BatchDone",
    "BatchTimes",
    "Explanation",
    "HostSummary",
    "JsonFormatter",
    "Moved",
    "Notice",
    "OperatorSummaries",
    "OperatorSummary",
    "Part",
    "Recorded",
    "Rescaled",
    "Rewound",
    "RunDirectory",
    "ShardProgress",
    "StateOperator",
    "Waited",
    "Work",
    "read_moves",
    "read_notices",
    "read_progress",
    "read_rewinds",
    "read_times",
    "read_waits",
    "summarise",
    "summarise_hosts",
]
