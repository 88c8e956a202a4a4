"""Looking at a shard of a local run: what there is, or a sentence why not; never memory made by looking."""

from pathlib import Path

import pytest
from tests.local.test_handles import ROWS, SCHEMA, build, make_words

import spillway as sw
from spillway.errors import GraphError, StateError


def test_what_does_not_exist_is_refused_in_words(tmp_path: Path) -> None:
    with sw.LocalRun(build(), backups=str(tmp_path)) as run:
        run.step()
        with pytest.raises(GraphError, match=r"Graph 'handles' has no operator 'cuont'; it has count, sums\."):
            run.shard("cuont", 0)
        for index in (2, -1):
            with pytest.raises(GraphError, match=rf"'count' has 2 shards, 0 to 1; there is no shard {index}\."):
                run.shard("count", index)


def test_an_operator_without_state_has_nothing_to_look_at() -> None:
    graph = sw.Graph("stateless")
    source = graph.source("in", sw.Generator(make=make_words, schema=SCHEMA, pieces=1))
    same = graph.add(sw.operators.Apply("same", lambda batch: batch, SCHEMA), source)
    graph.sink("out", graph.add(sw.operators.Count("count", key="word", protect=sw.Nothing()), same), sw.Discard())
    with sw.LocalRun(graph) as run:
        run.run()
        with pytest.raises(GraphError, match=r"Operator 'same' keeps no state, so it has no shards; count does\."):
            run.shard("same", 0)


def total(run: sw.LocalRun) -> int:
    return sum(int(run.shard("count", shard).counts.items()[1].sum()) for shard in range(2))  # type: ignore[attr-defined]


def test_memory_that_was_lost_is_not_shown_as_empty(tmp_path: Path) -> None:
    with sw.LocalRun(build(), backups=str(tmp_path)) as run:
        assert total(run) == 0  # before the first batch, that is the state
        run.step()
        assert total(run) == ROWS
        run.wipe()
        with pytest.raises(StateError, match=r"Operator 'count', shard 0, has no memory in .*: it was lost"):
            run.shard("count", 0)
        assert {path.name for path in run.state.rglob("*") if path.is_file()} == {
            "owner.json",
            ".0000.lock",
            ".0001.lock",
        }
        run.step()
        assert total(run) == 2 * ROWS
