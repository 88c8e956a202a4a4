"""Operators that run in one task, and so must be on one host; and the durable table of owners in their terms.

Operators of one stage run in one task for each shard number, so they move together. They are a *group*, which is called
after the first of them that has state, and its shards are the tasks of the stage.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spillway.engine.owner_table import OwnerTable, Row
from spillway.graph.checked import CheckedGraph
from spillway.graph.stages import stages
from spillway.protocols.placement import Owner, Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The operators with state of one stage."""

    name: str  # that of the first of them
    stage: int
    operators: Mapping[str, int]  # and how many shards each has
    shards: int  # the most that one has
    delay_max_s: float

    def at(self, index: int) -> list[str]:
        """The operators that have a shard of this number."""
        return [operator for operator, shards in self.operators.items() if index < shards]


def groups_of(graph: CheckedGraph) -> dict[str, Group]:
    """The groups of a graph, by name."""
    found = {}
    for stage in stages(graph)[1:]:
        stateful = {name: graph.shards_of(name) for name in stage.operators if graph.operators[name].stateful}
        name = next(iter(stateful))
        late = min(graph.delay_max_of(operator).total_seconds() for operator in stateful)
        found[name] = Group(name=name, stage=stage.index, operators=stateful, shards=stage.partitions, delay_max_s=late)
    return found


def as_table(
    groups: Iterable[Group],
    *,
    owners: Mapping[Shard, Owner],
    given: Mapping[Shard, int],
    memories: Mapping[str, str],
) -> OwnerTable:
    """What is to be noted: by operator, since another version of the graph may have other stages."""
    rows = {
        operator: tuple(
            Row(
                host=owners[group.name, index].host,
                epoch=owners[group.name, index].epoch,
                given=given.get((group.name, index), -1),
            )
            for index in range(shards)
        )
        for group in groups
        for operator, shards in group.operators.items()
    }
    return OwnerTable(memories=memories, rows=rows)


def from_table(noted: OwnerTable, groups: Iterable[Group]) -> tuple[dict[Shard, Owner], dict[Shard, int]]:
    """The owners that are noted, and the highest epochs that were given out; no owners if some are missing.

    Nor are there any if an operator had another number of shards (see ``engine.gathering``).

    Operators that have come into one stage since may have different owners: then they begin an epoch of their own, and
    those whose memory is not there recover.
    """
    owners: dict[Shard, Owner] = {}
    given: dict[Shard, int] = {}
    whole = True
    for group in groups:
        whole &= all(len(noted.rows.get(name, ())) in (0, shards) for name, shards in group.operators.items())
        for index in range(group.shards):
            rows = [noted.rows[name][index] for name in group.at(index) if index < len(noted.rows.get(name, ()))]
            if not rows:
                whole = False
                continue
            highest = max(max(row.epoch, row.given) for row in rows)
            agreed = len({(row.host, row.epoch) for row in rows}) == 1 and len(rows) == len(group.at(index))
            owners[group.name, index] = Owner(rows[0].host, rows[0].epoch if agreed else highest + 1)
            if not agreed or highest > rows[0].epoch:
                given[group.name, index] = highest
    if not whole:
        given |= {shard: max(owner.epoch, given.get(shard, -1)) for shard, owner in owners.items()}
        return {}, given
    return owners, given
