"""The judge of runs on hosts that are broken finds what it is there to find; histories are made from seeds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spillway.engine.epochs import MemoryName
from spillway.engine.owner_table import Row as OwnerRow
from spillway.soak.host_graph import NEAR, SHARDS, SINKS, THETA, Outputs, undisturbed
from spillway.soak.host_histories import GONE, Kind, history
from spillway.soak.host_judge import NewOwner, Row, Seen, judge, owns, story_of

BATCHES = 3
HOSTS = ("a", "b", "c")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), batches=BATCHES)


def row(operator: str, shard: int, batch: int) -> Row:
    return Row(
        driver=0, operator=operator, shard=shard, batch=batch, host=HOSTS[shard], epoch=0, failures=0, recovered=False
    )


def seen(wanted: Outputs) -> Seen:
    """A run in which nothing happened."""
    rows = [row(operator, shard, batch) for batch in range(BATCHES) for operator in SINKS for shard in range(SHARDS)]
    return Seen(rows=rows, outputs={sink: dict(batches) for sink, batches in wanted.items()})


def from_batch(found: Seen, batch: int, **changes: object) -> None:
    """Have other records of one shard, from a batch on."""
    found.rows = [
        replace(row, **changes) if (row.operator, row.shard) == ("exact", 0) and row.batch >= batch else row  # type: ignore[arg-type]
        for row in found.rows
    ]


def counted(table: pa.Table, more: int) -> pa.Table:
    """The same with the first count another."""
    off = pa.array([more] + [0] * (table.num_rows - 1), pa.int64())
    place = table.schema.names.index(table.schema.names[-1])
    return table.set_column(place, table.schema.field(place), pc.add(table.column(place), off))


def move(*, handed_over: bool, epoch: int = 1) -> NewOwner:
    return NewOwner(driver=0, operator="exact", shard=0, epoch=epoch, handed_over=handed_over)


def test_what_was_kept_is_not_found_broken(wanted: Outputs) -> None:
    assert judge(seen(wanted), wanted, quiet=True) == []
    moved = seen(wanted)
    from_batch(moved, 1, host="b", epoch=1)
    moved.moves.append(move(handed_over=True))
    assert judge(moved, wanted, quiet=True) == []
    recovered = seen(wanted)
    from_batch(recovered, 1, host="b", epoch=1, failures=1)
    recovered.moves.append(move(handed_over=False))
    recovered.outputs[NEAR][1] = counted(wanted[NEAR][1], -int(THETA))
    assert judge(recovered, wanted) == []
    # A batch that a driver had noted, and not committed, is done again by the next.
    again = seen(wanted)
    again.rows += [replace(row, driver=1) for row in again.rows if row.batch == BATCHES - 1]
    assert judge(again, wanted) == []
    # The last batch of one that was killed may be untold.
    untold = seen(wanted)
    untold.rows = [replace(row, driver=row.batch) for row in untold.rows if row.batch != 1]
    assert judge(untold, wanted) == []


def two_hosts_in_one_epoch(found: Seen) -> None:
    from_batch(found, 1, host="b")


def epoch_goes_back(found: Seen) -> None:
    from_batch(found, 0, epoch=2)
    from_batch(found, 2, epoch=1, host="b")


def failure_without_reason(found: Seen) -> None:
    from_batch(found, 1, failures=1)


def recovery_without_reason(found: Seen) -> None:
    from_batch(found, 1, recovered=True)


def failure_of_a_hand_over(found: Seen) -> None:
    from_batch(found, 1, host="b", epoch=1, failures=1)
    found.moves.append(move(handed_over=True))


def failure_forgotten(found: Seen) -> None:
    from_batch(found, 0, failures=1)
    from_batch(found, 2, failures=0)


def batch_left_out(found: Seen) -> None:
    found.rows = [row for row in found.rows if row.batch != 1]


def batch_not_put_out(found: Seen) -> None:
    del found.outputs["kept"][1]


def counted_twice(found: Seen) -> None:
    found.outputs["exact"][2] = counted(found.outputs["exact"][2], 1)


def row_put_out_twice(found: Seen) -> None:
    table = found.outputs["levels"][2]
    found.outputs["levels"][2] = pa.concat_tables([table, table.slice(0, 1)])


def near_counted_twice(found: Seen) -> None:
    found.outputs[NEAR][2] = counted(found.outputs[NEAR][2], 1)


def near_lost_too_much(found: Seen) -> None:
    found.outputs[NEAR][2] = counted(found.outputs[NEAR][2], -int(THETA) - 1)


def server_left(found: Seen) -> None:
    found.servers = [4711]


def part_left(found: Seen) -> None:
    found.strays = ["exact/batch=1/0a1b"]


def ended_with_an_error(found: Seen) -> None:
    found.error = "no"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (two_hosts_in_one_epoch, "Shard 0 of 'exact' was at a, b in epoch 0"),
        (epoch_goes_back, "went back from epoch 2 to 1 in batch 2"),
        (failure_without_reason, "counts a failure in batch 1 for which there is no reason"),
        (recovery_without_reason, "counts a failure in batch 1 for which there is no reason"),
        (failure_of_a_hand_over, "counts a failure in batch 1 for which there is no reason"),
        (failure_forgotten, "forgot a failure in batch 2"),
        (batch_left_out, "had batch 2 after batch 0"),
        (batch_not_put_out, "Output 'kept' has batches [0, 2], not [0, 1, 2]"),
        (counted_twice, "Output 'exact': batch 2 is another: 1 rows differ"),
        (row_put_out_twice, "Output 'levels': batch 2 is another"),
        (near_counted_twice, "1 times too often"),
        (near_lost_too_much, "lacks 61 of key"),
        (server_left, "processes [4711]"),
        (part_left, "exact/batch=1/0a1b"),
        (ended_with_an_error, "ended with an error: no"),
    ],
)
def test_what_was_broken_is_found(wanted: Outputs, broken: Callable[[Seen], None], words: str) -> None:
    found = seen(wanted)
    broken(found)
    said = judge(found, wanted)
    assert any(words in sentence for sentence in said), said


def test_where_nothing_was_lost_nothing_may_be_left_or_counted(wanted: Outputs) -> None:
    found = seen(wanted)
    from_batch(found, 1, host="b", epoch=1, failures=1)
    found.moves.append(move(handed_over=False))
    found.memory = ["exact/0000 at a"]
    assert judge(found, wanted) == []
    assert judge(found, wanted, quiet=True) == [
        "Shard 0 of 'exact' counts a failure, though nothing was lost.",
        "Memory is left at a host that does not own it: exact/0000 at a.",
    ]


@pytest.mark.parametrize(
    ("host", "shard", "epoch", "owned"),
    [("a", 0, 2, True), ("b", 0, 2, False), ("a", 0, 1, False), ("a", 1, 2, False)],
    ids=[
        "the owner's",
        "another host's",
        "an older epoch's",
        "of a shard that is no more since keys were divided anew",
    ],
)
def test_memory_counts_only_at_its_owner(host: str, shard: int, epoch: int, owned: bool) -> None:
    rows = [OwnerRow(host="a", epoch=2, given=-1)]
    assert owns(rows, host, MemoryName(shard, epoch)) is owned


def test_a_story_says_how_to_have_it_again(tmp_path: Path) -> None:
    story = story_of(["It broke."], history="much", told=["  1 s: then"], seed=7, hosts=4)
    assert story.splitlines()[0] == "History 7: It broke."
    assert "spillway soak --hosts 4 --seed 7 --minutes 0" in story


def test_histories_have_all_faults_and_one_host_always_stays() -> None:
    made = [history(seed, hosts=3) for seed in range(300)]
    assert {fault.kind for one in made for fault in one.faults} == {*Kind}
    assert {len(one.faults) for one in made} == {1, 2, 3}
    for one in made:
        gone: set[int] = set()
        for fault in one.faults:
            assert not gone & {fault.host, fault.other}
            if fault.kind in GONE and fault.back_after is None:
                gone.add(fault.host)
        assert len(gone) < 2
