"""Makes a shard's state durable: which chunks, under which record, and one sentence if that fails."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from spillway.backup.behind import Behind
from spillway.backup.hooks import StateHooks
from spillway.backup.manifest import Record, Standing
from spillway.backup.promise import Promise
from spillway.backup.segments import Chunks, Int64s
from spillway.backup.store import Coming, Moment, Restored, ShardStore
from spillway.clock import Clock
from spillway.errors import BoundLostError
from spillway.files.arrow_files import table_bytes
from spillway.state.shard import NONE, Shard


class Saving:
    """The backups of one shard, as its keeper and its recovery make them."""

    def __init__(self, shard: Shard, promise: Promise, hooks: StateHooks, store: ShardStore, clock: Clock) -> None:
        self.store = store
        self._shard = shard
        self._promise = promise
        self._hooks = hooks
        self._clock = clock

    def save_batch(
        self, batch: int, *, divergence: float, allowed: float, tuples_per_s: float, needed: int = NONE
    ) -> Record:
        """Back up the batch being applied; what is written waits until that batch is committed.

        Backups from batch ``needed`` on are kept, however old.
        """
        shard = self._shard
        moment = self._moment(batch, failures=shard.failures, divergence=divergence, tuples_per_s=tuples_per_s)
        shard.announce(batch, time_s=self._clock.monotonic_s())
        with self.at_stake("writing its backup"):
            coming = self.store.coming(batch=batch, after=shard.backup_version, failures=shard.failures)
            coming = replace(coming, whole=coming.whole or shard.emptied, needed=needed)
            ids = self._all_chunks() if coming.whole else self._changed(divergence, allowed)
            record = self._save(coming, moment, ids)
        shard.stage(ids if record.kind != "custom" else self._all_chunks())
        return record

    def start_behind(self, batch: int, behind: Behind, *, divergence: float, tuples_per_s: float) -> bool:
        """Take a copy of what changed and have it written while further batches run; whether that can be.

        It cannot where nothing stored leads up to what memory holds, or where positions got another meaning.
        """
        shard = self._shard
        with self.at_stake("looking at its backups"):
            coming = self.store.coming(batch=batch, after=shard.backup_version, failures=shard.failures)
        if coming.fresh or shard.emptied:
            return False
        coming = replace(coming, behind=True)
        moment = self._moment(batch, failures=shard.failures, divergence=divergence, tuples_per_s=tuples_per_s)
        table = self._hooks.custom_backup()
        parts = self._copied(self._all_chunks() if coming.whole and table is None else self._changed_chunks())
        counts = tuple(array.count for array in shard.arrays)
        store, write = self.store, partial[Record]
        if table is None:
            work = write(store.save, parts, coming, moment, counts=counts)
        else:
            # An operator's table may be a view of live memory; as bytes it is a copy.
            work = write(store.save_table_bytes, table_bytes(table), coming, moment)
        shard.announce(batch, time_s=self._clock.monotonic_s(), number=coming.number)
        behind.start(work, number=coming.number, parts=parts, counts=counts)
        return True

    def save_anew(self, batch: int, *, failures: int, damage: str = "") -> None:
        """Write all that memory contains as the backup of ``batch``, which is committed; nothing stored is built on.

        ``failures`` are those whose cost is in that state, and ``damage`` is what this backup takes the place of.
        """
        shard = self._shard
        coming = self.store.coming(batch=batch + 1, after=shard.backup_version, failures=failures)
        base = replace(coming.base, failed_damage=damage) if damage else coming.base
        coming = replace(coming, base=base, whole=True, fresh=True)
        self._save(coming, self._moment(batch, failures=failures), self._all_chunks())
        shard.adopt()

    def save_restored(self, restored: Restored) -> None:
        """Write what another store gave back as a backup that needs no other one, of the batch it was made in."""
        record = restored.record
        assert record is not None and restored.complete
        coming = self.store.coming(batch=record.batch + 1, after=record.batch, failures=record.failures)
        # One that is fresh would be all there is; of several that are copied the first is.
        coming = replace(coming, whole=True, fresh=not coming.base.records)
        moment = Moment(
            batch=record.batch,
            seq=record.seq,
            failures=record.failures,
            divergence=record.divergence,
            time_s=record.time_s,
            tuples_per_s=record.tuples_per_s,
            standing=record.standing,
            emptied=record.emptied,
        )
        if restored.table is not None:
            self.store.save_table(restored.table, coming, moment)
        else:
            self.store.save(restored.chunks, coming, moment, counts=restored.counts)

    @contextmanager
    def at_stake(self, doing: str) -> Iterator[None]:
        """Turn an error of the file system into the one sentence that matters."""
        try:
            yield
        except OSError as error:
            raise BoundLostError(
                operator=self._promise.operator,
                shard=self._promise.shard,
                reason=f"{doing} in {self.store.place} failed: {error.strerror or error}. The batch was not "
                f"committed; mend the folder and run again.",
            ) from error

    def _all_chunks(self) -> list[Int64s]:
        return [array.all_chunks() for array in self._shard.arrays]

    def _changed_chunks(self) -> list[Int64s]:
        return [array.changed_chunks() for array in self._shard.arrays]

    def _copied(self, ids: list[Int64s]) -> list[Chunks]:
        return [Chunks(chunks, array.payload(chunks)) for chunks, array in zip(ids, self._shard.arrays, strict=True)]

    def _changed(self, divergence: float, allowed: float) -> list[Int64s]:
        """The chunks a backup has to hold, per array."""
        arrays = self._shard.arrays
        if not self._may_be_selective(divergence):
            return self._changed_chunks()
        # Only what makes the state diverge need be saved; the rest may keep up to half of what is allowed, shared by
        # the arrays that diverge at all.
        goal = allowed / (2 * max(sum(array.divergence() > 0 for array in arrays), 1))
        return [array.heaviest_chunks(goal) for array in arrays]

    def _may_be_selective(self, divergence: float) -> bool:
        selective = self._promise.policy.leaves_out_light_chunks
        return selective and math.isfinite(divergence) and not self._hooks.own_divergence

    def _save(self, coming: Coming, moment: Moment, ids: list[Int64s]) -> Record:
        """Write the given chunks, or what the operator would rather have stored."""
        table = self._hooks.custom_backup()
        if table is not None:
            return self.store.save_table(table, coming, moment)
        counts = tuple(array.count for array in self._shard.arrays)
        return self.store.save(self._copied(ids), coming, moment, counts=counts)

    def _moment(self, batch: int, *, failures: int, divergence: float = 0.0, tuples_per_s: float = 0.0) -> Moment:
        shard = self._shard
        return Moment(
            batch=batch,
            seq=shard.seq,
            failures=failures,
            divergence=divergence,
            time_s=self._clock.now_s(),
            tuples_per_s=tuples_per_s,
            standing=Standing(window=shard.window, forgotten=shard.forgotten, failed_at=shard.failed_at),
            emptied=shard.emptied,
        )
