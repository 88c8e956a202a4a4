"""A protection of one's own: one declaration and one policy, both in this file, and everything else finds them."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import spillway as sw
from spillway.backup.policies import Committing, Policy, policy_of
from spillway.errors import GraphError
from spillway.graph.graph import Graph

SCHEMA = pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("key", pa.string())])
BATCHES, ROWS, LOST_AFTER = 8, 10, 5


@dataclass(frozen=True, slots=True)
class EveryFew(sw.Protection):
    """State is backed up every so many batches; with ``items``, what came since then is kept and applied again."""

    batches: int
    items: bool = False

    @property
    def keeps_items(self) -> bool:
        return self.items

    @property
    def loses_nothing(self) -> bool:
        return self.items


@policy_of.register(EveryFew)
class EveryFewPolicy(Policy[EveryFew]):
    def is_due(self, batch: Committing) -> bool:
        return batch.batches_since_backup >= self.protection.batches

    @property
    def replays_items(self) -> bool:
        return self.protection.items


@dataclass(frozen=True, slots=True)
class Forgotten(sw.Protection):
    """Declared, and nothing acts on it."""


def make(piece: int) -> pa.RecordBatch:
    seqs = np.arange(piece * ROWS, (piece + 1) * ROWS)
    return pa.RecordBatch.from_arrays([pa.array(seqs), pa.array([f"batch {piece}"] * ROWS)], schema=SCHEMA)


def counting(protect: sw.Protection) -> Graph:
    graph = sw.Graph("counting", shards=1)
    source = graph.source("in", sw.Generator(make=make, schema=SCHEMA, pieces=BATCHES))
    graph.sink("out", graph.add(sw.operators.Count("count", key="key", protect=protect), source), sw.Memory())
    return graph


def run_through_a_loss(protect: sw.Protection, folder: Path) -> tuple[sw.LocalRun, set[int]]:
    """A run that lost its memory once, and the batches that its state holds in the end."""
    with sw.LocalRun(counting(protect), state=folder / "state", backups=str(folder / "backups")) as run:
        while run.step():
            if run.batch == LOST_AFTER:
                run.wipe()
        held = {batch for batch in range(BATCHES) if run.shard("count", 0).counts.get(pa.array([f"batch {batch}"]))[0]}
    return run, held


def test_its_policy_says_when_it_is_backed_up_and_what_a_loss_costs(tmp_path: Path) -> None:
    run, held = run_through_a_loss(EveryFew(2), tmp_path)
    assert [row.batch for row in run.records() if row.backup] == [1, 3, 5, 7]
    (recovered,) = [row for row in run.records() if row.recovered]
    assert (recovered.batch, recovered.recovered_from, recovered.failures) == (LOST_AFTER, 3, 1)
    assert math.isinf(recovered.loss_max)
    assert held == set(range(BATCHES)) - {4}


def test_items_that_its_policy_wants_replayed_are_kept_and_replayed(tmp_path: Path) -> None:
    run, held = run_through_a_loss(EveryFew(3, items=True), tmp_path)
    (recovered,) = [row for row in run.records() if row.recovered]
    assert (recovered.batch, recovered.recovered_from, recovered.loss_max) == (LOST_AFTER, 2, 0.0)
    assert held == set(range(BATCHES))


def test_one_that_nothing_acts_on_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(GraphError) as refused:
        run_through_a_loss(Forgotten(), tmp_path)
    told = str(refused.value)
    assert told.startswith(
        "Operator 'count': nothing acts on the protection Forgotten, so nothing would ever be saved."
    )
    assert "Protect it by Nothing, Exact, Approximate, UpstreamBackup, Checkpoint" in told
    assert told.endswith("register a policy for it in the module that declares it (see spillway.backup.policies).")
    assert not list(tmp_path.iterdir())


def test_what_is_no_protection_is_refused_too() -> None:
    with pytest.raises(GraphError, match="Operator 'count': nothing acts on the protection str"):
        sw.operators.Count("count", key="key", protect="exact")  # type: ignore[arg-type]
