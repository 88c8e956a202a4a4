"""How far the state of operators gets from a backup as time goes by: what a theta is worth in seconds.

A graph is run with checkpoints as far apart as the longest age that is asked for, by a clock that moves once a batch,
so in every batch each shard tells how far it is from the last one, in its own metric. Of all stretches of an age the
least and the most are kept: a backup that is made when the state has diverged by the least is never older than that
age, and no sooner due than the most says. The first stretch, in which state only comes to be, is left out.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from spillway.backup.promise import Promise
from spillway.clock import ManualClock
from spillway.engine.kernels import kernel
from spillway.errors import RunError
from spillway.files.durable import write_whole
from spillway.graph.checked import CheckedGraph
from spillway.graph.graph import Graph
from spillway.graph.protections import Approximate, Checkpoint
from spillway.inject.full_run import batches_of, full_run
from spillway.model.terms import Drift
from spillway.records.progress import ShardProgress

AGES_S = (2.0, 10.0, 60.0)
STRETCHES = 4  # of the longest age, the first of which is left out

_BATCH = timedelta(seconds=1)  # by the clock of such a run

Drifts = Mapping[str, tuple[Drift, ...]]


def threshold_of_one(graph: CheckedGraph, name: str) -> float:
    """What a shard of an operator that has not failed yet may diverge under a theta of 1."""
    operator, shards = kernel(graph.operators[name]), graph.shards_of(name)
    promise = Promise(
        operator=name,
        shard=0,
        shards=shards,
        protection=Approximate(theta=1.0),
        adding_up=operator.shards_adding_up(shards),
        downstream_outputs_max=graph.downstream_outputs_max(name),
        windowing=operator.windowing,
    )
    return promise.threshold(0)


def measure_drifts(graph: Graph, *, ages_s: Sequence[float], duration_s: float) -> dict[str, tuple[Drift, ...]]:
    """The drifts of all operators with state, of those ages for which input that lasts so long is enough."""
    clock, batches = ManualClock(), batches_of(graph.checked())
    batch_s = duration_s / max(batches, 1)
    ages = {math.ceil(age_s / batch_s - 1e-9): age_s for age_s in ages_s if 2 * age_s < duration_s}  # by batches
    if not ages:
        return {}
    apart = Checkpoint(every=max(ages) * _BATCH, keep_stale=True)
    with full_run(graph.protected(apart), clock=clock) as run:
        while run.step():
            clock.advance(_BATCH.total_seconds())
        rows = run.records()
    found: dict[str, tuple[Drift, ...]] = {}
    for name in dict.fromkeys(row.operator for row in rows):
        seen = _by_age([row for row in rows if row.operator == name])
        found[name] = tuple(
            Drift(age_s=age_s, least=min(seen[age]), most=max(seen[age]))
            for age, age_s in sorted(ages.items())
            if seen.get(age) and math.isfinite(max(seen[age]))
        )
    return found


def _by_age(rows: Sequence[ShardProgress]) -> dict[int, list[float]]:
    """The divergences of the shards of one operator, by how many batches ago the last backup was."""
    found: dict[int, list[float]] = {}
    last: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        if row.shard in last:
            found.setdefault(row.batch - last[row.shard], []).append(row.divergence)
        if row.backup:
            last[row.shard] = row.batch
    return found


def keep_drifts(path: Path, drifts: Drifts) -> None:
    """Write drifts to a file."""
    told = {name: [asdict(drift) for drift in of] for name, of in drifts.items()}
    write_whole(path, (json.dumps(told, indent=1, allow_nan=False) + "\n").encode(), private=False)


def kept_drifts(path: Path) -> Drifts:
    """The drifts in a file."""
    try:
        given = json.loads(path.read_bytes())
        return {name: tuple(Drift(**drift) for drift in of) for name, of in given.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunError(f"{path} cannot be read as drifts ({error}). Remove it, and they are measured again.") from error
