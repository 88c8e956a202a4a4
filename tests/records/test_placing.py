"""Moves and waits: kept beside progress, read back as they were, and summed up by host."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.full_disk import files_no_larger_than
from tests.records.placed import moved, waited
from tests.records.progressed import progress

from spillway.errors import RecordsWarning, RunError
from spillway.records import row_log
from spillway.records.placing import MOVES_SCHEMA, WAITS_SCHEMA, Moved, Waited, hosts_json, summarise_hosts
from spillway.records.progress import ShardProgress
from spillway.records.reading import read_moves, read_progress, read_waits
from spillway.records.rundir import RunDirectory


def test_what_was_told_is_read_back_by_batch_and_time(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    moves = [moved(batch=4, shard=1, time_s=2.0), moved(batch=4, time_s=1.0), moved(batch=2, handed_over=False)]
    waits = [waited(batch=4), waited(batch=2, came_back=False)]
    directory.add_moves(moves)
    directory.add_waits(waits)
    directory.close("finished")
    assert read_moves(tmp_path) == [moves[2], moves[1], moves[0]]
    assert read_waits(tmp_path) == waits[::-1]


def test_schemas_have_every_field() -> None:
    assert MOVES_SCHEMA.names == list(Moved.__dataclass_fields__)
    assert WAITS_SCHEMA.names == list(Waited.__dataclass_fields__)


def test_on_one_machine_there_is_nothing_of_it(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    directory.add([progress(batch=0)])
    directory.add_moves([])
    directory.add_waits([])
    directory.close("finished")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "progress"]
    assert read_moves(tmp_path) == read_waits(tmp_path) == []
    (row,) = read_progress(tmp_path).rows
    assert (row.host, row.epoch) == ("", 0)


def test_progress_says_where_the_shard_was(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    directory.add([progress(batch=0, host="a", epoch=3)])
    directory.close("finished")
    (row,) = read_progress(tmp_path).rows
    assert (row.host, row.epoch) == ("a", 3)


def test_of_a_move_told_again_the_last_word_counts_and_a_later_one_of_its_epoch_is_another(tmp_path: Path) -> None:
    """A driver may be killed between telling of a move and its batch; shards divided anew begin with epoch 0 again."""
    again, later = moved(batch=4, seconds=7.0), moved(batch=9)
    for told in (moved(batch=4, seconds=1.0), again, later):
        directory = RunDirectory(tmp_path, graph="words")
        directory.add_moves([told])
        directory.close("stopped")
    assert read_moves(tmp_path) == [again, later]


def test_parts_put_together_and_not_yet_removed_count_once(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path, graph="words")
    directory.add_moves([moved()])
    directory.add_waits([waited(), waited(time_s=9.0)])
    directory.close("stopped")
    for what in ("moves", "waits"):
        part = tmp_path / what / "part-000000.log"
        part.with_name("part-000001.log").write_bytes(part.read_bytes())
    assert (len(read_moves(tmp_path)), len(read_waits(tmp_path))) == (1, 2)


def test_they_have_a_limit_and_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "ROLL_BYTES", 20_000)
    monkeypatch.setattr(row_log, "KEPT_BYTES_MAX", 10_000)
    directory = RunDirectory(tmp_path, graph="words")
    for batch in range(1_000):
        directory.add_moves([moved(batch=batch)])
        directory.add_waits([waited(batch=batch)])
    directory.close("finished")
    for what, found in (("moves", read_moves(tmp_path)), ("waits", read_waits(tmp_path))):
        assert sum(part.stat().st_size for part in (tmp_path / what).iterdir()) <= 30_000
        assert [row.batch for row in found] == list(range(1_000))[-len(found) :]
        assert len(found) < 1_000


def test_a_full_disk_does_not_stop_the_run_and_what_was_let_go_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_log, "WAITING_ROWS_MAX", 3)
    directory = RunDirectory(tmp_path, graph="words")
    with files_no_larger_than(0):
        with pytest.warns(RecordsWarning, match="The run goes on"):
            directory.add_moves([moved(batch=0)])
        directory.add_moves([moved(batch=batch) for batch in range(1, 5)])
        directory.add_waits([waited(batch=0)])
    directory.close("finished")
    assert [row.batch for row in read_moves(tmp_path)] == [2, 3, 4]
    assert read_waits(tmp_path) == [waited(batch=0)]
    assert json.loads((tmp_path / "manifest.json").read_text())["records_lost"] == 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "moves" / "part-000000.log").mkdir(parents=True)
    with pytest.raises(RunError, match="its moves cannot be read"):
        read_moves(tmp_path)


hosts = st.sampled_from(["", "a", "b", "c"])
reported = st.builds(
    lambda shard, batch, host, tuples: progress(shard=shard, batch=batch, host=host, tuples=tuples, state_bytes=tuples),
    st.integers(0, 2),
    st.integers(0, 5),
    hosts,
    st.integers(0, 9),
)
moving = st.builds(
    lambda source, target, handed: moved(source=source, target=target, handed_over=handed),
    st.sampled_from("abd"),
    st.sampled_from("abd"),
    st.booleans(),
)
waiting = st.builds(lambda host, seconds: waited(host=host, seconds=seconds), st.sampled_from("ae"), st.integers(0, 9))


@given(
    st.lists(reported, unique_by=lambda row: (row.shard, row.batch)),
    st.lists(moving, max_size=6),
    st.lists(waiting, max_size=6),
)
def test_a_summary_is_what_counting_host_by_host_gives(
    rows: list[ShardProgress], moves: list[Moved], waits: list[Waited]
) -> None:
    placed = [row for row in rows if row.host]
    last = {
        shard: max((r for r in placed if r.shard == shard), key=lambda r: r.batch)
        for shard in {r.shard for r in placed}
    }
    found = summarise_hosts(rows, moves, waits)
    named = (
        {row.host for row in placed} | {m.source for m in moves} | {m.target for m in moves} | {w.host for w in waits}
    )
    assert [one.host for one in found] == sorted(named)
    for one in found:
        here = [row for row in last.values() if row.host == one.host]
        assert (one.shards, one.state_bytes) == (len(here), sum(row.state_bytes for row in here))
        assert one.tuples == sum(row.tuples for row in placed if row.host == one.host)
        assert one.moved_to == sum(move.target == one.host for move in moves)
        assert one.moved_from == sum(move.source == one.host for move in moves)
        assert one.recovered == sum(move.target == one.host and not move.handed_over for move in moves)
        assert one.waits == sum(wait.host == one.host for wait in waits)
        assert one.waited_s == sum(wait.seconds for wait in waits if wait.host == one.host)


def test_programs_are_told_all_of_it() -> None:
    found = json.loads(json.dumps(hosts_json([progress(host="b", tuples=3)], [moved()], [waited()])))
    assert [(one["host"], one["tuples"]) for one in found["hosts"]] == [("a", 0), ("b", 3)]
    assert Moved(**found["moves"][0]) == moved()
    assert Waited(**found["waits"][0]) == waited()
