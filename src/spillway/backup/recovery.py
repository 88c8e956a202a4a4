"""Brings back a shard whose memory is gone: from its backups and kept items, or, without any, from nothing.

The number of failures is made durable before anything is rebuilt; otherwise two failures in a row would each be allowed
the first one's threshold. It is noted once the backups are read, so that a store which cannot be read just then costs
nothing but the attempt.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from spillway.backup.hooks import StateHooks
from spillway.backup.manifest import Manifest, Record, Standing
from spillway.backup.predecessors import NO_PREDECESSORS, Inherited, Predecessors
from spillway.backup.promise import Loss, Promise
from spillway.backup.reach import NOT_NOTED, Reached
from spillway.backup.saving import Saving
from spillway.backup.store import Restored
from spillway.clock import Clock
from spillway.errors import BackupError, BoundLostError
from spillway.state.shard import NONE, Shard


class Recovery:
    """What can be had back of one shard."""

    def __init__(
        self,
        shard: Shard,
        promise: Promise,
        hooks: StateHooks,
        saving: Saving | None,
        clock: Clock,
        predecessors: Predecessors = NO_PREDECESSORS,
    ) -> None:
        self._shard = shard
        self._promise = promise
        self._hooks = hooks
        self._saving = saving
        self._clock = clock
        self._predecessors = predecessors

    def be_born(self, batch: int, reached: Reached = NOT_NOTED) -> None:
        """An empty shard at the first batch of a run."""
        failures = reached.failures
        if self._saving is not None:
            with self._saving.at_stake("noting that it exists"):
                found = self._saving.store.manifest() or self._saving.store.born()
                self._check_same_run(found, batch)
                failures = found.failures
        self._shard.reset()  # an earlier run may have died while it filled this memory
        self._shard.recovered(
            version=batch - 1, backup_version=NONE, failures=failures, time_s=self._clock.monotonic_s()
        )

    def recover(self, batch: int, reached: Reached = NOT_NOTED, *, needed: int = NONE) -> Loss:
        """Be at the batch before ``batch``, as near as backups and items bring it.

        ``needed`` is the batch that its job would go back to, if it would: what an earlier owner saved of it is kept.
        """
        shard, saving = self._shard, self._saving
        restored, failures, inherited = Restored(record=None), reached.failures + 1, None
        if saving is not None:
            with saving.at_stake("recovering"):
                inherited = self._inherited(saving, batch)
                restored, failures = self._restore(saving, batch, reached, inherited)
        shard.reset()
        self._fill(restored)
        record = restored.record
        standing = record.standing if record else Standing()
        failures_in_backup = record.failures if record else 0
        backup_version = record.batch if record else NONE
        shard.remember(window=standing.window, forgotten=standing.forgotten, failed_at=standing.failed_at)
        shard.settle(seq=record.seq if record else None, tuples=0)
        bound = self._promise.divergence_max(
            failures_in_backup=failures_in_backup - standing.forgotten, failures=failures - standing.forgotten
        )
        epoch = None if inherited is None else inherited.epoch
        missing = self._replay(first=backup_version + 1, last=batch - 1, epoch=epoch)
        damage = tuple(dict.fromkeys((*restored.damage, *missing)))
        loss = Loss(
            batch=batch,
            backup_batch=backup_version,
            failures=failures,
            divergence_max=bound if restored.complete and not missing else math.inf,
            items_max=self._promise.items_max(failures - standing.forgotten),
            lost_chunks=restored.lost_chunks,
            damage="; ".join(damage),
            spread=self._hooks.spread(),
            stale_tuples=self._stale_tuples(record),
        )
        # A batch that ends a window is backed up, so it is replayed only if that backup is damaged.
        assert not shard.cleared or damage
        if saving is not None and (damage or inherited is not None):
            # What is in memory now is no longer what the damaged files say, or what is said under an older epoch may
            # be changed by others: start from a backup that is, and is our own.
            with saving.at_stake("backing up what was recovered"):
                if self._promise.policy.goes_back_with_job and inherited is not None:
                    wrong = self._copy_inherited({needed, batch - 1})
                    if wrong:
                        raise self._lost(f"{wrong}, and its job may have to go back there. Put back what is missing.")
                else:
                    saving.save_anew(batch - 1, failures=failures_in_backup, damage=loss.damage)
            backup_version = batch - 1
            self.taken_over()
        # What a failure in a sliding window is felt from is known when the next tuple comes.
        shard.remember(window=shard.window, forgotten=shard.forgotten, failed_at=None)
        self._hooks.recovered(loss)
        shard.recovered(
            version=batch - 1, backup_version=backup_version, failures=failures, time_s=self._clock.monotonic_s()
        )
        return loss

    def be_divided(
        self, batch: int, *, fill: Callable[[], None], seq: int | None, standing: Standing, failures: int
    ) -> None:
        """Be at the batch before ``batch`` with what ``fill`` puts in, which other shards held; backed up whole."""
        shard, saving = self._shard, self._saving
        shard.reset()
        fill()
        shard.remember(window=standing.window, forgotten=standing.forgotten, failed_at=standing.failed_at)
        shard.settle(seq=seq, tuples=0)
        if saving is None:
            shard.adopt()
        else:
            with saving.at_stake("writing its backup anew"):
                saving.save_anew(batch - 1, failures=failures)
        backup_version = NONE if saving is None else batch - 1
        shard.recovered(
            version=batch - 1, backup_version=backup_version, failures=failures, time_s=self._clock.monotonic_s()
        )

    def has_backup_of(self, batch: int) -> bool:
        """Whether there is a backup of this very batch."""
        return batch != NONE and self._record_of(batch) is not None

    def go_back(self, batch: int) -> None:
        """Be at an earlier batch again, the checkpoint that its job was sent back to: no failure, and no loss."""
        shard, saving, failures = self._shard, self._saving, self._shard.failures
        assert saving is not None and not shard.torn
        if batch == NONE:
            shard.reset()  # and be born when the first batch begins
            return
        record = self._record_of(batch)
        if record is None:
            raise self._lost(
                f"its job was sent back to batch {batch}, and {saving.store.place} has no backup of that batch. Put "
                f"back what is missing there, or send the job further back with 'spillway rewind'."
            )
        standing = record.standing
        if shard.can_revert and shard.backup_version == batch:
            shard.revert(
                seq=record.seq, window=standing.window, forgotten=standing.forgotten, failed_at=standing.failed_at
            )
        else:
            with saving.at_stake("going back to its last checkpoint"):
                inherited = self._inherited(saving, batch + 1)
                restored = saving.store.load(batch_max=batch) if inherited is None else inherited.restored
            self._check_whole(restored)
            if inherited is not None:
                # The next checkpoint will be the own epoch's, and may not count before its job has to go back again.
                with saving.at_stake("taking over its last checkpoint"):
                    saving.save_restored(restored)
                self.taken_over()
            shard.reset()
            self._fill(restored)
            shard.remember(window=standing.window, forgotten=standing.forgotten, failed_at=standing.failed_at)
            shard.settle(seq=record.seq, tuples=0)
        shard.recovered(version=batch, backup_version=batch, failures=failures, time_s=self._clock.monotonic_s())

    def forget_beyond(self, batch: int) -> None:
        """Drop backups of later batches: the job was sent back to the batch before this one, and they never were."""
        if self._saving is not None:
            with self._saving.at_stake("dropping backups that no longer count"):
                found = self._saving.store.manifest()
                if found is not None and found.records and found.records[-1].batch > batch:
                    self._saving.store.truncate(batch - 1)

    def inherit(self, *, needed: int) -> str:
        """Memory was handed over: have the checkpoint that it was compared with under the own epoch, and drop others'.

        So also the one of batch ``needed``, if its job would go back to that. If one cannot be had, those of the older
        epoch count until the next one; returns what is wrong with it.
        """
        saving, batch = self._saving, self._shard.backup_version
        assert saving is not None
        with saving.at_stake("taking over its last checkpoint"):
            if batch == NONE:
                saving.store.born()  # its job would start over, whatever earlier owners have done
            else:
                wrong = self._copy_inherited({needed, batch})
                if wrong:
                    if saving.store.manifest() is None:
                        saving.store.born(inherits=True)
                    return wrong
        self.taken_over()
        return ""

    def _copy_inherited(self, batches: Iterable[int]) -> str:
        """Have what earlier owners saved at some batches under the own epoch; returns what is wrong, if anything."""
        assert self._saving is not None
        found = {batch: self._predecessors.inherited(batch_max=batch) for batch in sorted(batches) if batch != NONE}
        for batch, one in found.items():
            if one is None or one.restored.record is None or one.restored.record.batch != batch:
                return f"earlier owners left no checkpoint of batch {batch}"
            if one.restored.damage:
                return "; ".join(one.restored.damage)
        for one in found.values():
            if one is not None:
                self._saving.save_restored(one.restored)
        return ""

    def taken_over(self) -> None:
        """There is a backup of the own epoch: those of older ones go."""
        if self._saving is not None:
            with self._saving.at_stake("removing what earlier owners left"):
                self._predecessors.remove()

    def untold(self, batch: int, reached: Reached) -> Loss | None:
        """What an attempt lost, now or before, that recovered and was not heard: it died, or was a leftover."""
        if self._saving is None:
            return None if reached.knows_of(self._shard.failures) else self._all_lost(batch, self._shard.failures)
        with self._saving.at_stake("looking at its backups"):
            found = self._saving.store.manifest()
        if found is None or not _is_untold(found, batch, reached):
            return None
        records = [record for record in found.records if record.batch < found.failed_in]
        in_backup = records[-1].failures if records else 0
        if in_backup >= found.failures:
            # Spark went back to a batch before the recovery and ran it again, from where nothing had been lost yet.
            return None
        forgotten = records[-1].standing.forgotten if records else 0
        bound = self._promise.divergence_max(
            failures_in_backup=in_backup - forgotten, failures=found.failures - forgotten
        )
        return Loss(
            batch=found.failed_in,
            backup_batch=records[-1].batch if records else NONE,
            failures=found.failures,
            divergence_max=math.inf if found.failed_damage else bound,
            items_max=self._promise.items_max(found.failures - forgotten),
            lost_chunks=0,
            damage=found.failed_damage,
            spread=self._hooks.spread(),
        )

    def _all_lost(self, batch: int, failures: int) -> Loss:
        return Loss(
            batch=batch,
            backup_batch=NONE,
            failures=failures,
            divergence_max=self._promise.divergence_max(failures_in_backup=0, failures=failures),
            items_max=self._promise.items_max(failures),
            lost_chunks=0,
            damage="",
            spread=self._hooks.spread(),
        )

    def _replay(self, *, first: int, last: int, epoch: int | None) -> tuple[str, ...]:
        """Apply kept items to what the backup gave; says which are missing."""
        if not self._promise.policy.replays_items or self._saving is None:
            return ()
        with self._saving.at_stake("reading its items again"):
            return self._hooks.replay(first=first, last=last, epoch=epoch)

    def _stale_tuples(self, record: Record | None) -> float:
        """N = (T_recovery - T_saved) · rate (seed 004, section 4.4): how many tuples came since the backup."""
        if record is None or not self._promise.policy.drops_stale:
            return 0.0
        return max(self._clock.now_s() - record.time_s, 0.0) * record.tuples_per_s

    def _fill(self, restored: Restored) -> None:
        """Put what the store gave back into memory, which is empty."""
        shard = self._shard
        if restored.table is not None:
            shard.adopt()
            self._hooks.custom_recover(restored.table)
        elif restored.record is not None:
            for array, part, count in zip(shard.arrays, restored.chunks, restored.counts, strict=True):
                array.load(part.ids, part.payload, count)
            shard.mend(restored.valid_counts)
            if restored.lost_chunks:
                # Before items are replayed and before all is saved anew: whoever recovers from that finds it mended.
                shard.adopt()
                self._hooks.mend()
        shard.adopt()

    def _record_of(self, batch: int) -> Record | None:
        """The record of the backup of a batch, the own one or an earlier owner's."""
        assert self._saving is not None
        with self._saving.at_stake("looking at its backups"):
            found = self._saving.store.manifest()
            inherited = self._inherited(self._saving, batch + 1)
        records = inherited.manifest.records if inherited is not None else found.records if found is not None else ()
        return next((record for record in records if record.batch == batch), None)

    def _check_whole(self, restored: Restored) -> None:
        """Refuse to go on from a checkpoint that is damaged: nothing would bound what is wrong then."""
        if not restored.complete or restored.damage:
            raise self._lost(
                f"the checkpoint that its job goes back to is damaged: {'; '.join(restored.damage)}. Put back what is "
                f"missing, or send the job further back with 'spillway rewind'."
            )

    def _inherited(self, saving: Saving, batch: int) -> Inherited | None:
        """What an earlier owner left, if the own epoch has not begun with anything yet."""
        own = saving.store.manifest()
        return self._predecessors.inherited(batch_max=batch - 1) if own is None or own.inherits else None

    def _restore(
        self, saving: Saving, batch: int, reached: Reached, inherited: Inherited | None
    ) -> tuple[Restored, int]:
        store, own = saving.store, saving.store.manifest()
        found = own if inherited is None else inherited.manifest
        place = store.place if inherited is None else inherited.place
        if found is None:
            raise self._lost(
                f"its memory is gone and {place} has no record of it, though the run is at batch {batch}. Name "
                f"the folder of backups this run was started with."
            )
        if inherited is None or not self._promise.policy.goes_back_with_job:
            # Otherwise an earlier owner may have saved a batch that never counted, and its job have been sent back.
            self._check_same_run(found, batch)
        restored = store.load(batch_max=batch - 1) if inherited is None else inherited.restored
        for noted in (found, own):
            if noted is not None and noted.failed_damage and _is_untold(noted, batch, reached):
                # An attempt that found damage has replaced it, and was not heard.
                restored = replace(restored, complete=False, damage=(noted.failed_damage, *restored.damage))
                break
        if found.protection != self._promise.protection.describe():
            # What came since may have been allowed to cost more than this promise knows of.
            restored = replace(restored, complete=False)
        if self._promise.policy.goes_back_with_job:
            self._check_whole(restored)
        wanted = reached.backup_before(batch)
        reaches = restored.record.batch if restored.record else NONE
        if reaches < wanted and not restored.damage:
            holds = f"its state up to batch {reaches} where" if reaches != NONE else "none of its state, though"
            way_out = (
                f" To go on all the same, and lose what is missing, remove {reached.place}." if reached.place else ""
            )
            raise self._lost(
                f"its memory is gone, and {place} holds {holds} batch {wanted} was made durable: an older copy "
                f"of the folder has been put in its place. Put the newer one back.{way_out}"
            )
        failures = max(found.failures, reached.failures, own.failures if own is not None else 0) + 1
        if own is None:
            store.born(inherits=inherited is not None)
        store.failed(batch_max=batch - 1, failures=failures, damage="; ".join(restored.damage))
        return restored, failures

    def _check_same_run(self, found: Manifest, batch: int) -> None:
        newest = found.records[-1].batch if found.records else NONE
        if newest > batch:
            raise BackupError(
                f"Operator {self._promise.operator!r}, shard {self._promise.shard}: Spark asks for batch {batch}, but "
                f"the backups already contain batch {newest}. They belong to an earlier run: resume from that run's "
                f"checkpoint, or name another folder of backups."
            )

    def _lost(self, reason: str) -> BoundLostError:
        return BoundLostError(operator=self._promise.operator, shard=self._promise.shard, reason=reason)


def _is_untold(found: Manifest, batch: int, reached: Reached) -> bool:
    """Whether the last recovery that a manifest knows of may have been told to nobody."""
    return found.failed_in == batch or not reached.knows_of(found.failures)
