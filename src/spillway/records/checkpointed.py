"""A checkpoint of a job that others read from, or that reads from others, from the batch to when it counted."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """One that counts: its job never goes back behind it."""

    job: str
    batch: int
    state_bytes: int  # that its shards wrote for it
    log_bytes: int  # of stream logs, that were written with it
    waited_s: float  # for checkpoints of other jobs, and for what was written
    time_s: float  # when it counted

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True, kw_only=True)
class Messages:
    """What a job has told others so far, so as to save together."""

    requests: int = 0
    acknowledgements: int = 0
    extensions: int = 0
