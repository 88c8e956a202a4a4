"""What a shard has from the owners before its own: backups of older epochs, and how they are taken over.

Who takes a shard over makes a backup of all of its state under its own epoch before it applies anything (see
``protocols.fencing``). A manifest that is written before that, to note a failure, says that it *inherits*. One of a
shard that was born in this epoch, before the first batch, has no backup either, and does not: nothing of others is its.
What counts is what the newest epoch left that does not inherit.

The owner of an older epoch may only be slow, and still be writing and compacting there. So what is read from it is read
again if something seems to be missing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from spillway.backup.manifest import Manifest
from spillway.backup.store import Restored, ShardStore

_READ_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """The backups of an older epoch, as they were found."""

    epoch: int
    place: str
    manifest: Manifest
    restored: Restored


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessors:
    """The older epochs of one shard."""

    epochs: Callable[[], list[int]]  # of those that have a folder, oldest first
    open_store: Callable[[int], ShardStore]
    remove_epoch: Callable[[int], None]

    def inherited(self, *, batch_max: int) -> Inherited | None:
        """What counts as long as the own epoch has nothing, up to a batch; None if no older epoch is known of."""
        for epoch in reversed(self.epochs()):
            found = self._read(epoch, batch_max)
            if found is not None and not found.manifest.inherits:
                return found
        return None

    def exist(self) -> bool:
        return bool(self.epochs())

    def remove(self) -> None:
        """The own epoch has a backup: nothing of older ones counts any more."""
        for epoch in self.epochs():
            self.remove_epoch(epoch)

    def _read(self, epoch: int, batch_max: int) -> Inherited | None:
        for left in reversed(range(_READ_MAX)):
            store = self.open_store(epoch)  # one that has not looked yet
            try:
                manifest = store.manifest()
                if manifest is None:
                    return None
                restored = store.load(batch_max=batch_max)
            except FileNotFoundError:  # its owner was compacting
                if not left:
                    raise
                continue
            if not restored.damage or not left:
                return Inherited(epoch=epoch, place=store.place, manifest=manifest, restored=restored)
        raise AssertionError


NO_PREDECESSORS = Predecessors(epochs=list, open_store=lambda epoch: NotImplemented, remove_epoch=lambda epoch: None)
"""Of a shard in its first epoch."""
