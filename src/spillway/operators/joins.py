"""What joins over sliding windows have in common, whether there is a window for each key or one for all."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.operators.joining import Windows
from spillway.operators.merging import Merging
from spillway.operators.stale import drop_stale
from spillway.state.tally import Tally
from spillway.state.window import Window

__all__ = ["Joining"]

_FIRST = np.zeros(1, np.int64)


class Joining(Merging):
    """Two streams, each with windows of its own; what is kept of a stream that only asks is how much there was of it.

    That number is wanted for stale tuples alone: they are a part of all that came (see ``operators.stale``).
    """

    inputs = ("left", "right")
    windows: Windows
    time: str | None
    left_recent: Window
    right_recent: Window
    asked: Tally | None

    def note_asked(self, batches: Mapping[str, pa.RecordBatch]) -> None:
        """Count the tuples of a batch that enter no window."""
        if self.asked is not None:
            asked = sum(batch.num_rows for port, batch in batches.items() if not self.windows.keeps[port])
            self.asked.add(_FIRST, np.array([asked]))

    def recovered(self, loss: Loss) -> None:
        recent = {"left": self.left_recent, "right": self.right_recent}
        aging = [recent[port] for port in self.inputs if self.windows.keeps[port] and not self.windows.spans_us[port]]
        others = sum(int(window.counts.sum()) for window in recent.values() if window not in aging)
        asked = 0 if self.asked is None else int(self.asked.read()[0])
        left = drop_stale(aging, loss, others=others + asked)
        if self.asked is not None:
            self.asked.set(_FIRST, round(asked * left))

    def rescaled(self, before: Sequence["Joining"], *, shard: int, shards: int) -> None:
        if self.asked is not None:
            asked = sum(int(other.asked.read()[0]) for other in before if other.asked is not None)
            self.asked.set(_FIRST, asked // shards)

    def mend(self) -> None:
        if self.time is not None:  # as in SlidingAggregate
            self.left_recent.sort_rows(0)
            self.right_recent.sort_rows(0)
