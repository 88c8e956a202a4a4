"""Keeps one shard's promise through one batch: begin from the right state, back up when it is due, commit.

Theory of operation
-------------------
A task for batch N holds the shard's lock and looks at what memory contains:

    version N-1            go on; a backup staged by N-1 counts from now on, since Spark has committed N-1
    version N, or torn     an earlier attempt of this batch: roll back, go on
    nothing, or older      memory was lost: recover from the newest backup of batch N-1 or before
    newer than N, or N     this attempt is a leftover of a driver that is gone: refuse, change nothing. Version N
      without an undo      without an undo means the same: batch N+1 had begun, so Spark has committed N

After the batch is applied, the protection decides whether a backup is due. It is durable before the shard commits, and
the shard commits before Spark does. So whenever Spark has committed a batch, the divergence of that batch's state from
the newest durable backup is at most the threshold, and that is all that losing memory can cost. A backup written by an
earlier attempt of the batch is not recovered from, and goes when this attempt commits: its own takes the other's place.

Windows. A batch in which a hopping window ends is backed up whatever the divergence: the end is a punctuation, and once
Spark has committed it no recovery may go back behind it. So is one in which a failure is forgotten; otherwise a
recovery would not know what threshold had been in force.

The number of failures is made durable before anything is rebuilt; otherwise two failures in a row would each be allowed
the first one's threshold. It is noted once the backups are read, so that a store which cannot be read just then costs
nothing but the attempt.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum

from spillway.backup.hooks import StateHooks
from spillway.backup.manifest import Manifest, Record, Standing
from spillway.backup.promise import Loss, Promise
from spillway.backup.segments import Chunks, Int64s
from spillway.backup.store import Coming, Moment, Restored, ShardStore
from spillway.clock import Clock
from spillway.errors import BackupError, BoundLostError, StaleAttemptError
from spillway.graph.protections import Approximate, Checkpoint, Exact, UpstreamBackup
from spillway.graph.windows import Sliding
from spillway.records.progress import ShardProgress
from spillway.state.shard import NONE, Shard


class Step(StrEnum):
    """Points of a batch that an observer is told of; the kill tests end the process at each of them."""

    OPENED = "opened"  # before any tuple is applied
    APPLYING = "applying"  # after some tuples are applied
    BACKING_UP = "backing-up"  # a backup is due and not yet written
    BACKED_UP = "backed-up"  # it is durable; the shard has not committed
    COMMITTED = "committed"  # the shard has committed; Spark has not
    WRITTEN = "written"  # all shards have, and the sinks are written; Spark has not. Seen by the driver only


Observer = Callable[[Step, str, int, int], None]


def ignore(step: Step, operator: str, shard: int, batch: int) -> None:
    """The observer that does nothing."""


class Keeper:
    """One shard, one batch at a time."""

    def __init__(
        self,
        shard: Shard,
        promise: Promise,
        hooks: StateHooks,
        store: ShardStore | None,
        *,
        clock: Clock,
        observe: Observer = ignore,
    ) -> None:
        assert (store is not None) == promise.protection.keeps_backups
        self._shard = shard
        self._promise = promise
        self._hooks = hooks
        self._store = store
        self._clock = clock
        self._observe = observe
        self._batch = NONE
        self._rolled_back = False
        self._again = False  # there may be a backup of an earlier attempt
        self._loss: Loss | None = None
        self._began_s = 0.0
        self._recover_s = 0.0

    def begin(self, batch: int) -> None:
        """Be at batch-1, whatever memory contains, and start applying ``batch``. The lock is held."""
        shard = self._shard
        if self._batch != batch:
            self._loss = None  # otherwise an attempt that recovered and then died is still to be told of
        self._batch, self._rolled_back = batch, False
        self._began_s = self._clock.monotonic_s()
        if shard.version <= batch and (shard.torn or (shard.version == batch and shard.can_roll_back)):
            shard.rollback()
            self._rolled_back = True
        if shard.version >= batch:
            raise StaleAttemptError(
                f"Operator {self._promise.operator!r}, shard {self._promise.shard}: batch {batch} was to be applied, "
                f"but its memory already contains batch {shard.version} for good. If Spark resumed from an older "
                f"checkpoint, run 'spillway clean' on this state and name the checkpoint's own backups; otherwise "
                f"this is a leftover task and nothing was changed."
            )
        # A shard that goes on from a batch it committed can undo that batch; any other has been interrupted.
        self._again = shard.version != batch - 1 or not shard.can_roll_back
        if shard.version != batch - 1:
            self._recover(batch)
            self._recover_s = self._clock.monotonic_s() - self._began_s
        elif shard.version == NONE:
            self._be_born(batch)
        elif shard.staged == shard.version:
            shard.promote()
        shard.begin(batch)
        self._step(Step.OPENED)

    def applying(self) -> None:
        """Some tuples were applied."""
        self._step(Step.APPLYING)

    def window_ended(self, *, following: int) -> None:
        """A hopping window has ended and its state is dropped; ``following`` is the one that is open now."""
        self._shard.clear()
        self._shard.remember(window=following, forgotten=self._shard.failures, failed_at=NONE)

    def window_open(self, window: int) -> None:
        """The first window of the shard."""
        self._shard.remember(window=window, forgotten=self._shard.forgotten, failed_at=NONE)

    def commit(
        self,
        *,
        seq: int,
        tuples: int,
        position: int | None = None,
        item_bytes: int = 0,
        item_s: float = 0.0,
        feedback_lost: int = 0,
    ) -> ShardProgress:
        """All tuples were applied: back up if that is due, then commit.

        ``position`` is where a sliding window ends now, if the batch had a tuple.
        """
        shard, promise = self._shard, self._promise
        shard.settle(seq=seq, tuples=tuples)
        process_s = self._clock.monotonic_s() - self._began_s
        forgot = self._slide(position)
        divergence = self._hooks.divergence() if promise.protection.keeps_backups else 0.0
        allowed = promise.threshold(shard.failures - shard.forgotten)
        backup_bytes = backup_chunks = 0
        due = self._due(divergence, allowed, tuples) or ((forgot or shard.cleared) and promise.protection.keeps_backups)
        if due:
            self._step(Step.BACKING_UP)
            backup_bytes, backup_chunks = self._back_up(divergence, allowed, tuples / max(process_s, 1e-9))
            self._step(Step.BACKED_UP)
        elif self._again and self._store is not None:
            with self._bound_at_stake("taking back a backup"):
                self._store.truncate(self._batch - 1)
        shard.commit()
        self._step(Step.COMMITTED)
        spread = self._hooks.spread()
        return ShardProgress(
            operator=promise.operator,
            shard=promise.shard,
            batch=self._batch,
            tuples=tuples,
            divergence=divergence,
            threshold=allowed,
            failures=shard.failures,
            backup=due,
            backup_bytes=backup_bytes,
            backup_chunks=backup_chunks,
            recovered=self._loss is not None,
            recovered_from=self._loss.backup_batch if self._loss else NONE,
            lost_chunks=self._loss.lost_chunks if self._loss else 0,
            damage=self._loss.damage if self._loss else "",
            loss_max=self._loss.divergence_max if self._loss else 0.0,
            loss_total_max=self._loss.total_max if self._loss else 0.0,
            numbers=spread.numbers,
            metrics=", ".join(spread.metrics),
            item_bytes=item_bytes,
            feedback_lost=feedback_lost,
            rolled_back=self._rolled_back,
            state_bytes=shard.bytes,
            recover_s=self._recover_s if self._loss else 0.0,
            process_s=process_s,
            item_s=item_s,
            backup_s=self._clock.monotonic_s() - self._began_s - process_s,
        )

    def _be_born(self, batch: int) -> None:
        """An empty shard at the first batch of a run."""
        failures = 0
        if self._store is not None:
            with self._bound_at_stake("noting that it exists"):
                found = self._store.manifest() or self._store.born()
                self._check_same_run(found, batch)
                failures = found.failures
        self._shard.reset()  # an earlier run may have died while it filled this memory
        now_s = self._clock.now_s()
        self._shard.recovered(version=batch - 1, backup_version=NONE, failures=failures, seq=NONE, time_s=now_s)

    def _recover(self, batch: int) -> None:
        shard, store = self._shard, self._store
        keeps_items = self._promise.protection.keeps_items
        restored, failures = Restored(record=None), 1
        if store is not None:
            with self._bound_at_stake("recovering"):
                restored, failures = self._restore(store, batch)
        shard.reset()
        self._fill(restored)
        record = restored.record
        failures_in_backup, seq = (record.failures, record.seq) if record else (0, NONE)
        backup_version = record.batch if record else NONE
        standing = record.standing if record else Standing()
        shard.remember(window=standing.window, forgotten=standing.forgotten, failed_at=standing.failed_at)
        bound = self._promise.divergence_max(
            failures_in_backup=failures_in_backup - standing.forgotten, failures=failures - standing.forgotten
        )
        missing = self._hooks.replay(first=backup_version + 1, last=batch - 1) if keeps_items else ()
        assert not shard.cleared, "a batch that ends a window is backed up, so it is never replayed"
        self._loss = Loss(
            batch=batch,
            backup_batch=backup_version,
            failures=failures,
            divergence_max=bound if restored.complete and not missing else math.inf,
            items_max=self._promise.items_max(failures - standing.forgotten),
            lost_chunks=restored.lost_chunks,
            damage="; ".join((*restored.damage, *missing)),
            spread=self._hooks.spread(),
        )
        seq = max(seq, shard.seq)
        if restored.damage and store is not None:
            # What is in memory now is no longer what the damaged files say: start from a backup that is.
            with self._bound_at_stake("replacing a damaged backup"):
                coming = replace(store.coming(batch=batch, after=backup_version), whole=True, fresh=True)
                moment = self._moment(batch - 1, seq=seq, failures=failures_in_backup)
                self._save(store, coming, moment, self._all_chunks())
            shard.adopt()
            backup_version = batch - 1
        # What a failure in a sliding window is felt from is known when the next tuple comes.
        shard.remember(window=shard.window, forgotten=shard.forgotten, failed_at=NONE)
        self._hooks.recovered(self._loss)
        now_s = self._clock.now_s()
        shard.recovered(version=batch - 1, backup_version=backup_version, failures=failures, seq=seq, time_s=now_s)

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
        shard.adopt()

    def _restore(self, store: ShardStore, batch: int) -> tuple[Restored, int]:
        promise = self._promise
        found = store.manifest()
        if found is None:
            raise BoundLostError(
                operator=promise.operator,
                shard=promise.shard,
                reason=f"its memory is gone and {store.place} has no record of it, though the run is at batch "
                f"{batch}. Name the folder of backups this run was started with.",
            )
        self._check_same_run(found, batch)
        restored = store.load(batch_max=batch - 1)
        failures = found.failures + 1
        store.failed(batch_max=batch - 1, failures=failures)
        return restored, failures

    def _check_same_run(self, found: Manifest, batch: int) -> None:
        newest = found.records[-1].batch if found.records else NONE
        if newest > batch:
            raise BackupError(
                f"Operator {self._promise.operator!r}, shard {self._promise.shard}: Spark asks for batch {batch}, but "
                f"the backups already contain batch {newest}. They belong to an earlier run: resume from that run's "
                f"checkpoint, or name another folder of backups."
            )

    def _slide(self, position: int | None) -> bool:
        """Note where a failure lies in a sliding window, or that it has left it; true if it has."""
        shard, windowing = self._shard, self._promise.windowing
        if not isinstance(windowing, Sliding) or position is None or shard.failures == shard.forgotten:
            return False
        if shard.failed_at == NONE:
            shard.remember(window=NONE, forgotten=shard.forgotten, failed_at=position)
        elif shard.failed_at <= position - windowing.extent:
            shard.remember(window=NONE, forgotten=shard.failures, failed_at=NONE)
            return True
        return False

    def _due(self, divergence: float, allowed: float, tuples: int) -> bool:
        protection = self._promise.protection
        if isinstance(protection, Approximate):
            return not divergence <= allowed  # so that NaN, which nothing bounds, is backed up
        if isinstance(protection, Exact):
            return tuples > 0 or any(array.changed_chunks().size for array in self._shard.arrays)
        if isinstance(protection, UpstreamBackup):
            return self._shard.tuples_since_backup >= protection.every
        if isinstance(protection, Checkpoint):
            if protection.every_tuples:
                return self._shard.tuples_since_backup >= protection.every_tuples
            # The date may be set back: a backup that seems to lie in the future is due once it lies that far off.
            return abs(self._clock.now_s() - self._shard.backup_time_s) >= protection.every_s
        return False

    def _back_up(self, divergence: float, allowed: float, tuples_per_s: float) -> tuple[int, int]:
        shard, store = self._shard, self._store
        assert store is not None
        moment = self._moment(
            self._batch, seq=shard.seq, failures=shard.failures, divergence=divergence, tuples_per_s=tuples_per_s
        )
        shard.announce(self._batch, time_s=moment.time_s)
        with self._bound_at_stake("writing its backup"):
            coming = store.coming(batch=self._batch, after=shard.backup_version)
            if shard.cleared:
                coming = replace(coming, whole=True)
            ids = self._all_chunks() if coming.whole else self._changed(divergence, allowed)
            record = self._save(store, coming, moment, ids)
        shard.stage(ids if record.kind != "custom" else self._all_chunks())
        return record.bytes, record.chunks

    def _all_chunks(self) -> list[Int64s]:
        return [array.all_chunks() for array in self._shard.arrays]

    def _changed(self, divergence: float, allowed: float) -> list[Int64s]:
        """The chunks a backup has to hold, per array."""
        arrays = self._shard.arrays
        if not self._may_be_selective(divergence):
            return [array.changed_chunks() for array in arrays]
        # Only what makes the state diverge need be saved; the rest may keep up to half of what is allowed, shared by
        # the arrays that diverge at all.
        goal = allowed / (2 * max(sum(array.divergence() > 0 for array in arrays), 1))
        return [array.heaviest_chunks(goal) for array in arrays]

    def _save(self, store: ShardStore, coming: Coming, moment: Moment, ids: list[Int64s]) -> Record:
        """Write the given chunks, or what the operator would rather have stored."""
        table = self._hooks.custom_backup()
        if table is not None:
            return store.save_table(table, coming, moment)
        arrays = self._shard.arrays
        parts = [Chunks(chunks, array.payload(chunks)) for chunks, array in zip(ids, arrays, strict=True)]
        return store.save(parts, coming, moment, counts=tuple(array.count for array in arrays))

    def _moment(
        self, batch: int, *, seq: int, failures: int, divergence: float = 0.0, tuples_per_s: float = 0.0
    ) -> Moment:
        return Moment(
            batch=batch,
            seq=seq,
            failures=failures,
            divergence=divergence,
            time_s=self._clock.now_s(),
            tuples_per_s=tuples_per_s,
            standing=Standing(
                window=self._shard.window, forgotten=self._shard.forgotten, failed_at=self._shard.failed_at
            ),
            emptied=self._shard.cleared,
        )

    def _may_be_selective(self, divergence: float) -> bool:
        approximate = isinstance(self._promise.protection, Approximate)
        return approximate and math.isfinite(divergence) and not self._hooks.own_divergence

    @contextmanager
    def _bound_at_stake(self, doing: str) -> Iterator[None]:
        """Turn an error of the file system into the one sentence that matters."""
        try:
            yield
        except OSError as error:
            assert self._store is not None
            raise BoundLostError(
                operator=self._promise.operator,
                shard=self._promise.shard,
                reason=f"{doing} in {self._store.place} failed: {error.strerror or error}. The batch was not "
                f"committed; mend the folder and run again.",
            ) from error

    def _step(self, step: Step) -> None:
        self._observe(step, self._promise.operator, self._promise.shard, self._batch)
