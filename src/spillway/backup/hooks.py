"""What a keeper asks of the operator whose shard it keeps."""

from typing import Protocol

import pyarrow as pa

from spillway.backup.promise import Loss
from spillway.backup.spread import Spread


class StateHooks(Protocol):
    """The parts of keeping state that an operator may take over."""

    def divergence(self) -> float: ...

    @property
    def own_divergence(self) -> bool:
        """Whether ``divergence`` is the operator's own idea, about which chunks say nothing."""

    def custom_backup(self) -> pa.Table | None:
        """What to store instead of chunks; None to store chunks."""

    def custom_recover(self, table: pa.Table) -> None: ...

    def mend(self) -> None:
        """Chunks of the backup were damaged, and older ones stand in for them, or none."""

    def replay(self, *, first: int, last: int, epoch: int | None) -> tuple[str, ...]:
        """Apply again the items of these batches that were kept, by the owner of an older epoch if one is named.

        Says which are missing.
        """

    def spread(self) -> Spread:
        """What the state consists of now."""

    def recovered(self, loss: Loss) -> None:
        """Runs once after a recovery, before any tuple."""
