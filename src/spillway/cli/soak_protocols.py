"""``spillway soak protocols`` and ``soak failover``: the state machines of jobs in worlds of pretence, at random."""

import argparse

from spillway.cli.soaking import SEED, on_pool, tell
from spillway.soak.failover_walks import Walks, walk_some
from spillway.soak.job_histories import JobHistories, live_some_jobs

_PER_TASK = 250
_KEPT, _BROKEN = "every rule was kept", "broke a rule"


def checkpoints(options: argparse.Namespace) -> int:
    """Jobs joined by stream logs, against the rules of their checkpoints."""
    totals = JobHistories()
    elapsed_s = on_pool(options, totals, live_some_jobs, count=options.schedules, per_task=_PER_TASK)
    sentence = (
        f"{totals.schedules:,} schedules with {totals.batches:,} batches, {totals.checkpoints:,} checkpoints, "
        f"{totals.failures:,} failures of a job, {totals.cut_off:,} of them between two actions, and "
        f"{totals.held_up:,} batches held up by a full log"
    )
    tables = {"graphs": totals.shapes, "jobs": totals.protocols}
    replay = f"spillway soak protocols --seed {SEED} --schedules 1"
    return tell(options, totals, elapsed_s, sentence, kept=_KEPT, broken=_BROKEN, tables=tables, replay=replay)


def failover(options: argparse.Namespace) -> int:
    """Groups of replicas, against the rules of who is active."""
    totals = Walks()
    elapsed_s = on_pool(options, totals, walk_some, count=options.schedules, per_task=_PER_TASK)
    sentence = (
        f"{totals.schedules:,} schedules with {totals.crashes:,} crashes of a replica, {totals.failovers:,} failovers, "
        f"{totals.let_go:,} replicas let go, and {totals.lost:,} batches lost by groups that run freely"
    )
    replay = f"spillway soak failover --seed {SEED} --schedules 1"
    return tell(options, totals, elapsed_s, sentence, kept=_KEPT, broken=_BROKEN, replay=replay)
