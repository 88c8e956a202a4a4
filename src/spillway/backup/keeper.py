"""Keeps one shard's promise through one batch: begin from the right state, back up when it is due, commit.

Theory of operation
-------------------
A task for batch N holds the shard's lock and looks at what memory contains:

    version N-1            go on; a backup staged by N-1 counts from now on, since Spark has committed N-1
    version N, or torn     an earlier attempt of this batch: roll back, go on
    nothing, or older      memory was lost: recover from the newest backup of batch N-1 or before
    newer than N, or N     this attempt is a leftover of a driver that is gone: refuse, change nothing. Version N
      without an undo      without an undo means the same: batch N+1 had begun, so Spark has committed N

After the batch is applied, the protection's policy decides whether a backup is due. It is durable before the shard
commits, and the shard commits before Spark does. So whenever Spark has committed a batch, the divergence of that
batch's state from the newest durable backup is at most the threshold, and that is all that losing memory can cost. A
backup written by an earlier attempt of the batch is not recovered from, and goes when this attempt commits: its own
takes the other's place.

Windows. A batch in which a hopping window ends, or the first one begins, is backed up whatever the divergence: the end
is a punctuation, and once Spark has committed it no recovery may go back behind it. So is one in which a failure is
forgotten; otherwise a recovery would not know what threshold had been in force.

Memory is the better copy. A shard that is as it should be and finds its backups gone, or older than it knows they were,
writes them anew from memory and says so; nothing is lost by that.

Owners. A shard that has a new owner, and so another epoch, is in folders of its own (see ``engine.epochs``). If its
memory was handed over, its backups of this epoch are not there yet, and are made in the way just said. If not, it
recovers, from what the newest older epoch left (see ``predecessors``). Either way it has a backup of all of its state
under its own epoch before any tuple is applied.

Jobs. A shard whose policy goes back with its job is saved only at batches that the driver names, and is given back only
the backup of the very batch before the one that begins. If there is none, nothing is changed and the driver is told: it
sends the job back, and says so with every batch from then on. Memory that does not know of that yet goes back first, in
place where it can. Memory that knows of more than the task does makes the task a leftover. What such a shard finds
missing among its backups is made good by the next checkpoint; a backup of its own at another batch would help nobody,
and push out those that count. So if its memory was handed over, it writes no backup of what it is now but has that of
the last checkpoint copied into its own epoch, again before any tuple is applied.
"""

from collections.abc import Callable

from spillway.backup.behind import Behind, Writing, at_once
from spillway.backup.hooks import StateHooks
from spillway.backup.manifest import Record
from spillway.backup.orders import NO_ORDERS, Orders
from spillway.backup.policies import Committing
from spillway.backup.predecessors import NO_PREDECESSORS, Predecessors
from spillway.backup.promise import Loss, Promise
from spillway.backup.reach import NOT_NOTED, Reached
from spillway.backup.recovery import Recovery
from spillway.backup.saving import Saving
from spillway.backup.steps import SHARD_STEPS, Observer, Step, ignore
from spillway.backup.store import ShardStore
from spillway.clock import Clock
from spillway.errors import MemoryLostError, StaleAttemptError
from spillway.graph.windows import Sliding
from spillway.records.progress import ShardProgress
from spillway.state.shard import NONE, Shard

__all__ = ["SHARD_STEPS", "Keeper", "Loss", "Observer", "Promise", "Step", "ignore", "nothing_noted"]


def nothing_noted() -> Reached:
    """What is known of a shard's backups where nobody notes it."""
    return NOT_NOTED


class Keeper:
    """One shard, one batch at a time; ``reached`` tells what is noted of its backups elsewhere."""

    def __init__(
        self,
        shard: Shard,
        promise: Promise,
        hooks: StateHooks,
        store: ShardStore | None,
        *,
        clock: Clock,
        observe: Observer = ignore,
        reached: Callable[[], Reached] = nothing_noted,
        predecessors: Predecessors = NO_PREDECESSORS,
        writing: Writing = at_once,
    ) -> None:
        assert (store is not None) == promise.protection.keeps_backups
        self._shard = shard
        self._promise = promise
        self._hooks = hooks
        self._saving = Saving(shard, promise, hooks, store, clock) if store is not None else None
        self._behind = Behind(shard, store, writing) if store is not None and promise.policy.writes_behind else None
        self._recovery = Recovery(shard, promise, hooks, self._saving, clock, predecessors)
        self._predecessors = predecessors
        self._clock = clock
        self._observe = observe
        self._reached = reached
        self._batch = NONE
        self._orders = NO_ORDERS
        self._rolled_back = False
        self._again = False  # there may be a backup of an earlier attempt
        self._told = 0  # failures that whoever drives the batches is known to have heard of
        self._looked = False  # whether the backups were found to be what memory was compared with
        self._mended = ""  # what was missing of them, if something was: it cost nothing
        self._written: Record | None = None  # the backup that was found durable and is still to be told of
        self._loss: Loss | None = None
        self._stood: tuple[int | None, int] = (None, 0)  # window and failures forgotten, when the batch began
        self._knew: int | None = None  # the highest seq, when the batch began
        self._began_s = 0.0
        self._recover_s = 0.0

    def begin(self, batch: int, orders: Orders = NO_ORDERS) -> None:
        """Be at batch-1, whatever memory contains, and start applying ``batch``. The lock is held."""
        shard = self._shard
        together = self._promise.policy.goes_back_with_job
        if together:
            self._follow(batch, orders)
        self._orders = orders
        if self._batch != batch:
            self._loss = None  # otherwise an attempt that recovered and then died is still to be told of
            self._mended = ""
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
        if shard.version != batch - 1 or shard.version == NONE or self._again:
            self._resolve(wait=True)  # nobody else may write while this one does
        if shard.version != batch - 1:
            if together and not self._recovery.has_backup_of(batch - 1):
                raise MemoryLostError(operator=self._promise.operator, shard=self._promise.shard, batch=batch)
            self._loss = self._recovery.recover(batch, self._reached(), needed=orders.needed)
            self._recover_s = self._clock.monotonic_s() - self._began_s
        elif shard.version == NONE:
            self._recovery.be_born(batch)
        else:
            self._go_on(batch)
        self._looked = self._looked or not self._busy
        if together:
            shard.rewound(orders.rewinds)
        self._stood, self._knew = (shard.window, shard.forgotten), shard.seq
        shard.begin(batch)
        self._step(Step.OPENED)

    @property
    def loss(self) -> Loss | None:
        """What was lost when this batch began, or before it and told to nobody yet."""
        return self._loss

    @property
    def divides(self) -> Recovery:
        """What makes this shard of others, before any batch."""
        return self._recovery

    def applying(self) -> None:
        """Some tuples were applied."""
        self._step(Step.APPLYING)

    def window_ended(self, *, following: int | None) -> None:
        """A hopping window has ended and its state is dropped; ``following`` is the one that is open now."""
        self._shard.clear()
        self._shard.remember(window=following, forgotten=self._shard.failures, failed_at=None)

    def windows_dropped(self) -> None:
        """Windows have ended and all state is dropped; that of those still open comes back at once."""
        self._shard.clear()

    def window_open(self, window: int | None) -> None:
        """The first window that is open now.

        Failures before this are not forgotten: where several windows were open, they may have cost others, too.
        """
        self._shard.remember(window=window, forgotten=self._shard.forgotten, failed_at=None)

    def commit(
        self,
        *,
        seq: int | None,
        tuples: int,
        position: int | None = None,
        item_bytes: int = 0,
        item_s: float = 0.0,
        feedback_lost: int = 0,
        late: int = 0,
        ahead: int = 0,
    ) -> ShardProgress:
        """All tuples were applied: back up if that is due, then commit.

        ``position`` is where a sliding window ends now, if the batch had a tuple.
        """
        shard, promise, saving = self._shard, self._promise, self._saving
        shard.settle(seq=seq, tuples=tuples)
        process_s = self._clock.monotonic_s() - self._began_s
        self._slide(position)
        divergence = self._hooks.divergence() if saving is not None else 0.0
        allowed = promise.threshold(shard.failures - shard.forgotten)
        due = saving is not None and self._due(divergence, allowed, tuples)
        if saving is not None and due:
            self._step(Step.BACKING_UP)
            rate = self._tuples_per_s()
            if not self._write_behind(saving, divergence=divergence, tuples_per_s=rate):
                record = self._written = saving.save_batch(
                    self._batch, divergence=divergence, allowed=allowed, tuples_per_s=rate, needed=self._orders.needed
                )
                if record.fresh:
                    self._mended = "its backups were gone or damaged; memory was whole, and is backed up anew"
                if self._behind is not None:
                    self._behind.owed = ""
            self._step(Step.BACKED_UP)
        elif saving is not None and self._again:
            with saving.at_stake("taking back a backup"):
                saving.store.truncate(self._batch - 1)
        shard.commit()
        self._step(Step.COMMITTED)
        written, self._written = self._written, None
        spread = self._hooks.spread()
        return ShardProgress(
            operator=promise.operator,
            shard=promise.shard,
            batch=self._batch,
            tuples=tuples,
            divergence=divergence,
            threshold=allowed,
            failures=shard.failures,
            backup=written is not None,
            backup_bytes=written.bytes if written else 0,
            backup_chunks=written.chunks if written else 0,
            backup_batch=written.batch if written else NONE,
            recovered=self._loss is not None,
            recovered_from=self._loss.backup_batch if self._loss else NONE,
            lost_chunks=self._loss.lost_chunks if self._loss else 0,
            damage=self._loss.damage if self._loss else self._mended,
            loss_max=self._loss.divergence_max if self._loss else 0.0,
            loss_total_max=self._loss.total_max if self._loss else 0.0,
            numbers=spread.numbers,
            metrics=", ".join(spread.metrics),
            item_bytes=item_bytes,
            feedback_lost=feedback_lost,
            late=late,
            ahead=ahead,
            rolled_back=self._rolled_back,
            state_bytes=shard.bytes,
            recover_s=self._recover_s if self._loss else 0.0,
            process_s=process_s,
            item_s=item_s,
            backup_s=self._clock.monotonic_s() - self._began_s - process_s,
        )

    def _follow(self, batch: int, orders: Orders) -> None:
        """Go back if the job was sent back and memory does not know; refuse a task that knows less than memory."""
        shard = self._shard
        if shard.rewinds > orders.rewinds:
            raise StaleAttemptError(
                f"Operator {self._promise.operator!r}, shard {self._promise.shard}: batch {batch} was to be applied by "
                f"a task of before the job was sent back to batch {orders.rewound_to}. It is a leftover, and nothing "
                f"was changed."
            )
        if orders.rewinds and batch == orders.rewound_to + 1:
            self._recovery.forget_beyond(batch)
        if shard.rewinds == orders.rewinds or shard.version == NONE:
            return
        if shard.torn:
            shard.rollback()
        if shard.version > orders.rewound_to:
            self._recovery.go_back(orders.rewound_to)
            self._looked = False
        shard.rewound(orders.rewinds)

    def _untold(self, batch: int) -> Loss | None:
        """What was lost that nobody was told of: by an attempt that died, or whose word did not count any more."""
        failures = self._shard.failures
        if failures == self._told:
            return None
        loss = self._recovery.untold(batch, self._reached())
        if loss is None:
            self._told = failures
        return loss

    def _go_on(self, batch: int) -> None:
        """Memory is as it should be. All that can fail is read before anything is changed."""
        shard, saving = self._shard, self._saving
        self._resolve(wait=False)
        if self._loss is None and not self._busy:
            self._loss = self._untold(batch)
        staged = shard.staged == shard.version and not shard.staged_number
        lacking = ""
        if saving is not None and not self._looked and not self._busy:
            with saving.at_stake("looking at its backups"):
                lacking = saving.store.lacking(
                    batch=shard.version, after=shard.staged if staged else shard.backup_version
                )
        together = self._promise.policy.goes_back_with_job
        if staged:
            shard.promote()
            if together and not lacking and self._predecessors.exist():
                self._recovery.taken_over()
        if saving is not None and lacking and together:
            if self._predecessors.exist():
                lacking = self._recovery.inherit(needed=self._orders.needed)  # memory was handed over
            if lacking:
                self._mended = f"{lacking}; until the next checkpoint, losing memory would be losing state"
        elif saving is not None and lacking:
            with saving.at_stake("writing its backups anew"):
                saving.save_anew(shard.version, failures=shard.failures)
            shard.backed_up(shard.version, time_s=self._clock.monotonic_s())
            if self._behind is not None:
                self._behind.owed = ""  # whatever was being written, by an earlier owner too, is in this one
            if self._predecessors.exist():
                self._recovery.taken_over()  # memory was handed over, and all is as it should be
                self._mended = ""
            else:
                self._mended = f"{lacking}; memory was whole, and is backed up anew"

    def _slide(self, position: int | None) -> None:
        """Note where a failure lies in a sliding window, or that it has left it."""
        shard, windowing = self._shard, self._promise.windowing
        if not isinstance(windowing, Sliding) or position is None or shard.failures == shard.forgotten:
            return
        if shard.failed_at is None:
            shard.remember(window=None, forgotten=shard.forgotten, failed_at=position)
        elif shard.failed_at <= position - windowing.extent:
            shard.remember(window=None, forgotten=shard.failures, failed_at=None)

    def _due(self, divergence: float, allowed: float, tuples: int) -> bool:
        shard, saving = self._shard, self._saving
        turned = shard.cleared or (shard.window, shard.forgotten) != self._stood
        if turned and not self._promise.policy.goes_back_with_job:
            self._resolve(wait=True)
            return True
        if self._behind is not None and self._behind.owed:
            return True
        if self._again and saving is not None:
            # The backup of an earlier attempt may be noted elsewhere already, and its batch be committed: it may be
            # replaced, not taken back.
            with saving.at_stake("looking at its backups"):
                if saving.store.contains(self._batch):
                    return True
        idle = tuples == 0  # then it is worth a look whether anything changed all the same
        committing = Committing(
            tuples=tuples,
            changed=idle and (shard.seq != self._knew or any(array.changed_chunks().size for array in shard.arrays)),
            divergence=divergence,
            threshold=allowed,
            tuples_since_backup=shard.tuples_since_backup,
            batches_since_backup=self._batch - shard.backup_version,
            since_backup_s=self._clock.monotonic_s() - shard.backup_time_s,
            checkpoint=self._orders.checkpoint,
        )
        if self._busy:
            self._resolve(wait=False)  # it may have been done meanwhile
        return self._promise.policy.is_due(committing) and not self._busy

    def _tuples_per_s(self) -> float:
        """How many tuples came since the last backup that counts, in a second; 0 if no time has passed."""
        since_s = self._clock.monotonic_s() - self._shard.backup_time_s
        return self._shard.tuples_since_backup / since_s if since_s > 0 else 0.0

    def _write_behind(self, saving: Saving, *, divergence: float, tuples_per_s: float) -> bool:
        """Have the backup written while further batches run, if it may be; whether it is."""
        behind = self._behind
        turned = self._shard.cleared or (self._shard.window, self._shard.forgotten) != self._stood
        if behind is None or turned or self._again or behind.owed:
            return False
        if not saving.start_behind(self._batch, behind, divergence=divergence, tuples_per_s=tuples_per_s):
            return False
        with saving.at_stake("writing its backup"):
            self._written = behind.written_already() or self._written
        return True

    @property
    def _busy(self) -> bool:
        """Whether the store is to be left alone."""
        return self._behind is not None and self._behind.busy

    def _resolve(self, *, wait: bool) -> None:
        """Let a backup count that was written meanwhile; wait until nobody writes, if the store is needed."""
        if self._behind is None or self._saving is None:
            return
        with self._saving.at_stake("looking at its backups"):
            found = self._behind.resolve(wait=wait)
        if found is not None:
            self._written = found
        if self._behind.owed:
            self._mended = f"{self._behind.owed}; memory was whole, and is backed up anew"

    def end(self) -> None:
        """No further batch is applied here: wait for what is being written, within limits."""
        if self._behind is not None:
            self._behind.end()

    def _step(self, step: Step) -> None:
        self._observe(step, self._promise.operator, self._promise.shard, self._batch)
