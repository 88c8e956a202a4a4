"""That a job was sent back to its last checkpoint, because memory was lost or somebody asked."""

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """One time that a job was sent back."""

    committed: int  # the last batch that had counted until then
    to: int  # the last that counted from then on; -1 if everything started over
    why: str
    seconds: float  # until the job could start again; shards go back when their first batch begins
    time_s: float  # when that was, since 1970

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` has it."""
        return asdict(self)

    @property
    def batches(self) -> int:
        """How many are done once more."""
        return self.committed - self.to

    def sentence(self) -> str:
        """What people are told.

        >>> Rewound(committed=16, to=9, why="memory was lost", seconds=0.2, time_s=0.0).sentence()
        'Sent back from batch 16 to batch 9 in 0.2 s, and 7 batches are done once more: memory was lost.'
        """
        back = f"to batch {self.to}" if self.to >= 0 else "to the start"
        again = f"{self.batches:,} {'batch is' if self.batches == 1 else 'batches are'} done once more"
        return f"Sent back from batch {self.committed} {back} in {self.seconds:,.3g} s, and {again}: {self.why}."


REWOUND_SCHEMA = pa.schema(
    [
        ("committed", pa.int64()),
        ("to", pa.int64()),
        ("why", pa.string()),
        ("seconds", pa.float64()),
        ("time_s", pa.float64()),
    ]
)
