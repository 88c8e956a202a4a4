"""What is known of each shard from outside: which batches it must hold, what it lost, what it is still bound to."""

import math
from dataclasses import dataclass, field

from spillway.backup.promise import Loss
from spillway.records.progress import ShardProgress
from spillway.soak.blocks import Kept
from spillway.soak.demands import Demands, demands_on
from spillway.soak.recording import Given


class PromiseBrokenError(AssertionError):
    """A run did what its protection rules out: a fault of Spillway's own."""


def demand(kept: bool, otherwise: str) -> None:
    if not kept:
        raise PromiseBrokenError(otherwise)


@dataclass(slots=True, kw_only=True)
class Memory:
    """One shard of one operator."""

    kept: Kept
    shard: int
    given: dict[int, Given] = field(default_factory=dict)  # of each batch, in the attempt that counted
    holds: tuple[int, ...] = ()  # the batches in its state, where a protection lets some be lost
    lost: bool = False  # its memory is gone, and it has not seen that yet
    felt_from: list[int] = field(default_factory=list)  # the batch that began after each loss it saw
    ended: dict[int, bool] = field(default_factory=dict)  # whether a hopping window ended in a batch
    recoveries_cut_short: int = 0
    tampered: bool = False  # a file of its backups was damaged
    void: bool = False  # it has said that it lost something nobody can bound
    untold: str = ""  # damage that it has seen and that no progress has told of
    _held: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the batches in its state after each batch
    _committed_s: dict[int, float] = field(default_factory=dict)
    _recovered: bool = False

    @property
    def name(self) -> str:
        return f"{self.kept.name}, shard {self.shard}"

    @property
    def demands(self) -> Demands:
        return demands_on(self.kept.protection)

    @property
    def losses(self) -> int:
        return len(self.felt_from)

    @property
    def confessions(self) -> tuple[str, ...]:
        """What need not be as in a shadow, because it says that something was lost."""
        return self.kept.confessions if self.losses and not self.demands.all_batches else ()

    def losses_felt(self, batch: int) -> int:
        """Those whose cost can be in the state after a batch: a hopping window forgets what came before it."""
        last_end = max((earlier for earlier, ended in self.ended.items() if ended and earlier <= batch), default=-1)
        return sum(begun > last_end for begun in self.felt_from)

    def losses_said(self, batch: int) -> int:
        """Those whose cost can be in what a batch puts out: what it says of a window that ends in it, too."""
        return max(self.losses_felt(batch - 1), self.losses_felt(batch))

    def batches(self, batch: int) -> tuple[int, ...]:
        """The batches a shadow must hold to be compared with this shard after ``batch``."""
        return tuple(range(batch + 1)) if self.demands.all_batches else self.holds

    # -- events -----------------------------------------------------------------------------------------------

    def opened(self, batch: int) -> None:
        self.holds = tuple(held for held in self.holds if held != batch)
        if self.lost and batch > 0:
            demand(self._recovered, f"{self.name} lost its memory and did not notice at batch {batch}")
            self.felt_from.append(batch)
        self.lost = self._recovered = False

    def backed_up(self, batch: int) -> None:
        """What it holds is durable, whether or not it commits: a task that was given up too early may die before."""
        self._held[batch] = (*self.holds, batch)

    def committed(self, batch: int, *, now_s: float) -> None:
        self.holds += (batch,)
        self._held[batch] = self.holds
        self._committed_s[batch] = now_s

    def cut_short(self) -> None:
        """An attempt ended while this shard was being opened."""
        self.recoveries_cut_short += self.lost
        self._recovered = False

    def felt_after(self, batch: int, *, but: int) -> None:
        """All losses but the first so many count from after a batch: its backup knows of none of them."""
        self.felt_from[but:] = [batch + 1] * (self.losses - but)

    def recovered(self, loss: Loss) -> None:
        """It is about to begin ``loss.batch`` from a backup, or from nothing."""
        demand(self.lost, f"{self.name} recovered at batch {loss.batch}, though nothing was lost")
        demand(loss.backup_batch < loss.batch, f"{self.name} recovered from a batch to come: {loss}")
        self._recovered = True
        damaged = bool(loss.damage) or loss.lost_chunks > 0
        demand(self.tampered or not damaged, f"{self.name} reports damage where there is none: {loss}")
        demands = self.demands
        if demands.nothing_lost:
            demand(self.tampered or loss.divergence_max == 0, f"{self.name} may have lost something: {loss}")
        if demands.theta is not None:
            demand(self.tampered or math.isfinite(loss.divergence_max), f"{self.name} has no bound: {loss}")
        self.untold = loss.damage or self.untold
        self.void |= math.isinf(loss.divergence_max) and (damaged or demands.all_batches)
        if not demands.all_batches and not self.void:
            self._check_interval(demands, loss)
        self.holds = self._held.get(loss.backup_batch, ())
        if damaged:  # what is left is saved anew, as the batch before
            self._held[loss.batch - 1] = self.holds

    def told(self, progress: ShardProgress) -> None:
        """What the progress of a batch says of it."""
        demand(not self.untold or bool(progress.damage), f"{self.name} does not tell of damage it saw: {self.untold}")
        self.untold = ""
        if not self.tampered and self.kept.protection.keeps_backups:
            most = self.losses + self.recoveries_cut_short
            demand(
                self.losses <= progress.failures <= most,
                f"{self.name} lost its memory {self.losses} times, and {self.recoveries_cut_short} recoveries were cut "
                f"short; {progress.failures} failures are on record",
            )

    def _check_interval(self, demands: Demands, loss: Loss) -> None:
        """What one failure cost: the batches after the backup."""
        missing = [held for held in self.holds if loss.backup_batch < held < loss.batch]
        if not missing:
            return
        tuples = sum(batch.num_rows for held in missing for _, batch in self.given[held].tuples())
        elapsed_s = self._committed_s[missing[-1]] - self._committed_s[missing[0]]
        few_enough = tuples < demands.lost_tuples_below and elapsed_s < demands.lost_s_below
        demand(few_enough, f"{self.name} lost batches {missing}: {tuples} tuples, {elapsed_s} s")
