"""Random aggregations, as sw.protect runs them and by Spark alone: not one result may differ."""

from collections.abc import Iterator
from typing import Any

import pytest

from spillway.operators.held import HeldWhole
from spillway.soak.queries import random_query
from spillway.soak.query_world import QueryWorld, compare

pytestmark = pytest.mark.spark

QUERIES, PARTS = 500, 10


@pytest.fixture(scope="module")
def world(spark: Any) -> Iterator[Any]:
    with QueryWorld(spark) as world:
        yield world


@pytest.mark.parametrize("part", range(PARTS))
def test_no_result_differs(part: int, world: QueryWorld) -> None:
    broken = {}
    for seed in range(part, QUERIES, PARTS):
        found = world.live(random_query(seed))
        if found.story:
            broken[seed] = found.story
    assert not broken, "replay: spillway soak queries --schedules 1 --seed SEED"


def test_a_column_that_forgets_is_found(world: QueryWorld, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put = HeldWhole.put

    def forgetful(held: Any, tables: Any, positions: Any, values: Any, valid: Any, known: Any) -> Any:
        return put(held, tables, positions, values, valid & ~known, known)

    monkeypatch.setattr(HeldWhole, "put", forgetful)
    assert any(compare(random_query(seed), spark).difference for seed in range(20))
